package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/queue"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Outbox stores deliveries on a machine without a daemon: a drain opens the queue for a moment.
// While a daemon has the queue open, the daemon takes the pending deliveries.
type Outbox struct {
	place local.Place
	opts  queue.Options
	queue *queue.Queue // nil = not open
}

// NewOutbox returns the outbox of a place.
func NewOutbox(place local.Place) *Outbox { return &Outbox{place: place} }

func (o *Outbox) open() (err error) {
	if o.queue == nil {
		o.queue, err = queue.Open(o.place.Queue(), &o.opts)
	}
	return err
}

// Put stores one delivery.
func (o *Outbox) Put(ctx context.Context, p spool.Pending, h policyfile.HTTP) error {
	job, err := jobFor(&p, &h)
	if err == nil {
		err = o.open()
	}
	if err != nil {
		return err
	}
	return o.queue.Put(ctx, job)
}

// jobFor returns the delivery of a pending hook.
func jobFor(p *spool.Pending, h *policyfile.HTTP) (delivery.Job, error) {
	job := delivery.Job{
		ID: p.ID, Target: h.FullName(), Hook: delivery.Hook(late.RefOf(p)),
		Ordered: h.Ordered, Created: p.Time, State: delivery.Waiting,
	}
	if p.Event == nil {
		return job, errors.New("the event is missing")
	}
	job.Record, job.Session = cmp.Or(p.Event.ID, p.ID), p.Event.Session.ID
	var err error
	job.Event, err = webhook.Event(p.Event, p.Origin)
	return job, err
}

// Flush tries the due deliveries and closes the queue. It does nothing if the queue does not
// exist or another process has it open.
func (o *Outbox) Flush(ctx context.Context) error {
	if _, err := os.Stat(o.place.Queue()); o.queue == nil && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := o.open(); err != nil {
		if errors.Is(err, queue.ErrLocked) {
			return nil
		}
		return err
	}
	clearTrustEnv()
	_, err := deliverDue(ctx, o.place, o.queue, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the next drain makes the remaining deliveries
	}
	if limits, unknown := records.Limits(o.place); unknown == nil {
		err = errors.Join(err, o.queue.Prune(ctx, time.Now().Add(-limits.Age())))
	}
	return errors.Join(err, o.close())
}

// close closes the queue, so that other processes can open it.
func (o *Outbox) close() (err error) {
	if o.queue != nil {
		err = o.queue.Close()
		o.queue = nil
	}
	return err
}

// deliverDue tries each due delivery once, and calls observe for each attempt; nil = not called.
func deliverDue(ctx context.Context, place local.Place, queue delivery.Queue, observe func(delivery.Job, delivery.Result, time.Duration)) (delivery.Summary, error) {
	client, err := remote.NewClient(place.Reach(), 0)
	if err != nil {
		return delivery.Summary{}, err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	return delivery.New(queue, delivery.Options{
		Client: client, Observe: observe, Log: slog.New(slog.DiscardHandler), // errors of the queue are returned
		Resolve: func(_ context.Context, j *delivery.Job) (policyfile.HTTP, error) {
			h, _, err := late.NotifyOf(place, late.HookRef(j.Hook))
			return h, err
		},
	}).Once(ctx)
}

// clearTrustEnv removes the environment variables that change trusted certificates and name
// resolution: a drain has the environment of the agent, where a project's settings can set any
// variable.
func clearTrustEnv() {
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES"} {
		_ = os.Unsetenv(name)
	}
}
