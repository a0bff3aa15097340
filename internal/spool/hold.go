package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// Held values are stored in a fixed number of files. Unrelated keys may share a file, and then
// also wait for each other.
const (
	heldDir = "held"
	maxHeld = 1 << 20 // bytes
)

// Held is the stored value of a key, locked against other processes.
type Held struct {
	Kept []byte // nil = no value

	file *files.Lock
}

// Hold waits for up to wait until no other process holds the key, and returns the stored value.
// Close releases the lock, and so does the end of the process. Keys can share a value: the reader
// must find the entries of its key.
//
// A value is ignored if it is too long or was half written by a killed process.
func (s *Spool) Hold(key string, wait time.Duration) (*Held, error) {
	dir := s.path(heldDir)
	err := files.PrivateDir(dir)
	var f *files.Lock
	if err == nil {
		f, err = waitLock(filepath.Join(dir, files.Digest([]byte(key))[:2]), wait)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock an action that another process may be judging: %w", err)
	}
	h := &Held{file: f}
	data, err := io.ReadAll(io.LimitReader(f, maxHeld+1))
	if kept, _, whole := bytes.Cut(data, []byte{0}); err == nil && whole {
		h.Kept = kept
	}
	return h, nil
}

// Keep replaces the value. data must not contain the byte 0, because a 0 ends it: a longer old
// value stays after it in the file.
func (h *Held) Keep(data []byte) error {
	if len(data) >= maxHeld || bytes.IndexByte(data, 0) >= 0 {
		return fmt.Errorf("%d bytes exceed the maximum of %d, or contain a zero byte", len(data), maxHeld-1)
	}
	_, err := h.file.WriteAt(append(slices.Clip(data), 0), 0)
	return err
}

// Close releases the lock. It may be called twice.
func (h *Held) Close() error {
	if err := h.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
