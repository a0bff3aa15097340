package store

import (
	"context"
	"errors"
	"time"

	"github.com/grapnel-dev/grapnel/internal/spool"
)

// Backlog is the part of a spool that is not in a store yet.
type Backlog struct {
	Bytes int64
	Since time.Time // time of the oldest line; zero = no line waits
}

// Backlog measures the part of a spool that was not taken in yet. It reads the files one after
// the other and may miss lines that move meanwhile.
func (s *Store) Backlog(ctx context.Context, dir string) (b Backlog, err error) {
	log, err := spool.OpenLog(dir, time.Time{})
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for _, f := range log.Files() {
		size, err := f.Size()
		if err != nil {
			return b, err
		}
		done, err := s.Mark(ctx, f.Key())
		if err != nil {
			return b, err
		}
		if done >= size {
			continue
		}
		b.Bytes += size - done
		for line, err := range f.Lines(done) {
			if err != nil {
				return b, err
			}
			if at := line.Entry.Time; !at.IsZero() && (b.Since.IsZero() || at.Before(b.Since)) {
				b.Since = at
			}
			break
		}
	}
	return b, nil
}
