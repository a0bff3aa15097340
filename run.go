package grapnel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Errors that a Record tells apart; errors.Is finds them in a hook's error.
var (
	ErrTimeout = errors.New("took longer than its timeout")
	ErrPanic   = errors.New("panicked")
	ErrIllegal = errors.New("answered what this event does not permit")
)

// firing is one event on its way through the hooks.
type firing struct {
	engine    *Engine
	lineup    *lineup
	contract  *Contract
	first     *Event // as it came
	ev        *Event // as the hooks so far have left it
	answers   []answer
	conflicts []string
	record    bool
}

// answer is what one hook said, and what that counts as.
type answer struct {
	spec     *Spec
	out      Outcome
	err      error
	round    int
	saw      *Event
	left     *Event // what it saw, with its own changes: what its Allow approves
	took     time.Duration
	decision Decision // after legality, on_error and mode
	cause    Cause
	failOpen bool
	expired  bool
}

func (e *Engine) fire(ctx context.Context, l *lineup, ev *Event, unread error) Verdict {
	f := firing{engine: e, lineup: l, contract: l.contract, first: ev, ev: ev, record: len(e.opts.Observers) > 0}
	if f.contract == nil {
		f.contract = ev.contract()
	}
	var begun time.Time
	if f.record {
		begun = time.Now()
		if ev.ID == "" {
			f.first = clone(ev)
			f.first.ID = newID(begun)
			f.ev = f.first
		}
	}
	if unread != nil {
		f.fail(unread)
	} else {
		f.run(ctx)
	}
	v := f.merge()
	late, failed := f.observers(&v)
	if f.record {
		rec := f.newRecord(&v, late, begun)
		if unread != nil {
			rec.Error = unread.Error()
		}
		f.background(ctx, &v, late, rec, failed)
		for _, o := range e.opts.Observers {
			o.Observe(ctx, rec)
		}
	} else {
		f.background(ctx, &v, late, nil, failed)
	}
	return v
}

// run is the law of a firing: rewrites, rules, steps, and one more bounded round
// when a step changed what the ones before it had judged.
func (f *firing) run(ctx context.Context) {
	f.judge(ctx, 1)
	judged := f.ev
	for _, step := range f.lineup.steps {
		if f.blocked() {
			return
		}
		f.together(ctx, step, 1)
	}
	if f.blocked() || !f.differs(judged) {
		return
	}
	f.judge(ctx, 2)
	if f.blocked() {
		return
	}
	judged = f.ev
	f.together(ctx, f.overruled(), 2)
	if !f.blocked() && f.differs(judged) {
		f.judge(ctx, 2)
	}
}

// judge lets rewrites chain and rules look at the result.
func (f *firing) judge(ctx context.Context, round int) {
	for i := range f.lineup.rewrites {
		f.together(ctx, f.lineup.rewrites[i:i+1], round)
	}
	if !f.blocked() {
		f.together(ctx, f.lineup.rules, round)
	}
}

// overruled lists the steps that answered for an event which a hook of a weaker
// scope changed afterwards.
func (f *firing) overruled() []*Spec {
	weakest := ScopeManaged
	for i := range f.answers {
		a := &f.answers[i]
		if a.spec.Phase == PhaseStep && a.left != nil && a.left != a.saw {
			weakest = max(weakest, a.spec.Source.Scope)
		}
	}
	var again []*Spec
	for i := range f.answers {
		a := &f.answers[i]
		if a.spec.Phase == PhaseStep && a.spec.Source.Scope < weakest && f.differs(a.left) {
			again = append(again, a.spec)
		}
	}
	return again
}

// differs reports whether the event now differs from what it was.
func (f *firing) differs(was *Event) bool {
	return len(changedFields(was, f.ev, f.contract.Changes)) > 0
}

func (f *firing) blocked() bool {
	for i := range f.answers {
		a := &f.answers[i]
		if a.enforced() == Block || a.halts() && f.contract.Blocks == BlockAction {
			return true
		}
	}
	return false
}

