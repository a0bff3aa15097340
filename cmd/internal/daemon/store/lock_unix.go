//go:build unix

package store

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const openNoFollow = unix.O_NOFOLLOW

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
		return os.Chmod(dir, 0o700) //nolint:security // a directory needs its x bit
	default:
		return nil
	}
}
