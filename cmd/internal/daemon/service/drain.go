package service

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Drained is the result of a drain.
type Drained struct {
	Busy bool `json:"busy,omitempty"` // another process has the queue, and makes the deliveries
	Kept int  `json:"kept"`           // deliveries of pending hooks that are in the queue now
	delivery.Summary
	Waiting int       `json:"waiting"` // remaining deliveries
	Next    time.Time `json:"next,omitzero"`

	Warnings []string `json:"warnings,omitempty"` // about the queue, such as a loss of waiting deliveries

	mu   sync.Mutex
	last map[string]Try // guarded by mu; by delivery ID
}

// A Try is one delivery attempt and its result.
type Try struct {
	Job    delivery.Job
	Result delivery.Result
}

func (d *Drained) observe(j delivery.Job, r delivery.Result, _ time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[j.ID] = Try{j, r}
}

// Missed returns the last attempts of the deliveries that have not succeeded, sorted by ID.
func (d *Drained) Missed() []Try {
	var missed []Try
	for _, id := range slices.Sorted(maps.Keys(d.last)) {
		if t := d.last[id]; t.Result.State != delivery.Delivered {
			missed = append(missed, t)
		}
	}
	return missed
}

// countingOutbox is an outbox that only stores deliveries. The drain makes them itself, and
// reports their results.
type countingOutbox struct {
	Outbox
	kept int
}

func (k *countingOutbox) Put(ctx context.Context, p spool.Pending, h policyfile.HTTP) error {
	err := k.Outbox.Put(ctx, p, h)
	if err == nil {
		k.kept++
	}
	return err
}

func (k *countingOutbox) Flush(context.Context) error { return k.close() }

// Drain runs pending hooks, removes old Records, and then tries the deliveries that are due. Until wait has passed, it
// also tries deliveries that become due.
func Drain(ctx context.Context, place local.Place, wait time.Duration) (*Drained, error) {
	end := time.Now().Add(wait)
	done := &Drained{last: make(map[string]Try)}
	box := &countingOutbox{Outbox: Outbox{place: place, opts: done.options()}}
	err := errors.Join(hookcmd.Drain(ctx, place, box), late.Retire(place, time.Now()))
	done.Kept = box.kept
	return done, errors.Join(err, done.deliver(ctx, place, end))
}

func (d *Drained) options() queue.Options {
	return queue.Options{Note: func(err error) { d.Warnings = append(d.Warnings, err.Error()) }}
}

// deliver tries due deliveries until end.
func (d *Drained) deliver(ctx context.Context, place local.Place, end time.Time) error {
	if _, err := os.Stat(place.Queue()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	opts := d.options()
	q, err := OpenQueue(ctx, place, max(LockWait, time.Until(end)), &opts)
	if errors.Is(err, queue.ErrLocked) {
		d.Busy = true
		return nil
	}
	if err != nil {
		return err
	}
	defer q.Close()
	for {
		sum, err := deliverDue(ctx, place, q, d.observe)
		d.Delivered += sum.Delivered
		d.Failed += sum.Failed
		d.Dead += sum.Dead
		d.Off += sum.Off
		if err != nil {
			return err
		}
		if d.Next, err = q.NextDue(ctx); err != nil {
			return err
		}
		at := later(d.Next, time.Now().Add(time.Second)) // a delivery that is due waits for its target
		if d.Next.IsZero() || at.After(end) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(at)):
		}
	}
	targets, err := q.Targets(ctx)
	for _, t := range targets {
		d.Waiting += t.Waiting
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// LockWait is how long a command waits for another process that has the queue open: a drain has
// it open for a moment.
const LockWait = 3 * time.Second
