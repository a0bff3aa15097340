//go:build unix

package spool

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

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
