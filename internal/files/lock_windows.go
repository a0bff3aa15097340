package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// place is the locked byte. It is far beyond any text in the file, because other processes cannot
// read locked bytes.
func place() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1} }

func lock(f *os.File, kind LockKind) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if kind == Exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, place())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, place())
}
