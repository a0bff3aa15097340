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

	"github.com/grapnel-dev/grapnel/internal/digest"
)

// What is held is kept in a fixed number of files: what has nothing to do with each other
// may share one, and then waits for each other, too.
const (
	heldDir = "held"
	maxHeld = 1 << 20 // bytes
)

// Held is what is kept under a key, while nobody else can get at it.
type Held struct {
	Kept []byte // nil = nothing

	file *os.File
}

// Hold waits until nobody else holds a key, at most for the time that it is given, and
// returns what is kept under it. Close lets go of it, and so does the end of the process.
// Keys share what is kept: who reads it finds its own.
//
// What a process that was killed has left half written, or what is too long, is nothing.
func (s *Spool) Hold(key string, wait time.Duration) (*Held, error) {
	dir := s.path(heldDir)
	err := ready(s.dir)
	if err == nil {
		err = ready(dir)
	}
	var f *os.File
	if err == nil {
		f, err = waitLock(filepath.Join(dir, digest.Of([]byte(key))[:2]), exclusive, wait)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot hold what others may be judging: %w", err)
	}
	h := &Held{file: f}
	data, err := io.ReadAll(io.LimitReader(f, maxHeld+1))
	if kept, _, whole := bytes.Cut(data, []byte{0}); err == nil && whole {
		h.Kept = kept
	}
	return h, nil
}

// Keep keeps something else in its place, in which no byte is 0: one ends it, and what is
// left of something longer stays behind it.
func (h *Held) Keep(data []byte) error {
	if len(data) >= maxHeld || bytes.IndexByte(data, 0) >= 0 {
		return fmt.Errorf("%d bytes are more than %d, or one of them is 0", len(data), maxHeld-1)
	}
	_, err := h.file.WriteAt(append(slices.Clip(data), 0), 0)
	return err
}

// Close lets go of it. It may be called twice.
func (h *Held) Close() error {
	if err := h.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
