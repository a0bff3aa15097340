//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const openNoFollow = unix.O_NOFOLLOW

var errHeld = errors.New("held")

// lockFile locks an open file, or returns errHeld. The lock ends when the file is closed or the
// process ends.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		default:
			return err
		}
	}
}

// checkOwner returns an error if other users could put files into the directory. If they could
// only read this user's directory, it removes that permission.
func checkOwner(dir string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s is owned by user %d, not by this user (%d)", dir, stat.Uid, os.Geteuid())
	case info.Mode()&0o022 != 0:
		return fmt.Errorf("other users can write to %s (if you trust its files, run: chmod 700 %s)", dir, dir)
	case info.Mode()&0o055 != 0:
		return os.Chmod(dir, 0o700) //nolint:gosec // G302: a directory needs its x bit
	default:
		return nil
	}
}
