// Package readfile reads regular files up to a limit, and never waits for a pipe or a device.
package readfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var errNotRegular = errors.New("is not a regular file")

// Regular reads the first bytes of a regular file. Of anything else it does not
// wait for an end that may never come: of a pipe not even for somebody to open the
// other side.
func Regular(name string, limit int64) ([]byte, error) {
	return Checked(name, limit, func(fs.FileInfo) error { return nil })
}

// Checked is readFile of a file that check agrees with, once it is open.
func Checked(name string, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := check(info); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	// In one read, and one that finds the end.
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, limit))
	return data.Bytes(), err
}

// Exists reports whether there is anything by this name, if only a link to nothing.
func Exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Reason is what a message says of an error of reading, without the name of the file.
func Reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return "cannot be read: " + at.Err.Error()
	}
	return err.Error()
}
