package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/database"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
)

// Put stores all jobs or none; a job with a known ID is stored already. A job without a State is
// waiting. When Put returns nil, the jobs survive this process, and after [Queue.Flush] also a power
// cut. If ctx ends while Put waits for its turn, nothing is stored.
func (q *Queue) Put(ctx context.Context, jobs ...delivery.Job) error {
	for i := range jobs {
		if err := check(&jobs[i]); err != nil {
			return err
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	err := q.write(ctx, func(c *change) error {
		for i := range jobs {
			if err := c.putJob(&jobs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot store deliveries: %w", err)
	}
	return nil
}

// putJob adds a delivery.
func (c *change) putJob(j *delivery.Job) error {
	hook, err := json.Marshal(j.Hook)
	if err != nil {
		return err
	}
	state := cmp.Or(j.State, delivery.Waiting)
	ready := true
	if j.Ordered && state == delivery.Waiting {
		if ready, err = c.first(j.Target, j.Session); err != nil {
			return err
		}
	}
	n, err := c.Change(`INSERT INTO job(id, record, target, session, ordered, ready, state, tries, next, due, status, error, created, ended, hook, event)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO NOTHING`,
		j.ID, j.Record, j.Target, j.Session, j.Ordered, ready, string(state), j.Tries, database.Stamp(j.Next), database.Stamp(j.Next), j.Status, j.Error,
		database.Stamp(j.Created), database.Stamp(j.Ended), hook, append([]byte{}, j.Event...)) // nil would be NULL
	if n > 0 {
		c.due = true
	}
	return err
}

// check returns an error for a Job that cannot be delivered.
func check(j *delivery.Job) error {
	var what string
	switch {
	case j.ID == "":
		what = "it has no id"
	case j.Target == "":
		what = "it has no target"
	case len(j.Event) > 0 && !json.Valid(j.Event):
		what = "its event is not valid JSON"
	case !known(j.State) && j.State != "":
		what = fmt.Sprintf("unknown state %q", j.State)
	default:
		return nil
	}
	return fmt.Errorf("cannot store delivery %q of record %q: %s", j.ID, j.Record, what)
}

func known(state delivery.State) bool {
	return state == delivery.Waiting || state == delivery.Delivered || state == delivery.Dead
}

// first reports whether no job of a target and session is waiting.
func (c *change) first(target, session string) (bool, error) {
	var n int
	waits, err := c.Row("SELECT 1 FROM job WHERE state = 'waiting' AND target = ? AND session = ? LIMIT 1", []any{target, session}, &n)
	return !waits, err
}

// promote makes the first waiting job of a target and session ready.
func (c *change) promote(target, session string) error {
	return c.Run(`UPDATE job SET ready = 1 WHERE ready = 0 AND num =
		(SELECT num FROM job WHERE state = 'waiting' AND target = ? AND session = ? ORDER BY num LIMIT 1)`, target, session)
}

// farthest is longer than any job has to wait. A job that is due later was postponed while a
// clock was wrong, and would not be tried for a long time after the clock is corrected.
const farthest = 48 * time.Hour

// Lease returns up to n jobs that are due, in the order in which they were put. It does not
// return them again until the lease ends, they are settled, or the Queue is opened again: only
// one process can open it, so the process that held the old leases has ended. Lease leaves out
// targets that are off or in except, and ordered jobs that have to wait for an earlier job of
// their target and session. If now is before the last now, or at the first call, jobs that would
// wait for more than two days become due at once.
func (q *Queue) Lease(ctx context.Context, now time.Time, lease time.Duration, n int, except []string) ([]delivery.Job, error) {
	if n <= 0 {
		return nil, nil
	}
	var jobs []delivery.Job
	err := q.write(ctx, func(c *change) error {
		jobs = nil
		if err := q.startLeases(c, now); err != nil {
			return err
		}
		targets, err := liveTargets(&c.View, except)
		if err != nil {
			return err
		}
		var nums []int64
		for _, t := range targets {
			if t.due > database.Stamp(now) {
				continue
			}
			err := c.Each(`SELECT num FROM job INDEXED BY job_turn WHERE state = 'waiting' AND ready = 1 AND target = ? AND due <= ?
				ORDER BY num LIMIT ?`, []any{t.name, database.Stamp(now), n}, func(scan func(into ...any) error) error {
				var num int64
				err := scan(&num)
				nums = append(nums, num)
				return err
			})
			if err != nil {
				return err
			}
		}
		slices.Sort(nums)
		nums = nums[:min(n, len(nums))]
		for _, num := range nums {
			job, err := c.lease(num, now.Add(lease))
			if err != nil {
				return err
			}
			jobs = append(jobs, job)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot lease deliveries: %w", err)
	}
	return jobs, nil
}

// startLeases ends the leases of a process that has ended, and corrects due times that were set
// while a clock was wrong.
func (q *Queue) startLeases(c *change, now time.Time) error {
	if q.leased.IsZero() {
		if err := c.Run("UPDATE job SET due = next WHERE state = 'waiting' AND due > next"); err != nil {
			return err
		}
	}
	if q.leased.IsZero() || now.Before(q.leased) {
		if err := c.Run("UPDATE job SET due = ? WHERE state = 'waiting' AND due > ?", database.Stamp(now), database.Stamp(now.Add(farthest))); err != nil {
			return err
		}
	}
	q.leased = now
	return nil
}

func (c *change) lease(num int64, until time.Time) (delivery.Job, error) {
	if err := c.Run("UPDATE job SET due = ? WHERE num = ?", database.Stamp(until), num); err != nil {
		return delivery.Job{}, err
	}
	return scanJob(func(into ...any) error {
		_, err := c.Row("SELECT "+jobColumns+" FROM job WHERE num = ?", []any{num}, into...)
		return err
	})
}

// due is a target and the time at which its next job is due.
type due struct {
	name string
	due  int64
}

// liveTargets returns the targets that are not off and have jobs that only wait for their time.
// It reads one row per target, independent of the number of jobs.
func liveTargets(v *database.View, except []string) ([]due, error) {
	var targets []due
	for last := ""; ; { // target names are never empty
		var t due
		var off bool
		found, err := v.Row(`SELECT target, due, target IN (SELECT target FROM off) FROM job INDEXED BY job_due
			WHERE state = 'waiting' AND ready = 1 AND target > ? ORDER BY target, due LIMIT 1`, []any{last}, &t.name, &t.due, &off)
		if err != nil || !found {
			return targets, err
		}
		if !off && !slices.Contains(except, t.name) {
			targets = append(targets, t)
		}
		last = t.name
	}
}

// Settle stores and counts the results of delivery attempts. A job that was not tried is due as
// before. Settle ignores unknown jobs, and a second attempt for a job that was already ended by
// another one: a delivered job stays delivered, and a dead job changes only if it was delivered. It
// deletes the event of a delivered job.
func (q *Queue) Settle(ctx context.Context, results []delivery.Result) error {
	for _, r := range results {
		if !known(r.State) {
			return fmt.Errorf("cannot store the result of delivery %q: unknown state %q", r.ID, r.State)
		}
	}
	if len(results) == 0 {
		return nil
	}
	err := q.write(ctx, func(c *change) error {
		for i := range results {
			if err := c.settle(&results[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot store delivery results: %w", err)
	}
	return nil
}

func (c *change) settle(r *delivery.Result) error {
	var num int64
	var state delivery.State
	var target, session string
	found, err := c.Row("SELECT num, state, target, session FROM job WHERE id = ?", []any{r.ID}, &num, &state, &target, &session)
	if err != nil || !found {
		return err
	}
	if r.Off {
		if err := c.Run("INSERT INTO off(target, since, why) VALUES (?,?,?) ON CONFLICT DO NOTHING",
			target, database.Stamp(r.At), cmp.Or(r.Error, fmt.Sprintf("it answered %d", r.Status))); err != nil {
			return err
		}
	}
	if state == delivery.Delivered || state == delivery.Dead && r.State != delivery.Delivered {
		return nil
	}
	if r.Untried {
		return c.Run("UPDATE job SET due = next WHERE num = ? AND state = 'waiting'", num)
	}
	var next, ended int64
	if r.State == delivery.Waiting {
		next = database.Stamp(r.Next)
	} else {
		ended = database.Stamp(r.At)
	}
	if err := c.Run("UPDATE job SET state = ?, tries = tries + 1, next = ?, due = ?, status = ?, error = ?, ended = ?, event = iif(?, x'', event) WHERE num = ?",
		string(r.State), next, next, r.Status, r.Error, ended, r.State == delivery.Delivered, num); err != nil {
		return err
	}
	if r.State == delivery.Waiting {
		return nil
	}
	return c.promote(target, session)
}

// NextDue returns when the next job is due that Lease could return. For a job that is due at
// once, the time is long past. A leased job is due when its lease ends, because the worker that
// holds the lease may have died.
func (q *Queue) NextDue(ctx context.Context) (time.Time, error) {
	var next time.Time
	err := q.Reader.db.Read(ctx, func(v *database.View) error {
		targets, err := liveTargets(v, nil)
		for _, t := range targets {
			if at := time.Unix(0, t.due).UTC(); next.IsZero() || at.Before(next) {
				next = at
			}
		}
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read when the next delivery is due: %w", err)
	}
	return next, nil
}

// Retry makes dead jobs due at once, with as many attempts as new jobs. It returns how many of
// the IDs were dead jobs.
func (q *Queue) Retry(ctx context.Context, ids ...string) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	err = q.write(ctx, func(c *change) error {
		n = 0
		for _, id := range ids {
			var num int64
			var target, session string
			dead, err := c.Row("SELECT num, target, session FROM job WHERE id = ? AND state = 'dead'", []any{id}, &num, &target, &session)
			if err != nil {
				return err
			}
			if !dead {
				continue
			}
			// The job takes its old position again: later ordered jobs wait for it.
			err = errors.Join(
				c.Run("UPDATE job SET state = 'waiting', ready = 1 - ordered, tries = 0, next = 0, due = 0, ended = 0 WHERE num = ?", num),
				c.Run("UPDATE job SET ready = 0 WHERE state = 'waiting' AND target = ? AND session = ? AND num > ? AND ordered AND ready", target, session, num),
				c.promote(target, session))
			if err != nil {
				return err
			}
			n++
		}
		c.due = c.due || n > 0
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cannot retry deliveries: %w", err)
	}
	return n, nil
}

// SwitchOn resumes deliveries to a disabled target. For a target that is on, it does nothing; for
// an unknown target it returns ErrNoTarget.
func (q *Queue) SwitchOn(ctx context.Context, target string) error {
	err := q.write(ctx, func(c *change) error {
		n, err := c.Change("DELETE FROM off WHERE target = ?", target)
		if err != nil {
			return err
		}
		if n > 0 {
			c.due = true
			return nil
		}
		found, err := c.Row("SELECT 1 FROM job WHERE target = ? LIMIT 1", []any{target}, new(int))
		if err == nil && !found {
			err = ErrNoTarget
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cannot resume deliveries to %q: %w", target, err)
	}
	return nil
}

// pruneBatch is how many jobs are removed in one transaction, so that a Put does not wait long.
const pruneBatch = 256

// Prune removes the jobs that ended before a time. Waiting jobs stay.
func (q *Queue) Prune(ctx context.Context, before time.Time) error {
	for n := int64(pruneBatch); n == pruneBatch; {
		err := q.write(ctx, func(c *change) (err error) {
			n, err = c.Change("DELETE FROM job WHERE num IN (SELECT num FROM job WHERE state <> 'waiting' AND ended > 0 AND ended < ? LIMIT ?)", database.Stamp(before), pruneBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot remove old deliveries: %w", err)
		}
	}
	return nil
}
