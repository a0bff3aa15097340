package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ready creates the directory, or checks the existing one: no other user may be able to put files
// or links into it.
func ready(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			info, err = os.Lstat(dir)
		}
	}
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link, and its creator is unknown", dir)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	return checkOwner(dir, info)
}

// openRegular opens a regular file. A link could lead to another file, and opening a pipe could
// block forever.
func openRegular(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|openNoFollow|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
