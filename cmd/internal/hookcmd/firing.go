package hookcmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy"
)

// A sink receives the Record of a firing and its observing hooks.
type sink interface {
	grapnel.Observer
	grapnel.Background
}

// A keeper is a sink that stores the Records and hooks.
type keeper interface {
	sink

	// end is called after the reply was computed. It reports whether observing hooks wait for a
	// drain, and returns an error if something could not be stored.
	end(ctx context.Context) (pending bool, err error)
}

// spooled is the keeper that stores Records and observing hooks in the spool.
type spooled struct{ spool *spool.Spool }

func (s spooled) Observe(ctx context.Context, rec *grapnel.Record) { s.spool.Observe(ctx, rec) }

func (s spooled) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	return late(s).Run(ctx, ev, hooks)
}

func (s spooled) end(context.Context) (bool, error) { return s.spool.Queued(), s.spool.Err() }

// firing is the processing of one event. It passes the Records and observing hooks of its engine
// to the sink.
type firing struct {
	set      *policy.Set
	spool    *spool.Spool
	keep     keeper
	programs bool // the policies have hooks that start programs
	sink     sink
	record   grapnel.Record
	watch    *watchdog // of the event; nil = none
	rootless error     // why the root of the session could not be stored; nil = it was
}

// rootNotice returns the hook that informs the user at session start and with each prompt that
// the root of the session could not be stored.
func rootNotice(why error) grapnel.Spec { return notice.New("grapnel: " + why.Error()) }

func (f *firing) Observe(ctx context.Context, rec *grapnel.Record) {
	if f.rootless != nil {
		own := *rec
		own.Error = strings.TrimPrefix(own.Error+"; "+f.rootless.Error(), "; ")
		rec = &own
	}
	f.record = *rec
	if f.watch.expired() {
		return // the agent got another reply, which has its own Record
	}
	f.sink.Observe(ctx, rec)
}

func (f *firing) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	if f.watch.expired() {
		return nil
	}
	return f.sink.Run(ctx, ev, hooks)
}

// receive reads an event. It sets the time and the ID if the event has none.
func (inv *invocation) receive(d *dialect.Dialect, input dialect.Input) dialect.Received {
	got := dialect.Receive(d, input)
	if got.Event.Time.IsZero() { // few agents send a time; Gemini CLI, for one, always passes one to its hooks
		got.Event.Time = time.Now()
	}
	if got.Event.ID == "" {
		got.Event.ID = inv.firing
	}
	return got
}

// fire computes the reply to an event and stores its Records and observing hooks. lost is an
// earlier error, which becomes a warning in the reply.
func (inv *invocation) fire(ctx context.Context, engine *grapnel.Engine, f *firing, got dialect.Received, warning error) (reply dialect.Reply, pending bool, err error) {
	f.sink = f.keep
	once := hold(f.spool, f.keep, got, inv)
	defer once.close()
	if once != nil {
		f.sink = once
	}
	if repeat := once.verdict(f.set, f); repeat != nil {
		engine = repeat
	}
	if f.programs { // if the agent ends this process, it must end its hook programs too
		inv.watch.listen()
	}
	reply = got.Answer(ctx, engine)
	if inv.watch.expired() {
		return reply, false, nil
	}
	once.keep(ctx)
	if warning != nil {
		warn(&reply, warning)
	}
	if pending, err = f.keep.end(ctx); err != nil {
		err = fmt.Errorf("no Record was stored: %w", err)
		// A strict policy permits nothing without a Record. A decision to block stays: it must
		// not be replaced by a weaker one.
		if f.set.Strict && f.record.Decision < grapnel.Block && (notice.Locks(f.record.Event) || len(reply.Stdout) == 0) {
			return reply, false, err
		}
		warn(&reply, err)
	}
	return reply, pending, nil
}
