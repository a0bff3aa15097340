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
	Observers    []Observer  // told of every firing; see also AddObserver
	Background   Background  // runs observing hooks; nil = the engine does, in goroutines that Close waits for
	Stops        StopCounter // counts blocks of a stop in a row; nil = the engine does, in memory
	Preset       Preset      // how hooks run; the zero Preset is Grapnel's own way
	ReasonLimit  int         // bytes of reasons in a Verdict, of messages, and of a halt; 0 = 4096
	ContextLimit int         // bytes of context in a Verdict; 0 = 32768
}

// An Engine fires events through hooks. It is safe for concurrent use; adding or
// removing hooks does not disturb an event that is under way.
//
// An engine can have the hooks of others beside its own: see [Engine.With] and
// [Engine.In]. What changes it then changes only what is its own.
type Engine struct {
	*layer                       // its own
	stack  []*layer              // whose hooks run, its own among them, in the order of registration
	table  atomic.Pointer[table] // of these, as they were when it was made
}

// A layer is what one engine brings along to all that have its hooks.
type layer struct {
	opts  Options
	state atomic.Pointer[state]
	mu    sync.Mutex // serialises writers of state
	late  late
}

// state is what of a layer can change. One that others can see never does.
type state struct {
	specs     []Spec
	observers []Observer
	off       bool
}

// New returns an engine with these hooks. An error names the first Spec that is
// not valid.
func New(specs []Spec, opts *Options) (*Engine, error) { return newEngine(specs, opts, nil) }

func newEngine(specs []Spec, opts *Options, below []*layer) (*Engine, error) {
	l := &layer{}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.Stops == nil {
		l.opts.Stops = &stopCounts{}
	}
	if l.opts.ReasonLimit <= 0 {
		l.opts.ReasonLimit = 4096
	}
	if l.opts.ContextLimit <= 0 {
		l.opts.ContextLimit = 32768
	}
	named, err := l.opts.Preset.named(cloneSpecs(specs))
	if err != nil {
		return nil, err
	}
	l.state.Store(&state{specs: named, observers: slices.Clone(l.opts.Observers)})
	e := &Engine{layer: l, stack: slices.Concat([]*layer{l}, below)}
	e.renew()
	return e, nil
}

// With returns an engine with these hooks of its own, which stand before those that
// e has, for one session or sub-agent. It runs them as e does and tells e's
// Observers. What changes in e later reaches it too; what changes in it does not
// reach e. About the scope of its hooks see [Engine.In]. It has a Close of its own, which
// waits for the hooks that are its own.
func (e *Engine) With(specs ...Spec) (*Engine, error) {
	opts := e.opts
	opts.Observers = nil // they are e's
	return newEngine(specs, &opts, e.stack)
}

// now is the table of all layers as they are.
func (e *Engine) now() *table {
	t := e.table.Load()
	for i, l := range e.stack {
		if l.state.Load() != t.states[i] {
			return e.renew()
		}
	}
	return t
}

// renew makes the table anew. Of two at the same time the older one may stay, until
// now finds that.
func (e *Engine) renew() *table {
	states := make([]*state, len(e.stack))
	for i, l := range e.stack {
		states[i] = l.state.Load()
	}
	t := newTable(states, &e.opts.Preset)
	e.table.Store(t)
	return t
}

// Add adds hooks for events that are fired from now on. Where the Preset lets names
// be replaced, a hook takes the place of one with its full name.
func (e *Engine) Add(specs ...Spec) error {
	return e.Update(func(old []Spec) []Spec { return append(old, specs...) })
}

// Remove removes all hooks of a source and returns how many there were.
func (e *Engine) Remove(source string) int {
	return e.RemoveFunc(func(s *Spec) bool { return s.Source.Name == source })
}

// RemoveFunc removes the hooks for which drop returns true, and returns how many
// there were. drop must not change the engine.
func (e *Engine) RemoveFunc(drop func(*Spec) bool) int {
	removed := 0
	_ = e.Update(func(old []Spec) []Spec { // a subset of valid hooks is valid
		kept := slices.DeleteFunc(slices.Clone(old), func(s Spec) bool { return drop(&s) })
		removed = len(old) - len(kept)
		return kept
	})
	return removed
}

// Update puts the hooks that change returns in the place of those it is given, all
// at once: no event meets some of the new ones without the others. The slice is
// change's to use, and it must not change the engine. On an error all stays as it was.
func (e *Engine) Update(change func([]Spec) []Spec) error {
	return e.set(func(s *state) (err error) {
		s.specs, err = e.opts.Preset.named(cloneSpecs(change(cloneSpecs(s.specs))))
		return err
	})
}

// Enable switches the engine's own hooks on or off; they are on in a new engine.
// Firings that are under way are not disturbed.
func (e *Engine) Enable(on bool) {
	_ = e.set(func(s *state) error {
		s.off = !on
		return nil
	})
}

