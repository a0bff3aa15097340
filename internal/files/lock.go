package files

import (
	"errors"
	"os"
)

// A LockKind is exclusive or shared.
type LockKind int

const (
	// Shared is for several holders at once.
	Shared LockKind = iota
	// Exclusive is for a single holder.
	Exclusive
)

// ErrLocked is the error of [TryLock] and [OpenLock] if another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// A Lock is a locked file. The lock ends with Close or with the process.
type Lock struct{ *os.File }

// TryLock locks an open file without waiting, or returns [ErrLocked]. If it fails, the
// file stays open.
func TryLock(f *os.File, kind LockKind) (*Lock, error) {
	if err := lock(f, kind); err != nil {
		return nil, err
	}
	return &Lock{f}, nil
}

// OpenLock opens or creates a file and locks it for a single holder, without waiting, or returns [ErrLocked].
func OpenLock(name string) (*Lock, error) {
	f, err := OpenRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l, err := TryLock(f, Exclusive)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// Unlock ends the lock. The file stays open.
func (l *Lock) Unlock() error { return unlock(l.File) }

// Close ends the lock and closes the file. Closing the file alone is not enough: a process that is
// just being started has copies of all open files for a moment, and such a copy keeps the lock.
func (l *Lock) Close() error { return errors.Join(unlock(l.File), l.File.Close()) }
