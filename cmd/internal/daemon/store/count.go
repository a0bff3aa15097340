package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// summaryRows is how many rows have a common row in the table summary. Count reads at most about
// two times as many rows one by one: those around its time, and the newest.
const summaryRows = 4096

// A summarizer counts the rows that have no summary yet.
type summarizer struct {
	counter        *stats.Counter
	rows           int
	first, last    int64 // rows that were looked at
	oldest, newest int64 // times
}

// summarize counts a batch of rows, and stores the counts of summaryRows rows. It reports whether
// there may be more rows. Rows are summarized after their words are indexed, for the same reason.
func (s *Store) summarize() (more bool) {
	if s.base == nil {
		return false
	}
	more, err := s.summarizer.next(s.base)
	if err != nil {
		s.summarizer = summarizer{} // begin again after the last stored summary
		if broken(err) {
			err = s.mend(err)
		}
		if err != nil {
			s.opts.Note(fmt.Errorf("cannot store statistics: %w", err))
		}
		return false
	}
	return more
}

// next counts a batch of rows.
func (z *summarizer) next(b *base) (more bool, err error) {
	var removed, summarized int64
	if _, err := b.row("SELECT coalesce((SELECT max(last) FROM removal), 0), coalesce((SELECT max(last) FROM summary), 0)", nil, &removed, &summarized); err != nil {
		return false, err
	}
	if z.counter == nil || z.first <= removed {
		begin := max(removed, summarized)
		*z = summarizer{counter: stats.NewCounter(time.Time{}), first: begin + 1, last: begin}
	}
	stmt, err := b.stmt("SELECT l.seq, r.time, l.line FROM line l JOIN record r ON r.seq = l.seq WHERE l.seq > ? ORDER BY l.seq LIMIT ?")
	if err != nil {
		return false, err
	}
	rows, err := stmt.QueryContext(b.ctx, z.last, indexBatch)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var at int64
		var raw []byte
		if err := rows.Scan(&z.last, &at, &raw); err != nil {
			return false, err
		}
		if z.rows == 0 {
			z.oldest, z.newest = at, at
		}
		z.oldest, z.newest = min(z.oldest, at), max(z.newest, at)
		if err := countLine(z.counter, raw); err != nil {
			z.counter.Unreadable()
		}
		z.rows++
		n++
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return false, err
	}
	if z.rows >= summaryRows {
		counts, err := json.Marshal(z.counter)
		if err != nil {
			return false, err
		}
		if err := b.run("INSERT INTO summary(first, last, oldest, newest, counts) VALUES (?,?,?,?,?)", z.first, z.last, z.oldest, z.newest, counts); err != nil {
			return false, err
		}
		*z = summarizer{}
	}
	return n == indexBatch, nil
}

// countLine adds a line to a Counter.
func countLine(c *stats.Counter, raw []byte) error {
	k, err := kept(raw)
	if errors.Is(err, spool.ErrTorn) {
		c.Unreadable()
		return nil
	}
	if err == nil {
		c.Add(&k.Entry, k.Event)
	}
	return err
}

// Count counts the Records since a time; the zero time means all Records. It returns what it could
// count, also with an error.
func (l Log) Count(ctx context.Context, since time.Time) (*stats.Counter, error) {
	c := stats.NewCounter(since)
	r, err := l.open(ctx, Query{Filter: spool.Filter{Since: since}})
	defer r.close()
	errs := []error{err}
	if r.store != nil {
		errs = append(errs, r.store.count(ctx, c, since, r.head))
	}
	for k, err := range r.spooled(ctx) {
		switch {
		case err == nil:
			c.Add(&k.Entry, k.Event)
		case errors.Is(err, spool.ErrTorn):
			c.Unreadable()
		default:
			errs = append(errs, err)
		}
	}
	return c, errors.Join(errs...)
}

// Count counts the Records since a time; the zero time means all Records.
func (r *Reader) Count(ctx context.Context, since time.Time) (*stats.Counter, error) {
	c := stats.NewCounter(since)
	return c, r.count(ctx, c, since, math.MaxInt64)
}

// count counts the rows up to head.
func (r *Reader) count(ctx context.Context, c *stats.Counter, since time.Time, head int64) error {
	from := int64(0)
	if !since.IsZero() {
		from = stamp(since)
	}
	type part struct {
		last   int64
		older  bool   // all rows are older
		counts []byte // nil = count the rows
	}
	var parts []part
	var last int64
	err := r.read(ctx, func(v *view) error {
		err := v.each("SELECT first, last, newest < ?1, CASE WHEN oldest >= ?1 THEN counts END FROM summary WHERE last <= ?2 ORDER BY first", []any{from, head},
			func(scan func(into ...any) error) error {
				var first int64
				var p part
				if err := scan(&first, &p.last, &p.older, &p.counts); err != nil {
					return err
				}
				if first > last+1 {
					parts = append(parts, part{last: first - 1})
				}
				parts, last = append(parts, p), p.last
				return nil
			})
		if err != nil {
			return err
		}
		parts = append(parts, part{last: head})
		var again int // CROSS JOIN: the table again is small, and record is large
		_, err = v.row("SELECT count(*) FROM again CROSS JOIN record r ON r.id = again.id AND r.late = 0 WHERE r.time >= ? AND r.seq <= ?", []any{from, head}, &again)
		c.Again(again)
		return err
	})
	last = 0
	for _, p := range parts {
		switch {
		case err != nil || p.older:
		case p.counts != nil:
			err = c.AddStored(p.counts)
		default:
			err = r.countRows(ctx, c, last, p.last, from)
		}
		last = p.last
	}
	if err != nil {
		return fmt.Errorf("cannot count the records of the store: %w", err)
	}
	return nil
}

// countRows counts the rows after a row up to another, if their time is not before from.
func (r *Reader) countRows(ctx context.Context, c *stats.Counter, after, last, from int64) error {
	var errs []error
	for n := page; n == page; {
		n = 0
		err := r.read(ctx, func(v *view) error {
			return v.each("SELECT r.seq, l.line FROM record r JOIN line l ON l.seq = r.seq WHERE r.seq > ? AND r.seq <= ? AND r.time >= ? ORDER BY r.seq LIMIT ?",
				[]any{after, last, from, page}, func(scan func(into ...any) error) error {
					var line []byte
					if err := scan(&after, &line); err != nil {
						return err
					}
					n++
					if err := countLine(c, line); err != nil {
						errs = append(errs, err)
					}
					return nil
				})
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
