package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// observe stores a Record, and passes it to the observers of the options.
func (e *Engine) observe(ctx context.Context, rec *grapnel.Record) {
	now, own := e.now.Load(), *rec
	e.identity.Mark(&own, &now.set, now.digest)
	own.Agent = cmp.Or(own.Agent, e.opts.Agent)
	if own.Decision >= grapnel.Ask && own.Error == "" {
		own.CallDigest = e.approvals.Store.Digest(own.Verdict.Event)
	}
	err := now.records.Store(&own)
	e.lost.Store(err != nil)
	if err != nil {
		_ = spool.AddLoss(now.records.Dir(), err, time.Now()) // for "grapnel status"
		e.log.Error("Record lost", "event", own.Event, "id", own.ID, "error", err)
	}
	e.count.observe(&own, err)
	for _, o := range e.opts.Observers {
		o.Observe(ctx, &own)
	}
}

// strict returns the hook of strict policies. The Record of an event is stored after its verdict, so
// the hook blocks while the last Record could not be stored.
func (e *Engine) strict() grapnel.Spec {
	return grapnel.Spec{
		Name: "records", Source: grapnel.Source{Name: "grapnel:strict", Scope: grapnel.ScopeManaged}, Phase: grapnel.PhaseRule, OnError: grapnel.OnErrorClosed,
		On: []grapnel.Kind{grapnel.ToolBefore, grapnel.PermissionBefore, grapnel.MessageBefore},
		Hook: grapnel.Guard(func(*grapnel.Event) string {
			if !e.lost.Load() {
				return ""
			}
			return "A policy is strict, and the Record of the last event could not be stored."
		}),
	}
}

// origin returns the origin of events that these policies judge.
func (e *Engine) origin(l *loaded) *wire.Origin { return e.identity.Origin(&l.set, l.digest) }

// background stores the events of `notify:` hooks for their delivery, and starts the other
// observing hooks.
func (e *Engine) background(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	ctx = wire.WithOrigin(ctx, e.origin(e.now.Load()))
	var failed error
	for i := range hooks {
		h := &hooks[i]
		if _, ok := e.notify.Load(h.FullName()); ok {
			failed = errors.Join(failed, e.queue(ctx, ev, h))
			continue
		}
		if !e.start(ctx, ev, h) {
			failed = errors.Join(failed, fmt.Errorf("hook %q: the engine is closed, or %d observing hooks run already", h.FullName(), maxLate))
		}
	}
	return failed
}

// queue stores an event for the delivery to the target of a `notify:` hook.
func (e *Engine) queue(ctx context.Context, ev *grapnel.Event, h *grapnel.Spec) error {
	shown, err := redact.Shown(h.Hook, ev)
	if err != nil {
		return fmt.Errorf("hook %q: %w", h.FullName(), err)
	}
	if err := e.now.Load().records.Run(ctx, shown, []grapnel.Spec{*h}); err != nil {
		return err
	}
	select {
	case e.wake <- struct{}{}:
	default: // an earlier call is still pending
	}
	return nil
}

// start runs an observing hook in a goroutine that Close waits for.
func (e *Engine) start(ctx context.Context, ev *grapnel.Event, h *grapnel.Spec) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	select {
	case e.permits <- struct{}{}:
	default:
		return false
	}
	e.running.Go(func() {
		defer func() { <-e.permits }()
		limit := cmp.Or(h.Timeout, lateTime)
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("%w of %v", grapnel.ErrTimeout, limit))
		defer cancel()
		begun := time.Now()
		err := handle(ctx, h.Hook, ev)
		if err == nil && builtin.WritesLine(h.Hook) {
			return // the line says all
		}
		e.count.late(err)
		if err := e.now.Load().records.Ran(spool.NewPending(ctx, h, ev), begun, err); err != nil {
			e.log.Error("result of an observing hook lost", "hook", h.FullName(), "error", err)
		}
	})
	return true
}

// handle recovers from panics of a hook.
func handle(ctx context.Context, h grapnel.Hook, ev *grapnel.Event) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", grapnel.ErrPanic, r)
		}
	}()
	_, err = h.Handle(ctx, ev)
	return err
}
