package grapnel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/presets"
)

// Options are an engine's settings. nil means the defaults.
type Options struct {
	Observers    []Observer // called after every firing; see also AddObserver
	Preset       Preset     // how hooks run; the zero Preset is Grapnel's default
	ReasonLimit  int        // limit in bytes for the reasons of a Verdict, for its messages, and for its halt text; 0 = 4096
	ContextLimit int        // limit in bytes for the context of a Verdict; 0 = 32768

	// Approved finds the approval of a hook's answer to the event that it saw, concurrently and without an effect.
	Approved func(ctx context.Context, ev *Event, hook *Spec, decision Decision) Approval

	// Background starts observing hooks and does not wait for them. Its error is in the Record and in
	// the Verdict's Messages. nil = goroutines of the engine, which Close waits for.
	Background func(ctx context.Context, ev *Event, hooks []Spec) error

	// Stops counts, for each key, how often in a row an agent was kept from stopping; without again, from 1.
	Stops func(key string, again bool) (inARow int, err error)
}

// An Engine fires events through hooks. It is safe for concurrent use, and changes do not affect
// firings that have started. It can also run the hooks of other engines, see [Engine.With] and
// [Engine.In], but changes only its own. A nil or zero Engine has no hooks and takes none.
type Engine struct {
	*layer                       // this engine's own hooks, observers and options
	stack  []*layer              // all layers whose hooks run, including the own one, in registration order
	table  atomic.Pointer[table] // lookup table of the stack, built from the states at that time
}

// A layer holds the hooks, observers and options that one engine contributes to every engine that
// runs its hooks.
type layer struct {
	opts  Options
	rules *presets.Row // of opts.Preset
	state atomic.Pointer[state]
	mu    sync.Mutex // serializes writers of state
	late  late
}

// state is the changeable part of a layer. Published states are immutable.
type state struct {
	specs     []Spec
	observers []Observer
	off       bool
}

// New returns an engine with these hooks, or an error for the first invalid one.
func New(specs []Spec, opts *Options) (*Engine, error) { return newEngine(specs, opts, nil) }

func newEngine(specs []Spec, opts *Options, below []*layer) (*Engine, error) {
	l := &layer{}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.Stops == nil {
		l.opts.Stops = new(stopCounts).blocked
	}
	if l.opts.ReasonLimit <= 0 {
		l.opts.ReasonLimit = 4096
	}
	if l.opts.ContextLimit <= 0 {
		l.opts.ContextLimit = 32768
	}
	l.rules = l.opts.Preset.rules()
	own, err := named(l.rules, cloneSpecs(specs))
	if err != nil {
		return nil, err
	}
	l.state.Store(&state{specs: own, observers: slices.Clone(l.opts.Observers)})
	e := &Engine{layer: l, stack: slices.Concat([]*layer{l}, below)}
	e.renew()
	return e, nil
}

var (
	errNotNew = errors.New("the engine was not created with grapnel.New")
	noHooks   = sync.OnceValue(func() *Engine {
		e, _ := New(nil, nil) // an empty list has no invalid hook
		return e
	})
)

// created reports whether New has created the engine.
func (e *Engine) created() bool { return e != nil && e.layer != nil }

// orNone returns the engine, or an engine without hooks if it is nil or zero.
func (e *Engine) orNone() *Engine {
	if e.created() {
		return e
	}
	return noHooks()
}

// With returns an engine for one session or sub-agent: it runs these hooks before the hooks of e,
// with the options and Observers of e. Changes of e apply to it, its own do not affect e. Its Close
// waits only for its own hooks. For the scope of the hooks see [Engine.In].
func (e *Engine) With(specs ...Spec) (*Engine, error) {
	if !e.created() {
		return nil, errNotNew
	}
	opts := e.opts
	opts.Observers = nil // e's layer already contains them
	return newEngine(specs, &opts, e.stack)
}

// now returns a table that matches the current state of all layers.
func (e *Engine) now() *table {
	t := e.table.Load()
	for i, l := range e.stack {
		if l.state.Load() != t.states[i] {
			return e.renew()
		}
	}
	return t
}

// renew rebuilds the table from the current states. If two calls race, the older table may
// remain; the next call of now detects that.
func (e *Engine) renew() *table {
	states := make([]*state, len(e.stack))
	for i, l := range e.stack {
		states[i] = l.state.Load()
	}
	t := newTable(states, e.rules)
	e.table.Store(t)
	return t
}

// Add adds hooks. On an error, none is added.
func (e *Engine) Add(specs ...Spec) error {
	return e.Update(func(old []Spec) []Spec { return append(old, specs...) })
}

// Remove removes the hooks for which drop returns true and returns the number of removed hooks.
// drop must not change the engine.
func (e *Engine) Remove(drop func(*Spec) bool) int {
	removed := 0
	_ = e.Update(func(old []Spec) []Spec { // a subset of valid hooks is valid
		kept := slices.DeleteFunc(slices.Clone(old), func(s Spec) bool { return drop(&s) })
		removed = len(old) - len(kept)
		return kept
	})
	return removed
}

