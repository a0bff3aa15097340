//go:build unix

// Package owner tells whether a file is root's alone. Call [Root] with what Stat says
// of a file that is open already: what a name leads to can change in between.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Root returns an error if anybody but root can change the file.
func Root(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("who owns it cannot be told")
	case st.Uid != 0:
		return fmt.Errorf("it belongs to user %d and not to root", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others than root can write it (mode %04o)", info.Mode().Perm())
	}
	return nil
}
