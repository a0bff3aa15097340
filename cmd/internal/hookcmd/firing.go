package hookcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A sink receives the Record of a firing and its observing hooks.
type sink interface {
	grapnel.Observer
	Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error
}

// A keeper is a sink that stores the Records and hooks.
type keeper interface {
	sink

	// end is called after the reply was computed. It reports whether observing hooks wait for a
	// drain, and returns an error if something could not be stored.
	end(ctx context.Context) (pending bool, err error)
}

// spooled is the keeper that stores Records and observing hooks in a Spool.
type spooled struct{ spool *spool.Spool }

func (s spooled) Observe(ctx context.Context, rec *grapnel.Record) { s.spool.Observe(ctx, rec) }

func (s spooled) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	return queue(s).Run(ctx, ev, hooks)
}

func (s spooled) end(context.Context) (bool, error) { return s.spool.Queued(), s.spool.Err() }

// firing is the processing of one event. It passes the Records and observing hooks of its engine
// to the sink.
type firing struct {
	set      *load.Set
	spool    *spool.Spool
	keep     keeper
	programs bool // the policies have hooks that start programs
	sink     sink
	record   grapnel.Record
	watch    *watchdog // of the event; nil = none
	rootless error     // why the root of the session could not be stored; nil = it was

	approvals approval.Approvals
	person    *person  // nil = the hook program asks
	approved  approved // by an earlier report of the same action

	losses spool.Losses // lost Records that the reply reports

	identity local.Identity // origin of the Record
	policies func() string  // digest of the policies in force
}

// notices returns the hooks that inform the user at session start and with each prompt: that the
// root of the session could not be stored, and once that Records were lost.
func (f *firing) notices(kind grapnel.Kind) (specs []grapnel.Spec) {
	if !notice.Shows(kind) {
		return nil
	}
	if f.rootless != nil {
		specs = append(specs, notice.New("session-root", "grapnel: "+f.rootless.Error()))
	}
	if l := spool.ReadLosses(f.spool.Dir(), time.Now()); l.Unshown() {
		f.losses = l
		specs = append(specs, notice.New("lost-records", fmt.Sprintf("grapnel: lost Records: %d since %s, the last because: %s (run \"grapnel doctor\")", l.Replies, l.First.Local().Format("2006-01-02 15:04"), l.Error)))
	}
	return specs
}

// lost counts a reply without a complete Record. The reply reports the loss even if it cannot be
// counted.
func (f *firing) lost(why error) { _ = spool.AddLoss(f.spool.Dir(), why, time.Now()) }

func (f *firing) Observe(ctx context.Context, rec *grapnel.Record) {
	own := *rec
	rec = &own
	if f.rootless != nil {
		rec.Error = strings.TrimPrefix(rec.Error+"; "+f.rootless.Error(), "; ")
	}
	f.identity.Mark(rec, f.set, f.policies())
	if rec.Decision >= grapnel.Ask && rec.Error == "" {
		rec.CallDigest = f.approvals.Store.Digest(rec.Verdict.Event)
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

// Find returns the approval of a hook's answer. An action that is reported twice uses it once.
func (f *firing) Find(ctx context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval {
	found := f.approvals.Find(ctx, ev, hook, decision)
	if found.How != "" && f.approved.has(hook.FullName()) {
		found.ID, found.Use = f.approved.id(), func(context.Context, *grapnel.Event) bool { return true }
	}
	if decision == grapnel.Ask && found.How != "" && approval.Terms(hook) != nil {
		found.Ask, found.Permit = f.ask, true
	}
	if use := found.Use; use != nil {
		found.Use = func(ctx context.Context, ev *grapnel.Event) bool { return !f.left() && use(ctx, ev) }
	}
	return found
}

// ask asks a person. A daemon leaves that to the hook program, which waits beside the agent.
func (f *firing) ask(ctx context.Context, ev *grapnel.Event, hooks []grapnel.HookRun) (string, grapnel.Outcome) {
	if j, ok := f.keep.(*journal); ok {
		j.left = true
		return "", grapnel.Outcome{}
	}
	return f.person.ask(ctx, ev, hooks)
}

// left reports whether the firing is of a daemon, and the hook program will judge the event again:
// then no approval is used.
func (f *firing) left() bool {
	j, ok := f.keep.(*journal)
	return ok && j.left
}

// approved is the approval of an action: its ID, and the full names of the hooks whose answers had
// no effect. nil = the action needed none.
type approved []string

func (a approved) id() string {
	if len(a) == 0 {
		return ""
	}
	return a[0]
}

func (a approved) has(hook string) bool { return len(a) > 0 && slices.Contains(a[1:], hook) }

// approvedIn returns the approval in a Record.
func approvedIn(rec *grapnel.Record) (a approved) {
	for i := range rec.Hooks {
		if run := &rec.Hooks[i]; run.Approved > grapnel.None {
			s := grapnel.Spec{Name: run.Name, Source: grapnel.Source{Name: run.Source}}
			a = append(a, s.FullName())
		}
	}
	if a == nil {
		return nil
	}
	return slices.Insert(a, 0, rec.Approval)
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

// fire computes the reply to an event and stores its Records and observing hooks. warning is an
// earlier error; nil = no error. The reply shows it.
func (inv *invocation) fire(ctx context.Context, engine *grapnel.Engine, f *firing, got dialect.Received, warning error) (reply dialect.Reply, pending bool, err error) {
	ctx = wire.WithOrigin(ctx, f.identity.Origin(f.set, f.policies()))
	f.sink = f.keep
	once := hold(f.spool, f.keep, got, inv)
	defer once.close()
	if once != nil {
		f.sink, f.approved = once, once.approved()
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
	pending, err = f.keep.end(ctx)
	if err == nil && f.losses.Unshown() {
		_ = spool.LossesShown(f.spool.Dir(), f.losses, time.Now()) // otherwise the next reply repeats the message
	}
	if err != nil {
		f.lost(err)
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
