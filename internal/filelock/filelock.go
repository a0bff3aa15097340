// Package filelock locks files between processes.
package filelock

import (
	"errors"
	"os"
)

// A Kind says who can hold a lock together.
type Kind int

const (
	// Shared is for several holders at once.
	Shared Kind = iota
	// Exclusive is for a single holder.
	Exclusive
)

// ErrLocked is the error of [Try] if another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// A Lock is a locked file. The lock ends with Close or with the process.
type Lock struct{ *os.File }

// Try locks an open file without waiting, or returns [ErrLocked]. If it fails, the
// file stays open.
func Try(f *os.File, kind Kind) (*Lock, error) {
	if err := lock(f, kind); err != nil {
		return nil, err
	}
	return &Lock{f}, nil
}

// Close ends the lock and closes the file. Closing the file alone is not enough: a process that is
// just being started has copies of all open files for a moment, and such a copy keeps the lock.
func (l *Lock) Close() error { return errors.Join(unlock(l.File), l.File.Close()) }