// AddObserver lets o be told of every firing from now on, until remove is called.
// Firings that are under way may tell it after that.
func (e *Engine) AddObserver(o Observer) (remove func()) {
	added := &struct{ Observer }{o} // o itself may be there twice, or be a func, which compares with nothing
	_ = e.set(func(s *state) error {
		s.observers = append(slices.Clone(s.observers), added)
		return nil
	})
	return func() {
		_ = e.set(func(s *state) error {
			s.observers = slices.DeleteFunc(slices.Clone(s.observers), func(o Observer) bool { return o == Observer(added) })
			return nil
		})
	}
}

// set changes a copy of the layer's state, which then becomes the state.
func (e *Engine) set(change func(*state) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := *e.state.Load()
	if err := change(&next); err != nil {
		return err
	}
	e.state.Store(&next)
	e.renew()
	return nil
}

// Specs returns all hooks, those that are switched off too, in the order in which
// they were added.
func (e *Engine) Specs() []Spec {
	var all []Spec
	for _, l := range e.stack {
		all = append(all, l.state.Load().specs...)
	}
	return cloneSpecs(all)
}

// Count is how many of the Specs listen to a kind of event, as far as the kind goes.
// The empty Kind counts them all.
func (e *Engine) Count(k Kind) int {
	n := 0
	for _, l := range e.stack {
		specs := l.state.Load().specs
		for i := range specs {
			if s := &specs[i]; k == "" || len(s.On) == 0 || slices.Contains(s.On, k) {
				n++
			}
		}
	}
	return n
}

// List returns the Specs that Count counts, in the order in which they run.
func (e *Engine) List(k Kind) []Spec {
	states := make([]*state, len(e.stack))
	for i, l := range e.stack {
		states[i] = &state{specs: l.state.Load().specs}
	}
	t := newTable(states, &e.opts.Preset)
	ranked := t.ranked
	if k != "" {
		ranked = nil
		for _, group := range t.lineup(k).groups() {
			ranked = append(ranked, group...)
		}
	}
	specs := make([]Spec, len(ranked))
	for i, s := range ranked {
		specs[i] = *s
	}
	return cloneSpecs(specs)
}

// Has reports whether anybody would hear of an event of this kind, be it a hook or
// an Observer. If not, there is no need to make one.
func (e *Engine) Has(k Kind) bool {
	t := e.now()
	return t.lineup(k).size > 0 || len(t.observers) > 0
}

// Decides reports whether what anybody says about an event of this kind would count:
// [Engine.Has] without Observers, observing hooks and those in the mode [Observe]. If
// not, there is no need to hold anything back until it was fired.
func (e *Engine) Decides(k Kind) bool { return e.now().lineup(k).decides }

// Plan returns who would run for ev, and in which step. No hook is called. During
// a firing hooks are matched again whenever the event changed.
func (e *Engine) Plan(ev *Event) Plan {
	t := e.now()
	return t.lineup(ev.Kind).plan(ev, t)
}

// Fire runs the hooks that listen to ev and returns the merged answer. It never
// fails: what goes wrong in a hook counts as its OnError says, and is in the
// Record. When ctx is done, steps that have not started count as failed. A hook
// that calls runtime.Goexit and has no Timeout ends the caller's goroutine.
//
// Hooks that are late and observing hooks read ev, and what the Verdict refers to,
// after Fire has returned: leave both as they are.
func (e *Engine) Fire(ctx context.Context, ev *Event) Verdict {
	t := e.now()
	l := t.lineup(ev.Kind)
	if l.size == 0 && len(t.observers) == 0 {
		return Verdict{Event: ev}
	}
	return e.fire(ctx, t, l, ev, nil, nil)
}

// FireAll is Fire for those who want to know what comes of the observing hooks too.
// Each is told on the channel when it has ended, with what it would have said, and
// the channel is closed after the last. It may be ignored: nobody waits for a reader.
// Like all observing hooks they outlive ctx and have a deadline of their own. Those
// that a Background runs are not heard of.
func (e *Engine) FireAll(ctx context.Context, ev *Event) (Verdict, <-chan HookRun) {
	t := e.now()
	heard := newTally(t.lineup(ev.Kind))
	defer heard.end()
	return e.fire(ctx, t, t.lineup(ev.Kind), ev, nil, heard), heard.runs
}

// Start fires ev in the background, also after ctx is cancelled; Close waits for
// it and for its observing hooks. The Verdict comes on the channel, which may be ignored.
// After Close nothing is fired, and the channel is closed without a Verdict.
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
	t := e.now()
	l := t.lineup(ev.Kind)
	if ev.Kind == "" {
		l = t.whatever()
	}
	return e.fire(ctx, t, l, ev, err, nil)
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
