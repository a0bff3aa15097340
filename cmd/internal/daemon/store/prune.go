package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pruneBatch is how many rows are removed in one commit, so that a Put does not wait long.
const pruneBatch = 256

// Prune removes the oldest rows: rows that are older than the limit of age, rows above the limit of
// number, and rows above the limit of size. It removes a row only after all earlier rows, so a row
// is removed at the latest when it and all rows before it are too old. Each commit adds a Removal to
// the chain, which lets Verify distinguish retention from tampering. If the limits are new, Prune
// adds a row that states them first.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	s.pruning.Lock()
	defer s.pruning.Unlock()
	limits := *s.limits.Load()
	cutoff := stamp(now.Add(-limits.Age()))
	upTo := func(bound int64) func(*chainRow) class {
		return func(r *chainRow) class {
			if r.seq > bound {
				return keep
			}
			return remove
		}
	}
	var tooMany int64 // rows up to here exceed the maximum number
	err := s.read(ctx, func(v *view) error {
		_, err := v.row("SELECT coalesce((SELECT seq FROM record ORDER BY seq DESC LIMIT 1 OFFSET ?), 0)", []any{limits.MaxRecords}, &tooMany)
		return err
	})
	var tooLarge int64 // rows up to here exceed the maximum size
	if err == nil && limits.MaxBytes > 0 {
		tooLarge, err = s.above(ctx, limits.MaxBytes)
	}
	if err == nil {
		// The anchor must not be before a removed row: see verifier.floor.
		err = s.writeAnchor(*s.head.Load())
	}
	if err == nil {
		err = s.write(ctx, 0, func(c *change) error { return c.stateLimits(limits, now) })
	}
	for _, by := range []struct {
		reason string
		class  func(*chainRow) class
	}{
		{byAge, func(r *chainRow) class {
			switch {
			case r.time > stamp(now.Add(maxAhead)): // written while a clock was wrong
				return withNext
			case r.time >= cutoff:
				return keep
			}
			return remove
		}},
		{byNumber, upTo(tooMany)},
		{bySize, upTo(tooLarge)},
	} {
		for more := true; more && err == nil; {
			err = s.write(ctx, 0, func(c *change) (err error) {
				more, err = c.prune(by.class, Removal{Time: unstamp(stamp(now)), Reason: by.reason, Limits: limits})
				return err
			})
			if err == nil && more {
				err = s.checkpoint(ctx) // otherwise a Put would do it in its commit, and wait for the disk
			}
		}
	}
	if err == nil {
		err = s.write(ctx, 0, func(c *change) error { return c.run("DELETE FROM finding WHERE time < ?", cutoff) })
	}
	select {
	case s.stirred <- struct{}{}: // the file may shrink
	default:
	}
	if err != nil {
		return fmt.Errorf("cannot remove old records: %w", err)
	}
	return nil
}

// sizeBlock is how many rows share one entry of Store.sizes.
const sizeBlock = 4096

// above returns the newest row at which the lines from there to the end of the log have more bytes
// than the maximum, or 0. It reads each row once: later calls use the sizes of complete blocks. A
// read for each block keeps the write-ahead log short.
func (s *Store) above(ctx context.Context, most int64) (bound int64, err error) {
	var sum int64
	head := s.head.Load().Seq
	for block := head / sizeBlock; block >= 0; block-- {
		if size, ok := s.sizes[block]; ok && sum+size <= most {
			sum += size
			continue
		}
		var size int64
		err := s.read(ctx, func(v *view) error {
			return v.each("SELECT seq, length(line) FROM line WHERE seq BETWEEN ? AND ? ORDER BY seq DESC", []any{block * sizeBlock, min(head, (block+1)*sizeBlock-1)},
				func(scan func(into ...any) error) error {
					var seq, bytes int64
					err := scan(&seq, &bytes)
					size += bytes
					if bound == 0 && sum+size > most {
						bound = seq
					}
					return err
				})
		})
		if err != nil || bound > 0 {
			return bound, err
		}
		if block < head/sizeBlock {
			s.sizes[block] = size
		}
		sum += size
	}
	return 0, nil
}

