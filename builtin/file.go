package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/grapnel-dev/grapnel"
)

// maxFile is the size in bytes after which a file of lines is put aside.
const maxFile = 16 << 20

// InDir is a Writer below a directory, which has to be there. What it makes only its
// owner can read.
func InDir(dir string) Writer {
	return func(_ context.Context, _ *grapnel.Event, file, text string) error {
		return appendBelow(dir, file, text, 0)
	}
}

// Lines appends whole lines to a file below a directory, which has to be there. Past
// 16 MiB the file becomes FILE.1, in place of the last that was put aside.
func Lines(dir, file string) func(line []byte) error {
	return func(line []byte) error { return appendBelow(dir, file, string(line), maxFile) }
}

// appendBelow appends a text to a file in one write. No link leads it out of the
// directory: in a project anybody could have put one where a summary goes. A file
// larger than limit is put aside first, unless limit is 0.
func appendBelow(dir, file, text string, limit int64) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", filepath.Join(dir, filepath.FromSlash(file)), err)
		}
	}()
	for i, c := range file {
		if c == '/' {
			if err := root.Mkdir(file[:i], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
	}
	f, err := openAppend(root, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if limit > 0 && info.Size() > limit {
		_ = f.Close() // Windows renames no open file
		if err := root.Rename(file, file+".1"); err != nil {
			return err
		}
		if f, err = openAppend(root, file); err != nil {
			return err
		}
	}
	_, err = f.WriteString(text)
	return err
}

// openAppend opens a file that is one: nobody may be at the other end of a pipe.
func openAppend(root *os.Root, file string) (*os.File, error) {
	f, err := root.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lineWriter is an observing hook that writes a line and does nothing else.
type lineWriter struct{ grapnel.Hook }

// LineWriter marks an observing hook that writes a line to a file and does nothing else.
func LineWriter(h grapnel.Hook) grapnel.Hook { return lineWriter{h} }

// WritesLine reports whether a hook is a [LineWriter]. To run it takes less time than to
// put it off.
func WritesLine(h grapnel.Hook) bool {
	_, ok := grapnel.HookAs[lineWriter](h)
	return ok
}
