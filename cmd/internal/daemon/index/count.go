package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
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
	first, last    int64
	oldest, newest int64 // times
}

// add counts a line.
func (z *summarizer) add(r *Reader, line *spool.Line) {
	at := database.Stamp(line.Entry.Time)
	if z.rows == 0 {
		z.first, z.oldest, z.newest = line.At, at, at
	}
	z.last, z.oldest, z.newest = line.At, min(z.oldest, at), max(z.newest, at)
	z.rows++
	r.count(z.counter, line)
}

// store stores the counts if there are enough, and begins again.
func (z *summarizer) store(tx *database.Tx) error {
	if z.rows < summaryRows {
		return nil
	}
	counts, err := json.Marshal(z.counter)
	if err != nil {
		return err
	}
	if err := tx.Run("INSERT INTO summary(first, last, oldest, newest, counts) VALUES (?,?,?,?,?)", z.first, z.last, z.oldest, z.newest, counts); err != nil {
		return err
	}
	*z = summarizer{counter: stats.NewCounter(time.Time{})}
	return nil
}

// resume counts the rows after the last summary.
func (z *summarizer) resume(tx *database.Tx, r *Reader) error {
	*z = summarizer{counter: stats.NewCounter(time.Time{})}
	var last int64
	if _, err := tx.Row("SELECT coalesce((SELECT max(last) FROM summary), 0)", nil, &last); err != nil {
		return err
	}
	rows, err := rowsOf(&tx.View, "r.seq > ? ORDER BY r.seq", last)
	for i := range rows {
		line, err := r.line(&rows[i])
		switch {
		case err == nil:
			z.add(r, &line)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return err
}

// count adds a line to a Counter.
func (r *Reader) count(c *stats.Counter, line *spool.Line) {
	if line.Torn != nil {
		c.Unreadable()
		return
	}
	c.Add(&line.Entry, func() error { return line.Event(r.State) })
}

// Count counts the Records since a time; the zero time means all Records. It returns what it could
// count, also with an error.
func (l Log) Count(ctx context.Context, since time.Time) (*stats.Counter, error) {
	r := l.Open()
	c, err := r.Count(ctx, since)
	return c, errors.Join(err, r.Close())
}

// Count counts the Records since a time; the zero time means all Records. It returns what it could
// count, also with an error.
func (r *Reader) Count(ctx context.Context, since time.Time) (*stats.Counter, error) {
	v := r.look(ctx, Query{Filter: spool.Filter{Since: since}})
	defer v.leave()
	errs := v.errs
	c := stats.NewCounter(since)
	if v.head > 0 {
		err := v.countIndexed(ctx, c)
		if err = v.without(err); err != nil {
			errs = append(errs, fmt.Errorf("cannot count the records of the index: %w", err))
		} else if v.head == 0 {
			c = stats.NewCounter(since)
		}
	}
	for line, err := range v.after(ctx) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		v.count(c, &line)
	}
	c.Again(v.seen.again)
	return c, errors.Join(errs...)
}

// countIndexed counts the rows up to head.
func (v *view) countIndexed(ctx context.Context, c *stats.Counter) error {
	from := v.q.from()
	type part struct {
		last   int64
		older  bool   // all rows are older
		counts []byte // nil = count the rows
	}
	var parts []part
	err := v.read(ctx, func(db *database.View) error {
		var last int64
		err := db.Each("SELECT first, last, newest < ?1, CASE WHEN oldest >= ?1 AND first > ?3 THEN counts END FROM summary WHERE last <= ?2 ORDER BY first", []any{from, v.head, v.base},
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
		parts = append(parts, part{last: v.head})
		var again int // CROSS JOIN: the table again is small, and record is large
		_, err = db.Row("SELECT count(*) FROM again CROSS JOIN record r ON r.id = again.id AND r.decision = again.decision AND r.late = 0 WHERE r.time >= ? AND r.seq > ? AND again.seq <= ?", []any{from, v.base, v.head}, &again)
		c.Again(again)
		return err
	})
	last := v.base
	for _, p := range parts {
		switch {
		case err != nil || p.older:
		case p.counts != nil:
			err = c.AddStored(p.counts)
		default:
			err = v.countRows(ctx, c, last, p.last, from)
		}
		last = max(last, p.last)
	}
	return err
}

// countRows counts the rows after a row up to another, if their time is not before from.
func (v *view) countRows(ctx context.Context, c *stats.Counter, after, last, from int64) error {
	var errs []error
	for {
		var rows []indexed
		err := v.read(ctx, func(db *database.View) (err error) {
			rows, err = rowsOf(db, "r.seq > ? AND r.seq <= ? AND r.time >= ? ORDER BY r.seq LIMIT ?", after, last, from, page)
			return err
		})
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i := range rows {
			line, err := v.line(&rows[i])
			switch {
			case err == nil:
				v.count(c, &line)
			case !errors.Is(err, fs.ErrNotExist):
				errs = append(errs, err)
			}
		}
		if len(rows) < page {
			return errors.Join(errs...)
		}
		after = rows[len(rows)-1].seq
	}
}