// together runs those of the hooks that listen on the same event and lays their
// changes over each other in plan order.
func (f *firing) together(ctx context.Context, specs []*Spec, round int) {
	if len(specs) == 0 {
		return
	}
	if f.answers == nil {
		f.answers = make([]answer, 0, f.lineup.size)
	}
	begin := len(f.answers)
	for _, s := range specs {
		ok, err := s.listens(f.ev, nil)
		switch {
		case err != nil:
			f.answers = append(f.answers, answer{spec: s, saw: f.ev, round: round, err: fmt.Errorf("cannot tell whether it listens: %w", err)})
		case ok:
			f.answers = append(f.answers, answer{spec: s, saw: f.ev, round: round})
		}
	}
	answers := f.answers[begin:]
	if len(answers) == 0 {
		return
	}
	var waits []func()
	for i := range answers {
		a := &answers[i]
		switch {
		case a.err != nil:
		case a.spec.Phase == PhaseStep && ctx.Err() != nil:
			a.err = fmt.Errorf("not started: %w", context.Cause(ctx))
		case a.spec.Timeout > 0:
			waits = append(waits, f.begin(ctx, a))
		default:
			a.call(ctx, f.record)
		}
	}
	for _, wait := range waits {
		wait()
	}
	for i := range answers {
		f.settle(&answers[i])
	}
	if len(answers) > 1 {
		f.noteConflicts(answers)
	}
}

// call runs the hook inline.
func (a *answer) call(ctx context.Context, clock bool) {
	if !clock {
		a.out, a.err = handle(ctx, a.spec.Hook, a.saw)
		return
	}
	begun := time.Now()
	a.out, a.err = handle(ctx, a.spec.Hook, a.saw)
	a.took = time.Since(begun)
}

// handle contains panics: a broken hook is a hook that could not answer.
func handle(ctx context.Context, h Hook, ev *Event) (out Outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = Outcome{}, fmt.Errorf("%w: %v", ErrPanic, r)
		}
	}()
	return h.Handle(ctx, ev)
}

// begin starts the hook in a goroutine and returns the function that waits for
// it. A hook that does not return in time is left behind: its answer, should it
// ever come, goes nowhere.
func (f *firing) begin(ctx context.Context, a *answer) (wait func()) {
	type result struct {
		out  Outcome
		err  error
		took time.Duration
	}
	begun := time.Now()
	limit := fmt.Errorf("%w of %v", ErrTimeout, a.spec.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, a.spec.Timeout, limit)
	done := make(chan result, 1)
	hook, ev := a.spec.Hook, a.saw
	go func() {
		r := result{err: errors.New("ended its goroutine without an answer")}
		defer func() { // also when the hook calls runtime.Goexit
			r.took = time.Since(begun)
			done <- r
		}()
		r.out, r.err = handle(ctx, hook, ev)
	}()
	return func() {
		defer cancel()
		select {
		case r := <-done:
			a.out, a.err, a.took = r.out, r.err, r.took
		case <-ctx.Done():
			var grace time.Duration
			if g, ok := hook.(Graceful); ok {
				grace = g.Grace()
			}
			late := time.NewTimer(grace)
			defer late.Stop()
			select {
			case r := <-done:
				a.out, a.err, a.took = r.out, r.err, r.took
			case <-late.C:
				a.took = time.Since(begun)
			}
			if a.err == nil && a.out.zero() || errors.Is(a.err, context.DeadlineExceeded) || errors.Is(a.err, context.Canceled) {
				a.err = context.Cause(ctx)
			}
		}
	}
}

// settle turns what a hook said into what that counts as, and applies its changes.
func (f *firing) settle(a *answer) {
	a.decision, a.cause, a.left = a.out.Decision, CauseDecision, a.saw
	switch {
	case a.decision > Block:
		f.illegal(a, a.decision.String())
		a.decision = None
	case a.decision == Block && f.contract.Blocks == BlockNothing,
		a.decision == Ask && f.contract.Blocks != BlockAction:
		f.illegal(a, a.decision.String())
		a.decision = None
	case a.decision == Allow && !f.contract.Permit:
		a.decision = None
	}
	if len(a.out.Context) > 0 && !f.contract.Context {
		f.illegal(a, "context")
		a.out.Context = nil
	}
	if len(a.out.Set)+len(a.out.Patch) > 0 {
		f.change(a)
	}
	if a.err == nil || a.spec.Mode == Observe {
		return
	}
	counts := a.spec.onError()
	if f.contract.FailOpen || f.contract.Blocks == BlockNothing {
		counts = OnErrorOpen
	}
	was := a.decision
	switch counts {
	case OnErrorClosed:
		a.decision = Block
	case OnErrorAsk:
		a.decision = max(a.decision, Ask)
		if f.contract.Blocks != BlockAction {
			a.decision = Block
		}
	case OnErrorOpen, OnErrorDefault:
		a.failOpen = a.decision < Block
	}
	if a.decision != was || a.failOpen {
		a.cause = causeOf(a.err)
	}
}

