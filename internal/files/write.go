package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Temporary is the prefix of a file that is being written. If its process is killed, the file stays
// until [RemoveLeftover] gets its name.
const Temporary = ".new-"

// leftover is the age of a temporary file whose process was killed. A write takes much less.
const leftover = time.Minute

// RemoveLeftover removes the file if it is temporary and older than a minute: its process was killed.
func RemoveLeftover(name string, now time.Time) {
	if !strings.HasPrefix(filepath.Base(name), Temporary) {
		return
	}
	if info, err := os.Lstat(name); err == nil && now.Sub(info.ModTime()) > leftover {
		_ = os.Remove(name)
	}
}

// Write replaces the file. If the process is killed, the old content remains. After a power cut
// the file may be empty or damaged. The file gets exactly the permissions of mode, independent of
// the umask.
func Write(name string, data []byte, mode fs.FileMode) error { return write(name, data, mode, false) }

// WriteSync is like Write, but the content survives a power cut: it is on disk before the file is
// renamed to name.
func WriteSync(name string, data []byte, mode fs.FileMode) error {
	return write(name, data, mode, true)
}

// Create writes the file if it does not exist, and returns its content. If several processes
// create the file at the same time, all get the content of one of them, on a file system with
// links. A power cut leaves the whole content or no file. The file has the mode 0600.
func Create(name string, data []byte) ([]byte, error) {
	f, err := os.CreateTemp(filepath.Dir(name), Temporary+"*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err = os.Link(f.Name(), name); errors.Is(err, fs.ErrExist) { // unlike a rename, it replaces no file
		return os.ReadFile(name)
	} else if err != nil {
		err = os.Rename(f.Name(), name) // the file system has no links
	}
	return data, err
}

func write(name string, data []byte, mode fs.FileMode, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(name), Temporary+"*")
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
