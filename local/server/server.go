// Package server opens the policies of this machine for a Go agent that runs for long. It is
// [local.Open] with everything that grapnel-hook and the daemon do around it:
//
//		engine, err := server.Open(ctx, &server.Options{CWD: dir, Agent: "my-agent"})
//		if err != nil {
//			return err
//		}
//		defer engine.Close(ctx)
//		verdict := engine.Fire(ctx, event)
//
//	  - Hooks with `http:` and webhooks reach their servers. The machine's policies open networks.
//	  - Each event has a Record, which "grapnel log", "grapnel status" and "grapnel watch" show.
//	  - The events of `notify:` hooks are stored before Fire returns. The engine delivers them, and
//	    tries again by the schedule of the daemon. What Close leaves, the next program delivers.
//	  - Calls that a person has approved with "grapnel allow" pass. A rule with `approve:` waits for a
//	    person, who answers there or in the browser; for other questions, the Engine is a host.Approver.
//	  - An edited policy takes effect within about a second, by the rules of the daemon: while a file is
//	    broken, its last valid content stays in force.
//	  - [Engine.Counts] and [Engine.Metrics] say what happened.
//
// One engine is for the sessions of one working directory. Deliveries are sequential, so a slow target
// delays the others. The channel of Terms.Late gets no observing hooks; their results are in the log.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Options configure [Open]. The zero value opens the policies of the user and of the project in the
// working directory.
type Options struct {
	Root     string   // directory of policy and state; empty = the user's directories
	CWD      string   // working directory of the agent; empty = this process's working directory
	Policies []string // more policy files, relative to CWD; they need no trust
	Agent    string   // name of the agent in the Records of events that name none

	Observers []grapnel.Observer // get each Record as it is stored; see [grapnel.Observer]
	Log       *slog.Logger       // for lost Records, failed deliveries and broken policies; nil = slog.Default
}

// An Engine holds the policies of this machine. It is safe for concurrent use. The caller must close
// it. host.New takes its field Engine. Specs that the caller adds stay when policies are loaded again.
type Engine struct {
	*grapnel.Engine

	Root string // root of the project

	opts      Options
	place     local.Place
	identity  local.Identity
	approvals approval.Approvals
	log       *slog.Logger

	counter *spool.Spool // counts of limits, and states of circuit breakers
	client  *outbound.Client
	pool    *remote.Pool
	workers local.Workers
	outbox  outbox
	count   counter

	loading sync.Mutex // serializes loads
	retired []retired  // guarded by loading
	now     atomic.Pointer[loaded]
	notify  sync.Map    // full names of all `notify:` hooks so far
	lost    atomic.Bool // the last Record could not be stored

	mu      sync.Mutex
	closed  bool           // guarded by mu
	running sync.WaitGroup // observing hooks
	permits chan struct{}  // one entry for each running observing hook

	loops   sync.WaitGroup
	wake    chan struct{} // an event waits for its delivery
	stop    chan struct{} // closed by Close
	abandon context.CancelFunc
}

// loaded are the policies in force.
type loaded struct {
	set     load.Set
	digest  string
	records *spool.Spool
	names   map[string]bool // full names of the hooks
	files   []load.File
	stamps  files.Stamps
	at      time.Time
	steady  bool
}

// retired is a worker that no policy in force uses. An event that has already started may use it.
type retired struct {
	worker *process.Worker
	at     time.Time
}

const (
	lookEvery = time.Second     // time between two looks for edited policies
	lateTime  = 5 * time.Minute // limit of an observing hook without a timeout, and of a retired worker
	maxLate   = 256             // observing hooks that run at the same time
)

