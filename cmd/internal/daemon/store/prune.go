package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pruneBatch is how many rows are removed in one commit, so that a Put does not wait long.
const pruneBatch = 256

// Prune removes the oldest rows: rows older than Options.MaxAge and rows above
// Options.MaxRecords. It removes a row only after all earlier rows, so a row is removed at the
// latest when it and all rows before it are older than MaxAge. Each commit adds a Removal to the
// chain, which lets Verify distinguish retention from tampering.
//
// Prune removes a Record together with its deliveries that have ended. Waiting deliveries stay:
// they have their own copy of the event. Deliveries without a Record are removed by age.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	cutoff := stamp(now.Add(-s.opts.MaxAge))
	var bound int64 // rows up to here exceed the maximum number
	err := s.read(ctx, func(v *view) error {
		_, err := v.row("SELECT coalesce((SELECT seq FROM record ORDER BY seq DESC LIMIT 1 OFFSET ?), 0)", []any{s.opts.MaxRecords}, &bound)
		return err
	})
	if err == nil {
		// The anchor must not be before a removed row: see verifier.floor.
		err = s.writeAnchor(*s.head.Load())
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
		{byNumber, func(r *chainRow) class {
			if r.seq > bound {
				return keep
			}
			return remove
		}},
	} {
		for more := true; more && err == nil; {
			err = s.write(ctx, 0, func(c *change) (err error) {
				more, err = c.prune(by.class, Removal{
					Time: unstamp(stamp(now)), Reason: by.reason, MaxAge: int64(s.opts.MaxAge / time.Second), MaxRecords: s.opts.MaxRecords,
				})
				return err
			})
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
		err = s.write(ctx, 0, func(c *change) error { return c.run("DELETE FROM finding WHERE time < ?", cutoff) })
	}
	if err != nil {
		return fmt.Errorf("cannot remove old records: %w", err)
	}
	return nil
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
	if _, err := c.row("SELECT last, after FROM removal ORDER BY seq DESC LIMIT 1", nil, &r.Last, &after); err != nil {
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
		`DELETE FROM job WHERE state <> 'waiting' AND record IN (SELECT id FROM record WHERE seq BETWEEN ? AND ? AND late = 0)`,
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
