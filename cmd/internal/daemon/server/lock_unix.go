//go:build linux || darwin

package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// lockFor takes the lock of a socket, so that only one daemon listens on it. A daemon holds the
// lock from before it creates the socket until after it removes it. Without the lock, two daemons
// that start together would each take the other's socket for a stale one. The lock ends with the
// process. wait is how long to wait, because other processes hold the lock briefly to check it.
func lockFor(socket string, wait time.Duration) (*files.Lock, error) {
	f, err := os.OpenFile(lockOf(socket), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
		lock, err := files.TryLock(f, files.Exclusive)
		switch {
		case err == nil:
			return lock, nil
		case !errors.Is(err, files.ErrLocked):
			return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", f.Name(), err), f.Close())
		case time.Now().After(end):
			return nil, errors.Join(fmt.Errorf("%w: it listens on %s", ErrRunning, socket), f.Close())
		}
	}
}

func lockOf(socket string) string { return filepath.Join(filepath.Dir(socket), "lock") }

// private returns an error if users other than this one could use the directory.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory: move it away", dir)
	case ok && int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s is owned by user %d, not by this user (%d): its owner could replace the socket of the daemon", dir, stat.Uid, os.Getuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("other users can access %s: run \"chmod 700 %s\"", dir, dir)
	}
	return nil
}
