package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// pruneBatch is how many rows are removed in one commit, so that a Put need not wait long.
const pruneBatch = 256

// Prune removes Records that are older than Options.MaxAge, the oldest rows above
// Options.MaxRecords, and the deliveries of both. Records with deliveries that wait stay,
// and deliveries that ended stay with their Record; those without one go by age.
// What is removed leaves behind where it was, so that Verify can tell it from what somebody
// else has removed.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	cutoff := stamp(now.Add(-s.opts.MaxAge))
	var bound int64 // rows up to here are above the number
	err := s.read(ctx, func(v *view) error {
		_, err := v.row("SELECT coalesce((SELECT seq FROM record ORDER BY seq DESC LIMIT 1 OFFSET ?), 0)", []any{s.opts.MaxRecords}, &bound)
		return err
	})
	for _, q := range []struct {
		query string
		bound int64
	}{
		// By the index that each is in: other rows are not looked at.
		{"SELECT time, seq FROM record WHERE time < ?1 AND (time, seq) > (?2, ?3) AND " + ended + " ORDER BY time, seq LIMIT ?4", cutoff},
		{"SELECT ?2, seq FROM record WHERE seq <= ?1 AND seq > ?3 AND " + ended + " ORDER BY seq LIMIT ?4", bound},
	} {
		from := place{math.MinInt64, 0}
		for more := true; more && err == nil; {
			var last place
			err = s.write(ctx, 0, func(c *change) (err error) {
				last, more, err = c.prune(q.query, q.bound, from, stamp(now))
				return err
			})
			from = last
		}
	}
	for more := true; more && err == nil; {
		err = s.write(ctx, 0, func(c *change) error {
			n, err := c.change(`DELETE FROM job WHERE num IN (SELECT num FROM job WHERE state <> 'waiting' AND ended > 0 AND ended < ?
				AND NOT EXISTS (SELECT 1 FROM record WHERE record.id = job.record) LIMIT ?)`, cutoff, pruneBatch)
			more = err == nil && n == pruneBatch
			return err
		})
	}
	if err == nil {
		err = s.write(ctx, 0, func(c *change) error {
			if err := c.run("DELETE FROM finding WHERE time < ?", cutoff); err != nil {
				return err
			}
			return c.run("UPDATE cut SET lost = 0 WHERE lost AND time < ?", cutoff)
		})
	}
	if err != nil {
		return fmt.Errorf("cannot remove old records: %w", err)
	}
	return nil
}

// ended says that no delivery of a Record waits.
const ended = "NOT EXISTS (SELECT 1 FROM job WHERE job.record = record.id AND job.state = 'waiting')"

// place is how far a query of rows to remove has come.
type place struct{ time, seq int64 }

// prune removes some of the rows that a query finds behind a place. It returns the last,
// and whether there may be more.
func (c *change) prune(query string, bound int64, from place, now int64) (last place, more bool, err error) {
	stmt, err := c.stmt(query)
	if err != nil {
		return from, false, err
	}
	rows, err := stmt.QueryContext(c.ctx, bound, from.time, from.seq, pruneBatch)
	if err != nil {
		return from, false, err
	}
	defer rows.Close()
	var seqs []int64
	for rows.Next() {
		if err := rows.Scan(&last.time, &last.seq); err != nil {
			return from, false, err
		}
		seqs = append(seqs, last.seq)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return from, false, err
	}
	slices.Sort(seqs)
	for begin := 0; begin < len(seqs); {
		end := begin + 1
		for end < len(seqs) && seqs[end] == seqs[end-1]+1 {
			end++
		}
		if err := c.cut(seqs[begin], seqs[end-1], now); err != nil {
			return from, false, err
		}
		begin = end
	}
	return last, len(seqs) == pruneBatch, nil
}

// cut removes a run of rows.
func (c *change) cut(first, last, now int64) error {
	var hash []byte
	if _, err := c.row("SELECT hash FROM record WHERE seq = ?", []any{last}, &hash); err != nil {
		return err
	}
	for _, query := range []string{
		`DELETE FROM job WHERE state <> 'waiting' AND record IN (SELECT id FROM record WHERE seq BETWEEN ? AND ? AND late = 0)`,
		`DELETE FROM again WHERE id IN (SELECT id FROM record WHERE seq BETWEEN ? AND ? AND late = 0)`,
		`DELETE FROM words WHERE rowid BETWEEN ? AND ?`,
		`DELETE FROM hook WHERE seq BETWEEN ? AND ?`,
		`DELETE FROM line WHERE seq BETWEEN ? AND ?`,
		`DELETE FROM record WHERE seq BETWEEN ? AND ?`,
	} {
		if err := c.run(query, first, last); err != nil {
			return err
		}
	}
	// Runs that now touch become one.
	begin := first
	if _, err := c.row("SELECT first FROM cut WHERE last = ? AND NOT lost", []any{first - 1}, &begin); err != nil {
		return err
	}
	end := last
	if _, err := c.row("SELECT last, hash FROM cut WHERE first = ? AND NOT lost", []any{last + 1}, &end, &hash); err != nil {
		return err
	}
	if err := c.run("DELETE FROM cut WHERE first IN (?,?) AND NOT lost", begin, last+1); err != nil {
		return err
	}
	return c.run("INSERT INTO cut(first, last, hash, time, lost) VALUES (?,?,?,?,0)", begin, end, hash, now)
}