// Open loads policies into an engine; opts may be nil. A policy with mistakes is not an error, but
// shows a message with `session.start` and `prompt.before`, as in each agent.
func Open(ctx context.Context, opts *Options) (*Engine, error) {
	e := &Engine{wake: make(chan struct{}, 1), stop: make(chan struct{}), permits: make(chan struct{}, maxLate)}
	if opts != nil {
		e.opts = *opts
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	var err error
	if e.place, err = local.Locate(e.opts.Root, ""); err != nil {
		return nil, fmt.Errorf("server.Options.Root: %w", err)
	}
	if e.counter, err = spool.Open(e.place.State, nil); err != nil {
		return nil, fmt.Errorf("server.Options.Root: %w", err)
	}
	e.log = cmp.Or(e.opts.Log, slog.Default())
	e.Root, e.identity = local.ProjectRoot(e.opts.CWD), e.place.Identity()
	e.approvals = approval.Approvals{Store: e.place.Approvals()}
	e.client, e.pool = outbound.NewClient(&outbound.Options{KeepIdle: remote.KeepIdle}), remote.NewPool()
	e.outbox = outbox{client: e.client, log: e.log, count: &e.count}
	next, engine, err := e.load(ctx)
	if err != nil {
		return nil, errors.Join(err, e.release(ctx))
	}
	e.Engine = engine
	e.inForce(next)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.abandon = cancel
	e.loops.Go(func() { e.look(work) })
	e.loops.Go(func() { e.deliver(work) })
	return e, nil
}

// check completes the options, and returns an error that names the field with a mistake.
func (e *Engine) check() error {
	o := &e.opts
	if o.CWD == "" {
		dir, err := os.Getwd()
		if err != nil {
			return fmt.Errorf("server.Options.CWD: %w", err)
		}
		o.CWD = dir
	}
	dir, err := filepath.Abs(o.CWD)
	if err != nil {
		return fmt.Errorf("server.Options.CWD: %w", err)
	}
	o.CWD = dir
	if err := directory(o.CWD); err != nil {
		return fmt.Errorf("server.Options.CWD: %w", err)
	}
	if o.Root != "" {
		if err := directory(o.Root); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("server.Options.Root: %w", err)
		}
	}
	o.Policies = slices.Clone(o.Policies)
	for i, name := range o.Policies {
		if !filepath.IsAbs(name) {
			name = filepath.Join(o.CWD, name)
			o.Policies[i] = name
		}
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("server.Options.Policies: %w", err)
		}
	}
	return nil
}

func directory(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", name)
	}
	return err
}

func (e *Engine) files() []load.File {
	return e.place.Files(e.opts.Policies, e.place.DirsOf(e.opts.CWD))
}

// load reads the policies. The engine that it returns has these policies, and runs for e.
func (e *Engine) load(ctx context.Context) (*loaded, *grapnel.Engine, error) {
	files := e.files()
	l := &loaded{files: files, at: time.Now(), stamps: e.place.Stamps(files), names: map[string]bool{}}
	if err := e.client.SetReach(e.place.Reach()); err != nil {
		return nil, nil, err
	}
	engine, err := local.Open(ctx, &local.Options{
		Place: &e.place, Files: files,
		Runners: policy.Runners{
			Command: func(c policyfile.Command) grapnel.Hook { return e.workers.Hook(e.place, c) },
			Webhook: e.webhook,
			HTTP: func(h policyfile.HTTP) (grapnel.Hook, error) {
				return judge{e.asker(e.counter, h, func() policyfile.Reach { return l.set.Reach }), e, l}, nil
			},
			Notify: func(h policyfile.HTTP) (grapnel.Hook, error) {
				e.notify.Store(h.FullName(), true)
				return late.Notify(h)
			},
		},

		Observers: []grapnel.Observer{grapnel.ObserverFunc(e.observe)}, Approved: e.approved, Background: e.background,
		Stops: e.counter.Blocked, Counter: e.counter, Settled: true,
		Loaded: func(set *load.Set) error {
			if set.Strict {
				set.Specs = append(set.Specs, e.strict())
			}
			return nil
		},
	})
	if err != nil {
		return nil, nil, err
	}
	_, paused := pause.Read(e.place.Pause(), l.at)
	l.set, l.digest, l.steady = engine.Set, engine.Set.Digest(), !engine.Set.Unsteady && !paused
	for i := range l.set.Specs {
		l.names[l.set.Specs[i].FullName()] = true
	}
	if l.records, err = spool.Open(e.place.State, nil); err != nil {
		return nil, nil, err
	}
	late.KeepRecords(l.records, &l.set)
	return l, engine.Engine, nil
}

// inForce puts policies in force, and reports files with mistakes.
func (e *Engine) inForce(next *loaded) {
	before := e.now.Swap(next)
	for i := range next.set.Files {
		f := &next.set.Files[i]
		if f.State != load.Broken || before != nil && slices.ContainsFunc(before.set.Files, func(old load.Loaded) bool {
			return old.File == f.File && old.State == f.State && fmt.Sprint(old.Errors) == fmt.Sprint(f.Errors)
		}) {
			continue
		}
		e.log.Warn("policy is broken; its last valid content stays in force, or tools are blocked", "file", f.File, "errors", f.Errors)
	}
}