// A class is the decision of retention about a row.
type class int

const (
	keep class = iota
	remove
	withNext // remove it if a later row is removed
)

// chainRow is a row of the chain without its content.
type chainRow struct {
	seq, time    int64
	digest, hash Hash
	record       bool // false = a Removal
}

// prune removes a batch of the oldest rows. It reports whether there may be more.
func (c *change) prune(classOf func(*chainRow) class, r Removal) (more bool, err error) {
	var after []byte
	if _, err := c.row("SELECT last, after FROM removal WHERE last > 0 ORDER BY seq DESC LIMIT 1", nil, &r.Last, &after); err != nil {
		return false, err
	}
	r.First = r.Last + 1
	copy(r.Before[:], after)
	rows, err := c.oldest(r.First, classOf)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	last := rows[len(rows)-1]
	r.Last, r.After, r.Digest, r.Wrote = last.seq, last.hash, last.digest, unstamp(last.time)
	switch prior, err := hashAt(c.ctx, c.conn, last.seq-1); {
	case err != nil:
		return false, err
	case prior != nil:
		r.Prior = *prior
	}
	for i := range rows {
		if rows[i].record {
			r.Records++
		}
	}
	if err := c.putRemoval(&r); err != nil {
		return false, err
	}
	return true, c.forget(r.First, r.Last)
}

// oldest returns rows from a row on that can be removed now. A row with a time in the future has
// no usable age: it is removed together with the next row that has one.
func (c *change) oldest(from int64, classOf func(*chainRow) class) ([]chainRow, error) {
	for limit := pruneBatch; ; limit *= 2 {
		rows, err := c.chainRows(from, limit)
		if err != nil {
			return nil, err
		}
		n := 0
		for i := range rows {
			class := classOf(&rows[i])
			if class == keep {
				return rows[:n], nil
			}
			if class == remove {
				n = i + 1
			}
		}
		if n > 0 || len(rows) < limit {
			return rows[:n], nil
		}
	}
}

// chainRows reads rows of the chain, beginning with from.
func (c *change) chainRows(from int64, limit int) ([]chainRow, error) {
	stmt, err := c.stmt(`SELECT seq, time, digest, hash, 1 FROM record WHERE seq >= ?1
		UNION ALL SELECT seq, time, digest, hash, 0 FROM removal WHERE seq >= ?1 ORDER BY seq LIMIT ?2`)
	if err != nil {
		return nil, err
	}
	found, err := stmt.QueryContext(c.ctx, from, limit)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows []chainRow
	for found.Next() {
		var r chainRow
		var digest, hash []byte
		if err := found.Scan(&r.seq, &r.time, &digest, &hash, &r.record); err != nil {
			return nil, err
		}
		copy(r.digest[:], digest)
		copy(r.hash[:], hash)
		rows = append(rows, r)
	}
	return rows, errors.Join(found.Err(), found.Close())
}

// forget deletes rows of the chain and the rows of other tables that refer to them.
func (c *change) forget(first, last int64) error {
	for _, query := range []string{
		`DELETE FROM again WHERE id IN (SELECT id FROM record WHERE seq BETWEEN ? AND ? AND late = 0)`,
		`DELETE FROM words WHERE rowid BETWEEN ? AND ?`,
		`DELETE FROM hook WHERE seq BETWEEN ? AND ?`,
		`DELETE FROM summary WHERE first BETWEEN ? AND ?`,
		`DELETE FROM line WHERE seq BETWEEN ? AND ?`,
		`DELETE FROM record WHERE seq BETWEEN ? AND ?`,
		`DELETE FROM removal WHERE seq BETWEEN ? AND ?`,
		`DELETE FROM gap WHERE first BETWEEN ? AND ?`,
	} {
		if err := c.run(query, first, last); err != nil {
			return err
		}
	}
	return nil
}