// Update replaces the engine's own hooks by the ones that change returns, at once: no event runs a
// mix. change may modify its argument and must not change the engine. On an error, nothing changes.
func (e *Engine) Update(change func([]Spec) []Spec) error {
	return e.set(func(s *state) (err error) {
		s.specs, err = named(e.rules, cloneSpecs(change(cloneSpecs(s.specs))))
		return err
	})
}

// Enable switches the engine's own hooks on or off. A new engine has them on.
func (e *Engine) Enable(on bool) {
	_ = e.set(func(s *state) error {
		s.off = !on
		return nil
	})
}

// AddObserver adds o until remove is called; earlier firings may still call it.
func (e *Engine) AddObserver(o Observer) (remove func()) {
	added := &struct{ Observer }{o} // o itself may be added twice, or be a func, and funcs are not comparable
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

// set applies change to a copy of the layer's state and publishes the copy. On an error, it
// publishes nothing.
func (e *Engine) set(change func(*state) error) error {
	if !e.created() {
		return errNotNew
	}
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

// Specs returns the hooks for a kind of event, also disabled ones, in the order in
// which they run. It ignores tools and Matchers. The empty Kind returns all.
func (e *Engine) Specs(k Kind) []Spec {
	e = e.orNone()
	states := make([]*state, len(e.stack))
	for i, l := range e.stack {
		states[i] = &state{specs: l.state.Load().specs}
	}
	t := newTable(states, e.rules)
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

// Listens reports whether any hook or Observer would get such an event, and whether
// any hook can affect its Verdict. If not, callers need not build the event, or not
// wait for the Verdict.
func (e *Engine) Listens(k Kind) (heard, decides bool) {
	t := e.orNone().now()
	l := t.lineup(k)
	return l.size > 0 || len(t.observers) > 0, l.decides
}

// Plan returns which hooks would run for ev, and in which step.
func (e *Engine) Plan(ev *Event) Plan {
	ev = orEmpty(ev)
	t := e.orNone().now()
	return t.lineup(ev.Kind).plan(ev, t)
}

// Fire runs the hooks that listen to ev and returns the merged answer. It never fails: the OnError
// of a failed hook decides, and the Record has the failure. A nil event and one of an unknown kind
// are blocked. Hooks get a tool call completed, see [Tool.Complete]. When ctx is done, steps fail
// that have not started, and the Verdict's Err reports it.
//
// Late hooks may still read ev and the Verdict, so callers must not modify them.
func (e *Engine) Fire(ctx context.Context, ev *Event) Verdict {
	e, ev = e.orNone(), orEmpty(ev)
	t := e.now()
	l := t.lineup(ev.Kind)
	switch terms := ev.Terms; {
	case terms != nil && (terms.Unread != nil || terms.Late != nil):
		return e.fireUnder(ctx, t, l, ev)
	case l == &t.other.lineup && !ev.Kind.Native():
		return e.refuse(ctx, t, ev)
	case l.size == 0 && len(t.observers) == 0:
		return Verdict{Event: ev}
	}
	return e.fire(ctx, t, l, ev, nil, nil)
}

// fireUnder fires an event that could not be read, or whose observing hooks report their runs.
func (e *Engine) fireUnder(ctx context.Context, t *table, l *lineup, ev *Event) Verdict {
	terms := ev.Terms
	if terms.Unread != nil && ev.Kind == "" {
		l = t.forUnknown()
	}
	heard := newTally(l)
	defer heard.end()
	if terms.Late != nil {
		terms.Late(heard.runs)
	}
	if terms.Unread == nil && l == &t.other.lineup && !ev.Kind.Native() {
		return e.refuse(ctx, t, ev)
	}
	return e.fire(ctx, t, l, ev, terms.Unread, heard)
}

// orEmpty returns ev, or an event without a kind for nil.
func orEmpty(ev *Event) *Event {
	if ev == nil {
		return &Event{}
	}
	return ev
}

func unknownKind(k Kind) error {
	if k == "" {
		return errors.New("the event has no Kind: use a Kind of grapnel.Contracts, or native.<agent>.<Name>")
	}
	return fmt.Errorf("unknown event %q: use a Kind of grapnel.Contracts, or native.<agent>.<Name>", k)
}

// refuse blocks an event of an unknown kind. The hooks that should judge it do not listen to this
// kind, for example because the caller misspelled it.
func (e *Engine) refuse(ctx context.Context, t *table, ev *Event) Verdict {
	ev = clone(ev)
	if ev.ID == "" {
		ev.ID = newID(time.Now())
	}
	err := unknownKind(ev.Kind)
	f := firing{engine: e, table: t, lineup: &lineup{}, contract: &Contract{Blocks: BlockingAction}, first: ev, ev: ev, record: len(t.observers) > 0}
	v := Verdict{Event: ev, Decision: Block, Reasons: []Reason{{Hook: "grapnel", Text: err.Error(), Cause: CauseError}}, Err: err}
	if f.record {
		if err := f.notifyObservers(ctx, v, time.Now(), err); err != nil {
			v.Messages = append(v.Messages, "grapnel: "+err.Error())
		}
	}
	return v
}

// Close waits for the observing hooks, or until ctx is done; then it returns the
// cause of ctx. Events that are fired later run no observing hooks.
func (e *Engine) Close(ctx context.Context) error {
	if !e.created() {
		return nil
	}
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
