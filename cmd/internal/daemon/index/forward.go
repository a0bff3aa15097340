package index

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/internal/forward"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

var _ forward.Source = (*Reader)(nil)

// Lines returns the first lines after a position, at most n, after a flush of the disk. It implements
// [forward.Source].
func (r *Reader) Lines(ctx context.Context, after int64, n int) (lines []forward.Line, err error) {
	log, err := spool.OpenLog(r.State, time.Time{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	batch, err := log.Next(spool.Position{At: after}, n, forwardBytes)
	for i := range batch.Lines {
		line := &batch.Lines[i]
		name := line.Name()
		text, err := line.Whole(r.State)
		if err != nil {
			return nil, err
		}
		lines = append(lines, forward.Line{Seq: line.At, ID: name.ID, Part: name.Part(), Digest: sha256.Sum256(line.Text), Text: text})
	}
	return lines, cmp.Or(err, context.Cause(ctx))
}

// Keys returns the keys of the lines in the segment of a position, up to it, and in the segment before. No torn line
// has the key of another line.
func (r *Reader) Keys(ctx context.Context, upTo int64) (keys []string, err error) {
	log, err := spool.OpenLog(r.State, time.Time{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	number, _ := journal.At(upTo)
	for line, err := range log.Raw(journal.Position(number-1, 0)) {
		if err != nil || line.At > upTo || ctx.Err() != nil {
			return keys, cmp.Or(err, context.Cause(ctx))
		}
		if line.Text != nil && line.Torn == nil {
			name := line.Name()
			keys = append(keys, (&forward.Line{ID: name.ID, Part: name.Part()}).Key())
		}
	}
	return keys, nil
}

// forwardBytes is how many bytes of lines are read at once.
const forwardBytes = 4 << 20

// DigestAt returns the digest of the line that ends at a position. It reports false if there is no such line.
func (r *Reader) DigestAt(_ context.Context, seq int64) (h forward.Hash, found bool, err error) {
	line, err := r.lines.Line(seq, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, journal.ErrNoLine) {
		return h, false, nil
	}
	return sha256.Sum256(line.Text), err == nil && line.Text != nil, err
}

// RemovedAfter returns the number of Records after a position that retention has removed. Of a segment that the
// position is in, it is an estimate.
func (r *Reader) RemovedAfter(_ context.Context, seq int64) (n int64, err error) {
	manifest, err := journal.ReadManifest(filepath.Join(r.State, spool.JournalDir))
	if err != nil {
		return 0, err
	}
	number, offset := journal.At(seq)
	for _, s := range manifest.Segments {
		switch {
		case s.Segment > manifest.RemovedTo() || s.Segment < number:
		case s.Segment > number:
			n += s.Lines
		case s.Bytes > 0:
			n += (s.Lines*max(0, s.Bytes-offset) + s.Bytes - 1) / s.Bytes // at least 1 of a part
		}
	}
	return n, nil
}

// Behind returns the number of Records after a position, and the time of the first of them.
func (r *Reader) Behind(ctx context.Context, seq int64) (n int64, oldest time.Time, err error) {
	v := r.look(ctx, Query{})
	defer v.leave()
	if len(v.errs) > 0 {
		return 0, oldest, errors.Join(v.errs...)
	}
	if seq = max(seq, v.base); seq < v.head {
		var first int64
		err := v.read(ctx, func(db *database.View) error {
			if _, err := db.Row("SELECT count(*) FROM record WHERE seq > ? AND seq <= ?", []any{seq, v.head}, &n); err != nil {
				return err
			}
			_, err := db.Row("SELECT time FROM record WHERE seq > ? ORDER BY seq LIMIT 1", []any{seq}, &first)
			return err
		})
		if err = v.without(err); err != nil {
			return 0, oldest, fmt.Errorf("cannot read the index: %w", err)
		}
		if v.head > 0 {
			oldest = database.Time(first)
		} else {
			n = 0
		}
	}
	for line, err := range v.log.From(max(seq, v.head)) {
		if err != nil {
			return n, oldest, err
		}
		if line.Text == nil {
			continue
		}
		if n++; oldest.IsZero() {
			oldest = line.Entry.Time
		}
	}
	return n, oldest, nil
}

// Size is the amount of data in a log.
type Size struct {
	Records int64
	Bytes   int64 // on disk: the journal and the index
}

// Size returns the number of Records and their size on disk.
func (r *Reader) Size(ctx context.Context) (s Size, err error) {
	s.Records, _, err = r.Behind(ctx, 0)
	for _, dir := range []string{filepath.Join(r.State, spool.JournalDir), r.Index} {
		entries, failed := os.ReadDir(dir)
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		for _, e := range entries {
			if info, failed := e.Info(); failed == nil && info.Mode().IsRegular() {
				s.Bytes += info.Size()
			}
		}
	}
	return s, err
}

// Lag is how far the index is behind.
type Lag struct {
	Bytes int64
	Since time.Time // time of the first line that it does not have; zero = it has all
}

// Lag returns how far the index is behind.
func (r *Reader) Lag(ctx context.Context) (lag Lag, err error) {
	v := r.look(ctx, Query{})
	defer v.leave()
	if len(v.errs) > 0 {
		return lag, errors.Join(v.errs...)
	}
	if lag.Bytes, err = v.log.After(v.head); err != nil {
		return lag, err
	}
	for line, err := range v.log.From(v.head) {
		if err != nil || line.Text != nil {
			lag.Since = line.Entry.Time
			return lag, err
		}
	}
	return Lag{}, nil
}
