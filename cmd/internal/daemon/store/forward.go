package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/internal/forward"
)

var _ forward.Source = (*Store)(nil)

// Lines returns the first lines after a row, at most n, after a flush of the disk. It implements
// [forward.Source].
func (s *Store) Lines(ctx context.Context, after int64, n int) (lines []forward.Line, err error) {
	if s.Newest() <= after {
		return nil, nil
	}
	if err := s.Sync(); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(v *view) error {
		return v.each("SELECT r.seq, r.id, r.late, r.digest, l.line FROM record r JOIN line l ON l.seq = r.seq WHERE r.seq > ? ORDER BY r.seq LIMIT ?",
			[]any{after, n}, func(scan func(into ...any) error) error {
				var l forward.Line
				var digest []byte
				err := scan(&l.Seq, &l.ID, &l.Late, &digest, &l.Text)
				copy(l.Digest[:], digest)
				lines = append(lines, l)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the records: %w", err)
	}
	return lines, nil
}

// Newest returns the number of the newest row; 0 = the store is empty.
func (s *Store) Newest() int64 {
	if head := s.head.Load(); head != nil {
		return head.Seq
	}
	return 0
}

// DigestAt returns the digest of a row. It reports false if there is no such row.
func (r *Reader) DigestAt(ctx context.Context, seq int64) (h forward.Hash, found bool, err error) {
	err = r.read(ctx, func(v *view) error {
		var digest []byte
		found, err = v.row("SELECT digest FROM record WHERE seq = ?", []any{seq}, &digest)
		copy(h[:], digest)
		return err
	})
	return h, found, err
}

// RemovedAfter returns the number of Records after a row that retention has removed.
func (r *Reader) RemovedAfter(ctx context.Context, seq int64) (n int64, err error) {
	err = r.read(ctx, func(v *view) error {
		return v.each("SELECT line FROM removal WHERE last > ?", []any{seq}, func(scan func(into ...any) error) error {
			var line []byte
			var r Removal
			err := scan(&line)
			if err == nil {
				err = json.Unmarshal(line, &r)
			}
			n += max(0, min(r.Records, r.Last-max(r.First-1, seq)))
			return err
		})
	})
	return n, err
}

// Behind returns the number of Records after a row, and the time of the first of them.
func (r *Reader) Behind(ctx context.Context, seq int64) (n int64, oldest time.Time, err error) {
	var first int64
	err = r.read(ctx, func(v *view) error {
		if _, err := v.row("SELECT count(*) FROM record WHERE seq > ?", []any{seq}, &n); err != nil {
			return err
		}
		_, err := v.row("SELECT time FROM record WHERE seq > ? ORDER BY seq LIMIT 1", []any{seq}, &first)
		return err
	})
	return n, unstamp(first), err
}
