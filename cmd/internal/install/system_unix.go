//go:build unix

package install

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock on an open file if nobody holds it. The system gives
// it back when the file is closed, also if the process dies.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

func sysStat(info fs.FileInfo) (*syscall.Stat_t, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	return st, ok
}

// keepOwner gives the new file the owner of the old one, where that differs and
// we may.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := sysStat(old); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		_ = f.Chown(int(st.Uid), int(st.Gid)) // only root may in general
	}
}

// foreignOwner returns the user a file belongs to, if that is not who runs us.
func foreignOwner(info fs.FileInfo) (uid int, foreign bool) {
	st, ok := sysStat(info)
	if !ok {
		return 0, false
	}
	return int(st.Uid), int(st.Uid) != os.Geteuid()
}

// syncDir makes a rename inside the directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

func isRoot() bool { return os.Geteuid() == 0 }
