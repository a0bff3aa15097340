package files

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

var errNotRegular = errors.New("is not a regular file")

// Read reads the first limit bytes of a regular file. It returns an error for other files. It
// does not block on a pipe without a writer.
func Read(name string, limit int64) ([]byte, error) {
	return ReadChecked(name, limit, func(fs.FileInfo) error { return nil })
}

// ReadChecked is like Regular, but returns the error of check, which it calls with the open file's
// info.
func ReadChecked(name string, limit int64, check func(fs.FileInfo) error) ([]byte, error) {
	data, _, err := ReadStamped(name, limit, check)
	return data, err
}

// ReadStamped is like Checked, and also returns the time of the file's last modification, as of the end
// of the read: a program may write to the file at the same time.
func ReadStamped(name string, limit int64, check func(fs.FileInfo) error) (content []byte, modified time.Time, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, modified, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, modified, err
	}
	if err := check(info); err != nil {
		return nil, modified, err
	}
	if !info.Mode().IsRegular() {
		return nil, modified, errNotRegular
	}
	// The buffer has room for one read of the data and one that finds the end.
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	if _, err = data.ReadFrom(io.LimitReader(f, limit)); err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return data.Bytes(), modified, err
	}
	return data.Bytes(), info.ModTime(), nil
}

// Exists reports whether a file or a link has this name. The target of the link need not exist.
func Exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// Reason returns the text of a read error for messages, without the name of the file.
func Reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return "cannot be read: " + at.Err.Error()
	}
	return err.Error()
}