// illegal drops a part of an answer, which counts as an error of the hook.
func (f *firing) illegal(a *answer, what string) {
	a.err = errors.Join(a.err, fmt.Errorf("%w: %s on %s", ErrIllegal, what, f.contract.Kind))
}

func causeOf(err error) Cause {
	if errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return CauseTimeout
	}
	return CauseError
}

// change applies a hook's changes to the event, in a fixed order of fields: whole
// replacements, then patches, views of a field after the field itself.
func (f *firing) change(a *answer) {
	now := f.ev
	apply := func(ev *Event, field Field, value []byte, patch bool) (*Event, error) {
		ch, _ := f.contract.change(field)
		return mergeField(ev, field, value, patch, ch.Merge)
	}
	for _, part := range []struct {
		values map[Field]rawValue
		patch  bool
	}{{a.out.Set, false}, {a.out.Patch, true}} {
		for _, field := range slices.SortedFunc(maps.Keys(part.values), fieldOrder) {
			if !f.contract.Permits(field) {
				f.illegal(a, "a change of "+string(field))
				continue
			}
			value := part.values[field]
			left, err := apply(a.left, field, value, part.patch)
			if err == nil && now != a.saw {
				now, err = apply(now, field, value, part.patch)
			} else if err == nil {
				now = left
			}
			if err != nil {
				f.illegal(a, err.Error())
				continue
			}
			a.left = left
		}
	}
	if a.spec.Mode == Enforce {
		f.ev = now
	}
}

// noteConflicts records the fields that two hooks of one step both replaced.
func (f *firing) noteConflicts(answers []answer) {
	var setters []*answer
	for i := range answers {
		if len(answers[i].out.Set) > 0 && answers[i].spec.Mode == Enforce {
			setters = append(setters, &answers[i])
		}
	}
	for i, b := range setters {
		for _, a := range setters[:i] {
			for _, field := range slices.Sorted(maps.Keys(b.out.Set)) {
				if other, both := a.out.Set[field]; both && !rawEqual(other, b.out.Set[field]) {
					f.conflicts = append(f.conflicts, fmt.Sprintf("%s: %s and %s", field, a.spec.FullName(), b.spec.FullName()))
				}
			}
		}
	}
}

// fail counts every hook that could have run as failed.
func (f *firing) fail(err error) {
	groups := f.lineup.groups()
	for _, group := range groups[:len(groups)-1] { // observers are no guards
		for _, s := range group {
			f.answers = append(f.answers, answer{spec: s, saw: f.ev, round: 1, err: err})
			f.settle(&f.answers[len(f.answers)-1])
		}
	}
}

// observers lists the observing hooks that want this event and its Verdict.
func (f *firing) observers(v *Verdict) (late []Spec, failed []HookRun) {
	for _, s := range f.lineup.observers {
		ok, err := s.listens(f.ev, v)
		if err != nil {
			failed = append(failed, HookRun{Name: s.Name, Source: s.Source.Name, Cause: CauseError, Error: err.Error(), Async: true})
		} else if ok {
			late = append(late, *s)
		}
	}
	return late, failed
}

// background hands the observing hooks over. Their event carries the Verdict.
func (f *firing) background(ctx context.Context, v *Verdict, late []Spec, rec *Record, failed []HookRun) {
	if rec != nil {
		rec.Hooks = append(rec.Hooks, failed...)
	}
	if len(late) == 0 {
		return
	}
	ev := clone(f.ev)
	ev.Verdict = v
	if b := f.engine.opts.Background; b != nil {
		if err := b.Run(ctx, ev, late); err != nil && rec != nil {
			rec.Error = fmt.Sprintf("observing hooks were not started: %v", err)
		}
		return
	}
	for _, s := range late {
		f.engine.runLate(ctx, ev, s)
	}
}

// runLate runs one observing hook beyond the life of the firing.
func (e *Engine) runLate(ctx context.Context, ev *Event, s Spec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = backgroundTimeout
	}
	e.background.Go(func() {
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, fmt.Errorf("%w of %v", ErrTimeout, timeout))
		defer cancel()
		_, _ = handle(ctx, s.Hook, ev) // an observer's answer changes nothing
	})
}
