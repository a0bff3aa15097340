package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrPlace means that a directory or file is not safe to write to.
var ErrPlace = errors.New("not safe to write to")

// PrivateDir creates a directory for this user alone, or checks the existing one: no other user may be
// able to put files or links into it. Errors are [ErrPlace], or of the file system.
func PrivateDir(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			info, err = os.Lstat(dir)
		}
	}
	switch {
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%w: %s is a symbolic link, and its creator is unknown", ErrPlace, dir)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", ErrPlace, dir)
	}
	return checkOwner(dir, info)
}

// OpenRegular opens a regular file; a new one gets the mode 0600. Opening a pipe could block until the
// agent continues without its guards, and a link could lead to another file: both are refused.
func OpenRegular(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|openNoFollow|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrPlace, name)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
