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
)

// lockFor makes this the one daemon that listens on a socket, from before the socket is
// there until after it is gone: of two that begin at once, each would take the other's
// socket for one that is left over. The lock ends with the process. wait is for those who
// only look whether it is held.
func lockFor(socket string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(lockOf(socket), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%w: it listens on %s", ErrRunning, socket), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

func lockOf(socket string) string { return filepath.Join(filepath.Dir(socket), "lock") }

// private refuses a directory that is not this user's alone.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%s is no directory: move it away", dir)
	case ok && int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to user %d, and this is user %d: who owns it decides who listens there", dir, stat.Uid, os.Getuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be reached by others than its owner: run \"chmod 700 %s\"", dir, dir)
	}
	return nil
}
