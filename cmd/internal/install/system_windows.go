package install

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes the lock on an open file if nobody holds it. The system gives
// it back when the file is closed, also if the process dies.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// A new file gets the access list of its directory, which is where the old one
// has got its own from.
func keepOwner(*os.File, fs.FileInfo) {}

func foreignOwner(fs.FileInfo) (uid int, foreign bool) { return 0, false }

func syncDir(string) error { return nil } // directories cannot be flushed

// The system itself refuses who is not an administrator.
func isRoot() bool { return true }
