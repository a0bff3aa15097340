//go:build unix

package spool

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

const openNoFollow = unix.O_NOFOLLOW

// checkOwner returns an error if other users could put files into a directory. If they could only
// read this user's directory, it removes that permission.
func checkOwner(dir string, info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %s is owned by user %d, not by this user (%d)", errPlace, dir, stat.Uid, os.Geteuid())
	case info.Mode()&0o022 != 0:
		return fmt.Errorf("%w: other users can write to %s (if you trust its files, run: chmod 700 %s)", errPlace, dir, dir)
	case info.Mode()&0o055 != 0:
		return os.Chmod(dir, 0o700) //nolint:security // a directory needs its x bit
	default:
		return nil
	}
}

// inUse reports whether a rename failed because another process has the file open, which is not
// an error here.
func inUse(error) bool { return false }

// detach starts a program in its own session.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// access returns an error if this user cannot write to a file, or create files in a directory.
func access(name string, dir bool) error {
	mode := uint32(unix.W_OK)
	if dir {
		mode |= unix.X_OK
	}
	if err := unix.Access(name, mode); err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

func rootDir(string) string { return "/" }
