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
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// maxFile is the size in bytes above which a file of lines is rotated.
const maxFile = 16 << 20

// InDir returns a Writer for files below a directory, which must exist. New files and directories
// are accessible only to their owner.
func InDir(dir string) Writer {
	return func(_ context.Context, _ *grapnel.Event, file, text string) error {
		return appendBelow(dir, file, text, 0)
	}
}

// Lines returns a function that appends whole lines to a file below a directory, which must
// exist. A file larger than 16 MiB is renamed to FILE.1, replacing an older FILE.1.
func Lines(dir, file string) func(line []byte) error {
	return func(line []byte) error { return appendBelow(dir, file, string(line), maxFile) }
}

// appendBelow appends a text to a file in one write. It does not follow links out of the
// directory, because any user with write access to a project could place such a link there. A file
// larger than limit is renamed first, unless limit is 0.
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
		_ = f.Close() // Windows cannot rename open files
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

// openAppend opens a regular file. It rejects pipes, because the reader may be missing.
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

// WritesLine reports whether a hook is a [LineWriter]. Running such a hook immediately is faster
// than running it in the background.
func WritesLine(h grapnel.Hook) bool {
	_, ok := seam.As[lineWriter](h)
	return ok
}
