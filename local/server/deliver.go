package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

const (
	drainAfter = 5 * time.Second  // until then, the program that queued a hook should run it
	cooldown   = 30 * time.Second // of a target that cannot answer; as in the daemon
)

// deliver delivers the events of `notify:` hooks until the engine is closed. ctx cancels the delivery
// in progress.
func (e *Engine) deliver(ctx context.Context) {
	records := e.now.Load().records
	next := time.Time{}
	if since := records.Waiting(); records.Later() || !since.IsZero() && time.Since(since) > drainAfter {
		next = time.Now() // an earlier process left it
	}
	for {
		var timer <-chan time.Time
		if !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-e.stop:
			if !e.now.Load().records.Waiting().IsZero() {
				e.drain(ctx)
			}
			return
		case <-e.wake:
		case <-timer:
		}
		next = e.drain(ctx)
	}
}

// drain makes the deliveries that are due, and returns when the next one is due; zero = none waits.
func (e *Engine) drain(ctx context.Context) time.Time {
	records := e.now.Load().records
	run := late.Runner(e.place, late.Kinds{
		Webhook: func(w policyfile.Webhook) grapnel.Hook {
			hook, err := e.webhook(w)
			if err != nil {
				return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, err })
			}
			return hook
		},
		HTTP: func(c ask.Circuits, h policyfile.HTTP) grapnel.Hook { return e.asker(c, h, e.place.Reach) },
	}, e.counter, e.outbox.put)
	all := e.outbox.due(time.Now())
	drain := records.DrainNew
	if all {
		drain = records.Drain
		e.outbox.begin()
	}
	if err := drain(ctx, run); err != nil && ctx.Err() == nil {
		e.log.Error("cannot read the deliveries that wait", "error", err)
	}
	if all {
		e.outbox.end()
	}
	return e.outbox.next(records.Later())
}

// An outbox delivers the events of `notify:` hooks. An event whose delivery failed waits in the
// spool; the outbox remembers only when to try again. Only one goroutine uses it.
type outbox struct {
	client  *outbound.Client
	log     *slog.Logger
	count   *counter
	jobs    map[string]*job      // that wait, by ID
	targets map[string]time.Time // that get no deliveries until a time
	order   map[string]string    // the ID of the event that later events of a target and session wait for
}

type job struct {
	tries int
	next  time.Time
	seen  bool // by the drain in progress
}

var errWaits = errors.New("its next attempt is not due")

// due reports whether events that wait are due. If the outbox knows of none, an earlier process may
// have left some.
func (o *outbox) due(now time.Time) bool {
	if len(o.jobs) == 0 {
		return true
	}
	for _, j := range o.jobs {
		if !now.Before(j.next) {
			return true
		}
	}
	return false
}

// begin begins a drain of all events, and end forgets the events that it did not find, because
// another program has delivered them.
func (o *outbox) begin() {
	for _, j := range o.jobs {
		j.seen = false
	}
}

func (o *outbox) end() {
	for id, j := range o.jobs {
		if !j.seen {
			o.forget(id)
		}
	}
}

func (o *outbox) forget(id string) {
	delete(o.jobs, id)
	for key, first := range o.order {
		if first == id {
			delete(o.order, key)
		}
	}
}

// next returns when to look again. left reports whether events wait.
func (o *outbox) next(left bool) (next time.Time) {
	for _, j := range o.jobs {
		if next.IsZero() || j.next.Before(next) {
			next = j.next
		}
	}
	if next.IsZero() && left { // another program delivers
		next = time.Now().Add(cooldown)
	}
	return next
}

// put delivers one event. After an error, the event waits in the spool, unless the error is a
// late.ErrDead.
func (o *outbox) put(ctx context.Context, p spool.Pending, h policyfile.HTTP) error {
	now, target := time.Now(), h.FullName()
	key := target
	if p.Event != nil {
		key += "\x00" + p.Event.Session.ID
	}
	j := o.jobs[p.ID]
	if j == nil {
		j = &job{}
	}
	j.seen = true
	if first := o.order[key]; h.Ordered && first != "" && first != p.ID {
		return o.wait(p.ID, j, o.jobs[first].next)
	}
	if until := o.targets[target]; now.Before(until) {
		j.next = later(j.next, until)
	}
	if now.Before(j.next) {
		return o.wait(p.ID, j, j.next)
	}
	reply, err := o.send(ctx, &p, h)
	switch {
	case err == nil:
		o.count.delivered.Add(1)
		o.forget(p.ID)
		delete(o.targets, target)
		return nil
	case ctx.Err() != nil:
		return err // it is unknown whether the target got it
	}
	wait, hold, again := webhook.Wait(j.tries, reply, rand.Float64())
	if reply.Status == http.StatusGone || !again {
		o.count.dead.Add(1)
		o.forget(p.ID)
		o.log.Error("webhook delivery ended without success", "target", target, "id", p.ID, "attempt", j.tries+1, "error", err)
		return fmt.Errorf("%w after %d attempts: %w", late.ErrDead, j.tries+1, err)
	}
	o.count.again.Add(1)
	j.tries++
	if hold > 0 || outbound.ServerFailed(err) {
		hold = max(hold, min(cooldown, wait))
		if o.targets == nil {
			o.targets = map[string]time.Time{}
		}
		o.targets[target] = now.Add(hold)
	}
	if h.Ordered {
		if o.order == nil {
			o.order = map[string]string{}
		}
		o.order[key] = p.ID
	}
	o.log.Warn("webhook delivery failed", "target", target, "id", p.ID, "attempt", j.tries, "next", wait, "error", err)
	_ = o.wait(p.ID, j, now.Add(wait))
	return err
}

// wait remembers when to try an event again.
func (o *outbox) wait(id string, j *job, next time.Time) error {
	if o.jobs == nil {
		o.jobs = map[string]*job{}
	}
	j.next = next
	o.jobs[id] = j
	return errWaits
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// send makes one attempt.
func (o *outbox) send(ctx context.Context, p *spool.Pending, h policyfile.HTTP) (outbound.Reply, error) {
	target := h.FullName()
	h, err := h.Resolve()
	if err != nil {
		return outbound.Reply{}, err
	}
	event, err := webhook.Event(p.Event, p.Origin)
	if err != nil {
		return outbound.Reply{}, err
	}
	return webhook.Send(ctx, o.client, &h, &webhook.Delivery{ID: p.ID, Target: target, Event: event, Created: p.Time})
}
