package install

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file if no other process holds the lock. The lock ends when the file is
// closed, also if the process ends.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// keepOwner does nothing: a new file inherits the access control list of its directory, as the
// old file did.
func keepOwner(*os.File, fs.FileInfo) {}

func foreignOwner(fs.FileInfo) (uid int, foreign bool) { return 0, false }

func syncDir(string) error { return nil } // directories cannot be flushed

// isRoot is always true: Windows itself denies access to users other than administrators.
func isRoot() bool { return true }
