package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// flushes lets concurrent callers share one flush of the disk.
type flushes struct {
	committed atomic.Int64 // number of commits

	mu   sync.Mutex
	done int64 // number of commits that are on disk
}

// Sync waits until all earlier Puts are on disk. The writer continues meanwhile.
func (s *Store) Sync() error {
	if err := s.flush(); err != nil {
		return fmt.Errorf("cannot flush the store: %w", err)
	}
	return nil
}

func (s *Store) flush() error {
	if s.opts.unsafe {
		return nil
	}
	want := s.flushes.committed.Load()
	s.flushes.mu.Lock()
	defer s.flushes.mu.Unlock()
	if s.flushes.done >= want && want > 0 {
		return nil // by a flush that began after the commit
	}
	have := s.flushes.committed.Load()
	if fault.On {
		fault.At("store: before the flush")
	}
	if err := flushFile(filepath.Join(s.dir, baseFile+"-wal")); err != nil {
		return err
	}
	if fault.On {
		fault.At("store: after the flush")
	}
	s.flushes.done = have
	return nil
}

// flushFile flushes a file. The write-ahead log does not exist if nothing was written since its
// last checkpoint, which SQLite flushes.
func flushFile(name string) error {
	f, err := openRegular(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(files.Flush(f), f.Close())
}