// Reload applies edits of policies now. The engine does it about every second. Events that have
// already started keep their hooks. On an error, the policies in force stay.
func (e *Engine) Reload(ctx context.Context) error {
	e.loading.Lock()
	defer e.loading.Unlock()
	before := e.now.Load()
	if before.steady && slices.Equal(before.files, e.files()) && before.stamps.Current(before.at) {
		return nil
	}
	next, _, err := e.load(ctx)
	if err == nil {
		err = e.Update(func(specs []grapnel.Spec) []grapnel.Spec {
			own := slices.DeleteFunc(specs, func(s grapnel.Spec) bool { return before.names[s.FullName()] })
			return append(slices.Clone(next.set.Specs), own...)
		})
	}
	if err != nil {
		e.count.failedReloads.Add(1)
		return fmt.Errorf("cannot load the policies again: %w", err)
	}
	e.inForce(next)
	if next.digest != before.digest {
		e.count.reloads.Add(1)
	}
	_ = before.records.Close() // it opens its file again if a firing still uses it
	for _, worker := range e.workers.Unused() {
		e.retired = append(e.retired, retired{worker, time.Now()})
	}
	return nil
}

// look applies edits until the engine is closed. ctx ends its waits.
func (e *Engine) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		text := ""
		if err := e.Reload(ctx); err != nil {
			text = err.Error()
		}
		if text != "" && text != failed {
			e.log.Warn("policies in force stay", "error", text)
		}
		failed = text
		e.endRetired(ctx, time.Now().Add(-lateTime))
	}
}

// endRetired ends the workers that were retired before a time.
func (e *Engine) endRetired(ctx context.Context, before time.Time) {
	e.loading.Lock()
	defer e.loading.Unlock()
	for len(e.retired) > 0 && e.retired[0].at.Before(before) {
		if err := e.retired[0].worker.Close(ctx); err != nil {
			e.log.Warn("worker did not end by itself", "error", err)
		}
		e.retired = e.retired[1:]
	}
}

// Close waits for events, hooks and deliveries that are in progress, and ends workers, until ctx is
// done. An event of a `notify:` hook that is not delivered by then stays stored: the daemon, the next
// [Open] or the next drain of grapnel-hook delivers it. Later events get verdicts and Records, and are
// stored for `notify:`, but other observing hooks do not run.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	again := e.closed
	e.closed = true
	e.mu.Unlock()
	if again {
		return nil
	}
	errs := []error{e.Engine.Close(ctx), wait(ctx, &e.running, "observing hooks are")}
	close(e.stop)
	if wait(ctx, &e.loops, "") != nil {
		e.abandon() // the delivery in progress is made again
	}
	e.loops.Wait()
	e.abandon()
	if records := e.now.Load().records; records.Later() || !records.Waiting().IsZero() {
		e.log.Warn("deliveries wait for the next program", "directory", e.place.State)
	}
	e.endRetired(ctx, time.Now().Add(time.Hour))
	return errors.Join(append(errs, e.release(ctx))...)
}

func (e *Engine) release(ctx context.Context) error {
	errs := []error{e.workers.Close(ctx), e.pool.Close(ctx), e.client.Close(ctx), e.counter.Close()}
	if now := e.now.Load(); now != nil {
		errs = append(errs, now.records.Close())
	}
	return errors.Join(errs...)
}

// wait waits for a group until ctx is done.
func wait(ctx context.Context, group *sync.WaitGroup, what string) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s still in progress: %w", what, context.Cause(ctx))
	}
}

// A judge is the hook of an `http:` entry that decides. It adds the origin of events to its requests.
type judge struct {
	*ask.Hook
	e *Engine
	l *loaded
}

func (j judge) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	return j.Hook.Handle(wire.WithOrigin(ctx, j.e.origin(j.l)), ev)
}

// asker returns the hook of an `http:` entry.
func (e *Engine) asker(c ask.Circuits, h policyfile.HTTP, reach func() policyfile.Reach) *ask.Hook {
	return &ask.Hook{HTTP: h, Reach: reach, Circuits: c, Send: e.pool.Send}
}

// webhook returns the hook of a webhook, which waits for the delivery, so that its error is recorded.
func (e *Engine) webhook(w policyfile.Webhook) (grapnel.Hook, error) {
	hook, err := e.client.PolicyWebhook(w)
	if err != nil {
		return nil, err
	}
	return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{}, hook.Deliver(ctx, ev)
	}), nil
}
