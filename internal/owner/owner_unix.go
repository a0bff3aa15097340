//go:build unix

// Package owner tells whether a file is one's own, or root's alone. Call [Root] or
// [Mine] with what Stat says of a file that is open already, since what a name leads
// to can change in between, and [Path] for what leads to it.
package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// Mine returns an error if the file belongs to neither this user nor root, or if
// others can write it.
func Mine(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("who owns it cannot be told")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("it can be written by other users (mode %04o)", info.Mode().Perm())
	}
	return nil
}

// maxLinks is how many links a path may lead over.
const maxLinks = 40

// Path returns an error if anybody but root can change what an absolute path leads to:
// a directory on the way, or a link, or that to which one leads. What is not there is
// no error. A directory that everybody can write, and whose sticky bit keeps them from
// what is not theirs, is one only where what comes next is not root's.
func Path(name string) error {
	if !filepath.IsAbs(name) {
		return fmt.Errorf("%s is no absolute path", name)
	}
	rest := strings.Split(filepath.Clean(name), "/")[1:]
	at := "/"
	if err := step(at, true); err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..": // of a link; what it leads up from was looked at
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if err := step(next, len(rest) > 0); err != nil {
				return err
			}
			at = next
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
			return fmt.Errorf("%s is a link that is not root's", next)
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s leads over too many links", name)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// step looks at one file on a path. Who may write into a sticky directory still cannot
// exchange what is root's in it, and what is there is looked at next.
func step(name string, more bool) error {
	info, err := os.Stat(name)
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); more && ok && st.Uid == 0 && info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
			return nil
		}
		err = Root(info)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
