//go:build unix

package install

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysStat(info fs.FileInfo) (*syscall.Stat_t, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	return st, ok
}

// keepOwner gives the new file the owner of the old one, if that differs and is permitted.
func keepOwner(f *os.File, old fs.FileInfo) {
	if st, ok := sysStat(old); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		_ = f.Chown(int(st.Uid), int(st.Gid)) // usually permitted for root only
	}
}

// foreignOwner returns the owner of a file, and whether that is another user.
func foreignOwner(info fs.FileInfo) (uid int, foreign bool) {
	st, ok := sysStat(info)
	if !ok {
		return 0, false
	}
	return int(st.Uid), int(st.Uid) != os.Geteuid()
}

// syncDir makes a rename in the directory durable.
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
