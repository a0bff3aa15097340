package grapnel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Options are an engine's settings. The zero value is the default, and nil is fine.
type Options struct {
	Observers    []Observer  // told of every firing; none = no Record is made
	Background   Background  // runs observing hooks; nil = the engine does, in goroutines that Close waits for
	Stops        StopCounter // counts blocks of a stop in a row; nil = the engine does, in memory
	Preset       Preset      // how hooks run; the zero Preset is Grapnel's own way
	ReasonLimit  int         // bytes of reasons in a Verdict, of messages, and of a halt; 0 = 4096
	ContextLimit int         // bytes of context in a Verdict; 0 = 32768
}

// An Engine fires events through hooks. It is safe for concurrent use; adding or
// removing hooks does not disturb an event that is under way.
type Engine struct {
	opts  Options
	table atomic.Pointer[table]
	mu    sync.Mutex // serialises writers of table
	late  late

	disabled atomic.Bool
}

// New returns an engine with these hooks. An error names the first Spec that is
// not valid.
func New(specs []Spec, opts *Options) (*Engine, error) {
	e := &Engine{}
	if opts != nil {
		e.opts = *opts
		e.opts.Observers = slices.Clone(opts.Observers)
	}
	if e.opts.Stops == nil {
		e.opts.Stops = &stopCounts{}
	}
	if e.opts.ReasonLimit <= 0 {
		e.opts.ReasonLimit = 4096
	}
	if e.opts.ContextLimit <= 0 {
		e.opts.ContextLimit = 32768
	}
	t, err := newTable(specs, &e.opts.Preset)
	if err != nil {
		return nil, err
	}
	e.table.Store(t)
	return e, nil
}

// With returns an engine that has these hooks on top of e's, for one session or
// sub-agent; e itself stays as it is. Later changes of e do not reach it, and it
// has a Close of its own.
func (e *Engine) With(specs ...Spec) (*Engine, error) {
	return New(slices.Concat(e.table.Load().specs, specs), &e.opts)
}

// Add adds hooks for events that are fired from now on. Where the Preset lets names
// be replaced, a hook takes the place of one with its full name.
func (e *Engine) Add(specs ...Spec) error {
	return e.update(func(old []Spec) []Spec { return slices.Concat(old, specs) })
}

// Remove removes all hooks of a source and returns how many there were.
func (e *Engine) Remove(source string) int {
	return e.RemoveFunc(func(s *Spec) bool { return s.Source.Name == source })
}

// RemoveFunc removes the hooks for which drop returns true, and returns how many
// there were. drop must not call the engine.
func (e *Engine) RemoveFunc(drop func(*Spec) bool) int {
	removed := 0
	_ = e.update(func(old []Spec) []Spec { // a subset of a valid table is valid
		kept := slices.DeleteFunc(slices.Clone(old), func(s Spec) bool { return drop(&s) })
		removed = len(old) - len(kept)
		return kept
	})
	return removed
}

func (e *Engine) update(change func([]Spec) []Spec) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err := newTable(change(e.table.Load().specs), &e.opts.Preset)
	if err != nil {
		return err
	}
	e.table.Store(t)
	return nil
}

// Enable switches all hooks on or off; they are on in a new engine. Firings that
// are under way are not disturbed.
func (e *Engine) Enable(on bool) { e.disabled.Store(!on) }

// Specs returns the hooks, in the order in which they were added.
func (e *Engine) Specs() []Spec {
	return cloneSpecs(e.table.Load().specs)
}

// Plan returns who would run for ev, and in which step. No hook is called. During
// a firing hooks are matched again whenever the event changed.
func (e *Engine) Plan(ev *Event) Plan {
	return e.table.Load().lineup(ev.Kind).plan(ev, &e.opts.Preset)
}

// Fire runs the hooks that listen to ev and returns the merged answer. It never
// fails: what goes wrong in a hook counts as its OnError says, and is in the
// Record. When ctx is done, steps that have not started count as failed. A hook
// that calls runtime.Goexit and has no Timeout ends the caller's goroutine.
//
// Hooks that are late and observing hooks read ev, and what the Verdict refers to,
// after Fire has returned: leave both as they are.
func (e *Engine) Fire(ctx context.Context, ev *Event) Verdict {
	l := e.enabled(e.table.Load().lineup(ev.Kind))
	if l.size == 0 && len(e.opts.Observers) == 0 {
		return Verdict{Event: ev}
	}
	return e.fire(ctx, l, ev, nil)
}

// Start fires ev in the background, also after ctx is cancelled; Close waits for
// it. The Verdict comes on the channel, which may be ignored. After Close nothing is
// fired, and the channel is closed without a Verdict.
func (e *Engine) Start(ctx context.Context, ev *Event) <-chan Verdict {
	verdict := make(chan Verdict, 1)
	ctx = context.WithoutCancel(ctx)
	if !e.late.hold(func() {
		defer close(verdict)
		verdict <- e.Fire(ctx, ev)
	}) {
		close(verdict)
	}
	return verdict
}

// Fail answers for an event that could not be read: every hook that listens to
// its kind counts as failed with err, and their OnError decides. An empty Kind
// means that not even the kind is known; then every hook of every event that can
// be stopped counts.
func (e *Engine) Fail(ctx context.Context, ev *Event, err error) Verdict {
	if err == nil {
		err = errors.New("it could not be read")
	}
	t := e.table.Load()
	l := t.lineup(ev.Kind)
	if ev.Kind == "" {
		l = t.unknown
	}
	return e.fire(ctx, e.enabled(l), ev, err)
}

// enabled is a lineup, or one with nobody in it where all hooks are switched off.
func (e *Engine) enabled(l *lineup) *lineup {
	if e.disabled.Load() {
		return &lineup{contract: l.contract}
	}
	return l
}

// Close waits until the hooks that the engine runs in the background have ended,
// or ctx is done. Events can still be fired; their observing hooks are then not
// run, and their Records say so.
func (e *Engine) Close(ctx context.Context) error {
	e.late.mu.Lock()
	e.late.closed = true
	e.late.mu.Unlock()
	done := make(chan struct{})
	go func() {
		e.late.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
