//go:build unix

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// OnlyRoot returns an error unless only root can change the file.
func OnlyRoot(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner is unknown")
	case st.Uid != 0:
		return fmt.Errorf("it is owned by user %d, not by root", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("users other than root can write to it (mode %04o)", info.Mode().Perm())
	}
	return nil
}

// Mine returns an error if the owner of the file is neither this user nor root, or if other users
// can write it.
func Mine(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner is unknown")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it is owned by user %d", st.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("it is writable by other users (mode %04o)", info.Mode().Perm())
	}
	return nil
}

// maxLinks is the maximum number of symbolic links in a path.
const maxLinks = 40

// OnlyRootPath returns an error if a user other than root can change the target of an absolute path,
// through a directory on the path, a link, or a directory on the path of a link. A missing file is
// not an error. A directory that all users can write is accepted if it has the sticky bit, and if
// root owns it and the next element of the path.
func OnlyRootPath(name string) error {
	if !filepath.IsAbs(name) {
		return fmt.Errorf("%s is not an absolute path", name)
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
		case "..": // in a link; its parent directories are already checked
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
			return fmt.Errorf("%s is a symbolic link that is not owned by root", next)
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s leads through too many symbolic links", name)
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

// step checks one element of a path; more reports whether others follow. In a sticky directory of
// root, other users cannot replace a file of root, so step accepts it: Path checks the next
// element.
func step(name string, more bool) error {
	info, err := os.Stat(name)
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); more && ok && st.Uid == 0 && info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
			return nil
		}
		err = OnlyRoot(info)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
