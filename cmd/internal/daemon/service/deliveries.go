package service

import (
	"context"
	"errors"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// wake makes the deliverer look for due deliveries.
func (d *daemon) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deliver != nil {
		d.deliver.Wake()
	}
}

// deliveries delivers webhooks until ctx is done.
func (d *daemon) deliveries(ctx context.Context) error {
	client, err := remote.NewClient(d.place.Reach(), remote.KeepIdle)
	if err != nil {
		return err
	}
	now := time.Now
	if fault.On {
		now = fault.Now
	}
	deliverer := delivery.New(d.queue, delivery.Options{
		Now:    now,
		Client: client, Log: d.log,
		Resolve: func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
			h, reach, err := late.NotifyOf(d.place, late.HookRef(j.Hook))
			if err != nil {
				return h, err
			}
			// If the operator closes a network, that applies to waiting deliveries too.
			return h, client.SetReach(reach)
		},
		Observe: func(_ delivery.Job, r delivery.Result, _ time.Duration) { d.metrics.DeliveryTried(endOf(&r)) },
	})
	d.mu.Lock()
	d.deliver = deliverer
	d.mu.Unlock()
	return errors.Join(deliverer.Run(ctx), client.Close(context.WithoutCancel(ctx)))
}

// endOf returns the result of a delivery attempt in one word.
func endOf(r *delivery.Result) string {
	switch {
	case r.Off:
		return "off"
	case r.State == delivery.Waiting:
		return "again"
	default:
		return string(r.State)
	}
}

const (
	// drainAfter is how long hooks may be pending before the daemon runs them. Until then the
	// hook program that queued them should run them, in the environment of the agent.
	drainAfter = 5 * time.Second
)

// drain runs hooks that no other drain has run. It also takes the deliveries that a drain could
// not put into the queue, because this daemon has the queue open.
func (d *daemon) drain(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		d.tryAppend()
		if d.overdue(time.Now()) {
			if err := hookcmd.Drain(ctx, d.place, openOutbox{d.queue}); err != nil && ctx.Err() == nil {
				d.log.Warn("cannot run pending hooks", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// overdue reports whether pending hooks have waited for drainAfter.
func (d *daemon) overdue(now time.Time) bool {
	sp, err := spool.Open(d.place.State, nil)
	if err != nil {
		return false
	}
	since := sp.Waiting()
	return sp.Later() || !since.IsZero() && now.Sub(since) > drainAfter
}

// openOutbox is an outbox for the queue that the daemon has open.
type openOutbox struct{ queue *queue.Queue }

func (o openOutbox) Put(ctx context.Context, p spool.Pending, h policyfile.HTTP) error {
	job, err := jobFor(&p, &h)
	if err != nil {
		return err
	}
	fault.At("serve: before a notice is kept")
	err = o.queue.Put(ctx, job)
	fault.At("serve: a notice is kept")
	return err
}

// Flush does nothing: the queue wakes the deliverer.
func (openOutbox) Flush(context.Context) error { return nil }
