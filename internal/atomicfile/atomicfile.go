// Package atomicfile replaces files as a whole: a reader sees the old content or the new
// one, and never a part of one.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file. A process that is killed leaves the old content, but a power
// cut may leave neither. The file has exactly the permissions of mode, whatever the umask.
func Write(name string, data []byte, mode fs.FileMode) error { return write(name, data, mode, false) }

// WriteSync is Write for content that must survive a power cut: it is on disk before it
// gets its name.
func WriteSync(name string, data []byte, mode fs.FileMode) error {
	return write(name, data, mode, true)
}

func write(name string, data []byte, mode fs.FileMode, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
