//go:build unix

package files

import (
	"errors"
	"fmt"
	"os"
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
		return fmt.Errorf("%w: %s is owned by user %d, not by this user (%d)", ErrPlace, dir, stat.Uid, os.Geteuid())
	case info.Mode()&0o022 != 0:
		return fmt.Errorf("%w: other users can write to %s (if you trust its files, run: chmod 700 %s)", ErrPlace, dir, dir)
	case info.Mode()&0o055 != 0:
		return os.Chmod(dir, 0o700) //nolint:security // a directory needs its x bit
	default:
		return nil
	}
}

// FlushDir waits until the names in a directory are on disk.
func FlushDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteOnce writes with a single call of the system. If only a part fits, it returns an error and does not
// write the rest: another process may have written meanwhile.
func WriteOnce(f *os.File, data []byte) error {
	for {
		n, err := unix.Write(int(f.Fd()), data)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return &os.PathError{Op: "write", Path: f.Name(), Err: err}
		case n < len(data):
			return &os.PathError{Op: "write", Path: f.Name(), Err: fmt.Errorf("only %d of %d bytes fit: %w", n, len(data), unix.ENOSPC)}
		default:
			return nil
		}
	}
}
