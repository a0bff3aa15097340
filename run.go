package grapnel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
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
	table     *table
	lineup    *lineup
	contract  *Contract
	first     *Event // as it came
	ev        *Event // as the hooks so far have left it
	shown     *Event // what the next step sees, where that is not ev
	answers   []answer
	conflicts []string
	blocked   bool // nobody else is asked
	step      uint16
	record    bool
	unread    error  // nobody could be asked, since this is wrong with the event
	heard     *tally // who wants to know what comes of observing hooks; nil = nobody
}

// answer is what one hook said, and what that counts as.
type answer struct {
	spec     *Spec
	out      *Outcome
	err      error
	saw      *Event
	left     *Event  // what it saw, with its own changes: what its Allow approves
	changed  []Field // what it changed, or in observe mode would have
	took     time.Duration
	decision Decision // after legality and on_error
	byError  bool     // decision is what the failure counts as
	round    uint8
	failOpen bool
	expired  Expiry
	step     uint16 // from 1: who was asked at once
}

// noOpinion is what hooks say most of the time. Nobody changes it.
var noOpinion Outcome

func newAnswer(s *Spec, ev *Event) answer {
	return answer{spec: s, out: &noOpinion, saw: ev, left: ev}
}

// silent reports whether a hook answered and had no opinion.
func (a *answer) silent() bool { return a.out == &noOpinion && a.err == nil }

func (e *Engine) fire(ctx context.Context, t *table, l *lineup, ev *Event, unread error, heard *tally) Verdict {
	f := firing{
		engine: e, table: t, lineup: l, contract: l.contract, first: ev, ev: ev, record: len(t.observers) > 0, heard: heard,
	}
	if f.contract == nil {
		f.contract = ev.contract()
	}
	var begun time.Time
	if f.record {
		begun = time.Now()
	}
	unnamed := ev.ID == "" && (f.record || l.readsID)
	if unnamed || l.matchers {
		// Matchers may keep what they worked out of an event by its pointer, so that
		// of a firing must be its own: callers may use theirs again.
		f.first = clone(ev)
		f.ev = f.first
	}
	if unnamed {
		if begun.IsZero() {
			begun = time.Now()
		}
		f.first.ID = newID(begun)
	}
	if unread != nil {
		f.fail(unread)
	} else {
		f.run(ctx)
	}
	v := f.merge()
	f.letStop(&v)
	if len(l.markers) > 0 && unread == nil {
		v = f.mark(ctx, v)
	}
	if f.record || len(l.observers) > 0 {
		if err := f.tell(ctx, v, begun, unread); err != nil {
			v.Messages = append(v.Messages, "grapnel: "+err.Error())
		}
	}
	return v
}

// run is the law of a firing: rewrites, rules, steps, and one more bounded round
// when a step changed what the hooks before it had judged. A block ends it.
func (f *firing) run(ctx context.Context) {
	f.rewrite(ctx, ScopeManaged, ScopeSession, 1)
	f.together(ctx, f.lineup.rules, 1)
	judged := f.ev
	if budget := f.first.Budget; budget > 0 && len(f.lineup.steps) > 0 {
		// Only for steps: a timer costs a program that answers one event a thread.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, budget, fmt.Errorf("the %v that all hooks of this event have are spent: %w", budget, ErrTimeout))
		defer cancel()
	}
	for _, step := range f.lineup.steps {
		f.together(ctx, step, 1)
	}
	if !f.differs(judged) {
		return
	}

	f.rewrite(ctx, ScopeManaged, ScopeSession, 2)
	f.together(ctx, f.lineup.rules, 2)
	judged = f.ev
	// Weakest scope first, and what its gates change goes through its own rewrites
	// only: no scope has a word after a stronger one.
	for scope := ScopeSession; scope >= ScopeManaged; scope-- {
		for _, step := range f.lineup.steps {
			f.together(ctx, f.overruled(step, scope), 2)
		}
		if f.differs(judged) {
			f.rewrite(ctx, scope, scope, 2)
		}
	}
	if f.differs(judged) {
		f.together(ctx, f.lineup.rules, 2)
	}
}

// rewrite lets the rewrites of some scopes chain.
func (f *firing) rewrite(ctx context.Context, strongest, weakest Scope, round uint8) {
	for i, s := range f.lineup.rewrites {
		if strongest <= s.Source.Scope && s.Source.Scope <= weakest {
			f.together(ctx, f.lineup.rewrites[i:i+1], round)
		}
	}
}

// overruled lists the hooks of a step and a scope whose input a hook of a weaker
// scope changed after they had answered, or had been passed over. Within a step
// the weaker scopes come later.
func (f *firing) overruled(step []*Spec, scope Scope) []*Spec {
	var again []*Spec
	for _, s := range step {
		if s.Source.Scope != scope {
			continue
		}
		since := f.answers
		for i := range since {
			if since[i].spec == s {
				since = since[i:]
				break
			}
		}
		if len(since) > 0 && since[0].spec == s && !f.differs(since[0].left) {
			continue
		}
		if anyOf(since, func(a *answer) bool { return a.changes() && a.spec.Source.Scope > scope }) {
			again = append(again, s)
		}
	}
	return again
}

// differs reports whether the event now differs from what it was.
func (f *firing) differs(was *Event) bool {
	return len(changedFields(was, f.ev, f.contract.Changes)) > 0
}

// together runs those of the hooks that listen on the same event, or in turn if one
// of them wants that.
func (f *firing) together(ctx context.Context, specs []*Spec, round uint8) {
	if f.blocked || len(specs) == 0 {
		return
	}
	asked := len(f.answers)
	f.answers = listening(f.answers, specs, f.sees(), f.table)
	answers := f.answers[asked:]
	if !inTurn(answers) {
		f.ask(ctx, answers, round)
		return
	}
	for i := range answers {
		if f.blocked {
			f.answers = f.answers[:asked+i]
			return
		}
		a := &answers[i]
		a.saw, a.left = f.sees(), f.sees()
		f.ask(ctx, answers[i:i+1], round)
	}
}

// sees is the event as the next step shall see it.
func (f *firing) sees() *Event {
	switch f.engine.opts.Preset.Changes {
	case ChangesLastWins:
		return f.first
	case ChangesOverlay:
		return cmp.Or(f.shown, f.first)
	default:
		return f.ev
	}
}

// ask runs hooks at once and lays their changes over each other in plan order.
func (f *firing) ask(ctx context.Context, answers []answer, round uint8) {
	var waits []func()
	if len(answers) > 0 {
		f.step++
	}
	for i := range answers {
		a := &answers[i]
		a.round, a.step = round, f.step
		switch {
		case a.err != nil:
		case a.spec.Phase == PhaseStep && ctx.Err() != nil:
			a.err = fmt.Errorf("not started: %w", context.Cause(ctx))
		case a.spec.Timeout > 0:
			waits = append(waits, begin(ctx, a))
		case f.record:
			begun := time.Now()
			a.ask(ctx)
			a.took = time.Since(begun)
		default:
			a.ask(ctx)
		}
	}
	for _, wait := range waits {
		wait()
	}
	for i := range answers {
		if a := &answers[i]; !a.silent() {
			f.settle(a)
		}
	}
	if f.record && len(answers) > 1 {
		f.noteConflicts(answers)
	}
}

// ask runs the hook.
func (a *answer) ask(ctx context.Context) {
	defer caught(&a.err)
	out, err := a.spec.Hook.Handle(ctx, a.saw)
	a.err = err
	if !out.zero() {
		a.out = new(Outcome)
		*a.out = out
	}
}

// askBy runs the hook in a goroutine of its own, with its Timeout as ctx has it.
func (a *answer) askBy(ctx context.Context) {
	begun := time.Now()
	a.err = errors.New("ended its goroutine without an answer") // as runtime.Goexit does
	a.ask(ctx)
	a.took = time.Since(begun)
	switch {
	case ctx.Err() != nil:
		a.err = lateError(context.Cause(ctx), a.err)
	case a.took > a.spec.Timeout: // on a busy machine a hook can be back before the timer is
		a.err = lateError(fmt.Errorf("%w of %v", ErrTimeout, a.spec.Timeout), a.err)
	}
}

// caught, when deferred, makes an error of a panic: a broken hook is a hook that
// could not answer.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrPanic, r)
	}
}

// begin starts the hook in a goroutine and returns the function that waits for
// it. A hook that does not return in time is left behind: its answer, should it
// ever come, goes nowhere.
func begin(ctx context.Context, a *answer) (wait func()) {
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, a.spec.Timeout, fmt.Errorf("%w of %v", ErrTimeout, a.spec.Timeout))
	var grace time.Duration
	if g, ok := HookAs[Graceful](a.spec.Hook); ok {
		grace = g.Grace()
	}
	abandoned := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(abandoned) }) })

	done := make(chan answer, 1)
	r := *a // a itself belongs to the one who waits
	go func() {
		defer func() { done <- r }()
		r.askBy(ctx)
	}()
	return func() {
		defer cancel()
		defer stop()
		select {
		case *a = <-done:
			return
		case <-abandoned:
		}
		select {
		case *a = <-done: // in time, while we waited for another hook
		default:
			a.err, a.took = context.Cause(ctx), time.Since(begun)
		}
	}
}

// lateError says why a hook's time was up, and what else went wrong in it.
func lateError(cause, err error) error {
	switch {
	case errors.Is(err, cause):
		return err
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return cause
	default:
		return fmt.Errorf("%w: %w", cause, err)
	}
}

// settle turns what a hook said into what that counts as, and applies its changes.
func (f *firing) settle(a *answer) {
	blocks := f.contract.Blocks
	preset := &f.engine.opts.Preset
	if preset.DropLate && causeOf(a.err) == CauseTimeout {
		a.out = &noOpinion
	}
	a.decision = a.out.Decision
	answered := a.err == nil
	// In a chain of another system what a hook said ends it, also where it counts for
	// nothing.
	ends := preset.InChain && (a.decision == Block || a.err != nil && a.spec.onError() == OnErrorClosed)
	switch d := a.decision; {
	case d > Block, d == Block && blocks == BlockNothing, d == Ask && blocks != BlockAction:
		f.illegal(a, "decision "+d.String())
		a.decision = None
	case d == Allow && !f.contract.Permit:
		a.decision = None // "go on" where nobody would be asked is no opinion
	}
	if len(a.out.Context) > 0 && !f.contract.Context {
		f.illegal(a, "context")
		a.out.Context = nil
	}
	if len(a.out.Set)+len(a.out.Patch) > 0 {
		f.change(a)
	}
	if a.err != nil {
		counts := a.spec.onError()
		if answered && preset.DropIllegal {
			counts = OnErrorOpen
		}
		f.failed(a, counts)
	}
	if preset.Changes == ChangesOverlay && a.spec.Mode == Enforce && a.err == nil {
		f.show(a)
	}
	if a.spec.Mode == Enforce && (ends || a.decision == Block || f.haltBlocks(a)) && !preset.RunAll {
		f.blocked = true
	}
}

// haltBlocks: stopping the turn also stops the action that is about to happen.
func (f *firing) haltBlocks(a *answer) bool {
	return a.out.Halt != "" && f.contract.Blocks == BlockAction
}

// failed decides for a hook that could not answer, which counts as its OnError says.
// What it said all the same counts too, and the stricter of both wins.
func (f *firing) failed(a *answer, counts OnError) {
	if f.contract.FailOpen || f.contract.Blocks == BlockNothing {
		counts = OnErrorOpen
	}
	said := a.decision
	switch {
	case counts == OnErrorClosed, counts == OnErrorAsk && f.contract.Blocks != BlockAction:
		a.decision = Block
	case counts == OnErrorAsk:
		a.decision = max(said, Ask)
	default:
		a.failOpen = said < Block && a.spec.Mode == Enforce
	}
	a.byError = a.decision != said
}

// illegal drops a part of an answer, which counts as an error of the hook.
func (f *firing) illegal(a *answer, what string) {
	a.err = errors.Join(a.err, fmt.Errorf("%w: %s on %s", ErrIllegal, what, f.first.Kind))
}

// cause is why the decision counts.
func (a *answer) cause() Cause {
	if a.byError {
		return causeOf(a.err)
	}
	return CauseDecision
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
	now, own := f.ev, f.first
	for _, part := range []struct {
		values map[Field]json.RawMessage
		patch  bool
	}{{a.out.Set, false}, {a.out.Patch, true}} {
		for _, field := range inOrder(part.values) {
			left, laid, alone, err := f.overlay(a, now, own, field, part.values[field], part.patch)
			if err != nil {
				f.illegal(a, err.Error())
				continue
			}
			a.left, now, own = left, laid, alone
			if !slices.Contains(a.changed, field) {
				a.changed = append(a.changed, field)
			}
		}
	}
	if a.spec.Mode == Enforce {
		f.ev = now
	}
}

// overlay applies one change to what the hook saw, and to the event as the hooks
// of the same step before it have left it. Where the last hook wins, the event gets
// what the hook's changes alone would have made of own, the event as it came.
func (f *firing) overlay(a *answer, now, own *Event, field Field, value json.RawMessage, patch bool) (left, laid, alone *Event, err error) {
	merge, err := f.merging(a, field)
	if err != nil {
		return nil, nil, nil, err
	}
	if merge == MergeUnion && !f.changedBefore(field) {
		merge = MergeChain // what any hook allows, and not what is there without them
	}
	left, err = mergeField(a.left, field, value, patch, merge)
	if err != nil || now == a.left {
		return left, left, left, err
	}
	if rule := f.engine.opts.Preset.Changes; merge == MergeChain && (rule == ChangesLastWins || rule == ChangesOverlay) {
		if own, err = mergeField(own, field, value, patch, merge); err != nil {
			return nil, nil, nil, err
		}
		field, patch = field.stored(), false
		value, _ = own.Get(field)
	}
	laid, err = mergeField(now, field, value, patch, merge)
	return left, laid, own, err
}

// changedBefore reports whether a hook has changed a field of the event.
func (f *firing) changedBefore(field Field) bool {
	return anyOf(f.answers, func(a *answer) bool { return a.changes() && slices.Contains(a.changed, field) })
}

// show lays an answer over what the next step sees, where that is not the event as
// it would now be: objects member by member, context below the prompt.
func (f *firing) show(a *answer) {
	shown := f.sees()
	for _, field := range a.changed {
		_, whole := a.out.Set[field]
		field = field.stored()
		if field != FieldInput && field != FieldRequest {
			continue // what is about to happen is shown, not what comes of it
		}
		value, _ := a.left.Get(field)
		if old, ok := shown.Get(field); ok && whole {
			value = overlayObject(old, value)
		}
		if next, err := shown.Set(field, value); err == nil {
			shown = next
		}
	}
	if len(a.out.Context) > 0 && shown.Kind == PromptBefore && shown.Prompt != nil {
		text := strings.Join(append([]string{shown.Prompt.Text}, a.out.Context...), "\n\n")
		if next, err := shown.Set(FieldPrompt, rawjson.Quote(text)); err == nil {
			shown = next
		}
	}
	f.shown = shown
}

// merging is how a hook's change of a field is merged, if it may change it at all.
func (f *firing) merging(a *answer, field Field) (Merge, error) {
	ch, permitted := f.contract.change(field)
	switch {
	case a.spec.Phase == PhaseRule: // it would change what the other rules judged
		return "", fmt.Errorf("a rule's change of %s", field)
	case !permitted, f.engine.opts.Preset.Changes == ChangesNone:
		return "", fmt.Errorf("a change of %s", field)
	case a.spec.Phase == PhaseRewrite && ch.Merge == MergeJoin: // what it replaces must not stay
		return MergeChain, nil
	default:
		if merge, ok := f.engine.opts.Preset.Merges[ch.Field]; ok {
			return merge, nil
		}
		return ch.Merge, nil
	}
}

// noteConflicts records the fields that two hooks of one step both replaced.
func (f *firing) noteConflicts(answers []answer) {
	for i := range answers {
		for j := range i {
			a, b := &answers[j], &answers[i]
			if !a.changes() || !b.changes() {
				continue
			}
			for _, field := range b.changed {
				if ch, _ := f.contract.change(field); ch.Merge == MergeChain && undoes(b, a, field) {
					f.conflicts = append(f.conflicts, fmt.Sprintf("%s: %s and %s", field, a.spec.FullName(), b.spec.FullName()))
				}
			}
		}
	}
}

// undoes reports whether b, laid over a, replaced a field that a had changed: the
// same field by another value, or the whole of which a had changed a part.
func undoes(b, a *answer, field Field) bool {
	value, replaced := b.out.Set[field]
	return replaced && slices.ContainsFunc(a.changed, func(part Field) bool {
		if part == field {
			return !rawjson.Equal(a.out.Set[part], value)
		}
		return part.stored() == field
	})
}

// fail counts every hook that could have run as failed.
func (f *firing) fail(err error) {
	f.unread = err
	groups := f.lineup.groups()
	for _, group := range groups[:len(groups)-1] { // observers are no guards
		for _, s := range group {
			a := newAnswer(s, f.ev)
			a.err = err
			f.settle(&a)
			f.answers = append(f.answers, a)
		}
	}
}

// mark lets what happens be kept. Where that fails the Verdict may become stricter, and
// those who have kept something are told again.
func (f *firing) mark(ctx context.Context, v Verdict) Verdict {
	asked := len(f.answers)
	failed := false
	for _, s := range f.lineup.markers {
		ok, err := s.listens(f.first, &v)
		if !ok && err == nil {
			continue
		}
		a := newAnswer(s, f.first)
		if err != nil {
			a.err = fmt.Errorf("cannot tell whether it listens: %w", err)
		} else {
			a.mark(ctx, &v)
		}
		if a.err != nil {
			failed = true
			f.settle(&a)
		}
		f.answers = append(f.answers, a)
	}
	if !failed {
		return v
	}
	before := v.Decision
	if f.contract.MaxStops == 0 { // a stop is counted when it is judged, and no failure blocks it
		v = f.merge()
	}
	if v.Decision == before {
		return v
	}
	for i := range f.answers[asked:] {
		if a := f.answers[asked+i]; a.err == nil {
			a.mark(ctx, &v)
		}
	}
	return v
}

func (a *answer) mark(ctx context.Context, v *Verdict) {
	defer caught(&a.err)
	begun := time.Now()
	a.err = a.spec.Hook.(Marker).Mark(ctx, a.saw, v)
	a.took = time.Since(begun)
}

// tell hands the Verdict to those who listen: observing hooks, whose event carries
// it, and the engine's Observers. It goes on when one fails.
func (f *firing) tell(ctx context.Context, v Verdict, begun time.Time, unread error) error {
	var late []*Spec
	var runs []HookRun
	for _, s := range f.lineup.observers {
		run := lateRun(s)
		ok, err := s.listens(v.Event, &v)
		switch {
		case err != nil:
			run.Cause, run.Error = CauseError, fmt.Sprintf("cannot tell whether it listens: %v", err)
			f.heard.add(run)
		case ok:
			late = append(late, s)
		default:
			continue
		}
		runs = append(runs, run)
	}
	failed := f.startLate(ctx, &v, late)
	if f.record {
		rec := f.newRecord(&v, begun)
		rec.Hooks = append(rec.Hooks, runs...)
		if err := errors.Join(unread, failed); err != nil {
			rec.Error = err.Error()
		}
		for _, o := range f.table.observers {
			if err := observe(ctx, o, rec); err != nil {
				failed = errors.Join(failed, fmt.Errorf("a Record was not kept: %w", err))
			}
		}
	}
	return failed
}

// startLate starts observing hooks, each in the layer that it is of.
func (f *firing) startLate(ctx context.Context, v *Verdict, late []*Spec) (failed error) {
	if len(late) == 0 {
		return nil
	}
	ev := clone(v.Event)
	ev.Verdict = v
	for i, l := range f.engine.stack {
		var own []Spec
		for _, s := range late {
			if f.table.home(s) == i {
				own = append(own, *s)
			}
		}
		if len(own) == 0 {
			continue
		}
		if err := l.start(ctx, ev, own, f.heard); err != nil {
			failed = errors.Join(failed, fmt.Errorf("observing hooks were not started: %w", err))
			for i := range own {
				run := lateRun(&own[i])
				run.Cause, run.Error = CauseError, "not started: "+err.Error()
				f.heard.add(run)
			}
		}
	}
	return failed
}

// lateRun is the run of an observing hook, as far as it is known before it has ended.
func lateRun(s *Spec) HookRun {
	return HookRun{Name: s.Name, Source: s.Source.Name, Line: s.Line, Async: true, Phase: s.Phase}
}

func observe(ctx context.Context, o Observer, rec *Record) (err error) {
	defer caught(&err)
	o.Observe(ctx, rec)
	return nil
}

// start starts observing hooks.
func (l *layer) start(ctx context.Context, ev *Event, hooks []Spec, heard *tally) (err error) {
	defer caught(&err)
	if l.opts.Background != nil {
		return l.opts.Background.Run(ctx, ev, hooks)
	}
	return l.late.run(ctx, ev, hooks, heard)
}

// A tally gathers what comes of the observing hooks of one firing. A nil tally is one
// that nobody reads.
type tally struct {
	runs chan HookRun
	open atomic.Int64 // who may still add something
}

// newTally returns one that whoever fires has to end.
func newTally(l *lineup) *tally {
	t := &tally{runs: make(chan HookRun, len(l.observers))} // nobody waits for a reader
	t.open.Store(1)
	return t
}

// add adds a run.
func (t *tally) add(run HookRun) {
	if t != nil {
		t.runs <- run
	}
}

// begin says that one more will add something, and end that one will not any more.
func (t *tally) begin() {
	if t != nil {
		t.open.Add(1)
	}
}

func (t *tally) end() {
	if t != nil && t.open.Add(-1) == 0 {
		close(t.runs)
	}
}

// late runs what outlives its firing, or its caller.
type late struct {
	mu     sync.Mutex
	closed bool // guarded by mu
	held   int  // functions that hold runs; guarded by mu

	running sync.WaitGroup
}

// hold runs a function in a goroutine that Close waits for, unless it is too late.
// What it fires is not too late for observing hooks either.
func (l *late) hold(run func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.held++
	l.running.Go(func() {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.held--
		}()
		run()
	})
	return true
}

func (l *late) run(ctx context.Context, ev *Event, hooks []Spec, heard *tally) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && l.held == 0 {
		return errors.New("the engine is closed")
	}
	for i := range hooks {
		s := &hooks[i]
		s.Timeout = cmp.Or(s.Timeout, lateTimeout)
		heard.begin()
		l.running.Go(func() {
			defer heard.end()
			ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.Timeout, fmt.Errorf("%w of %v", ErrTimeout, s.Timeout))
			defer cancel()
			a := newAnswer(s, ev)
			defer func() { heard.add(a.lateRun()) }()
			a.askBy(ctx) // what an observer answers changes nothing
		})
	}
	return nil
}

// lateRun is what came of an observing hook.
func (a *answer) lateRun() HookRun {
	a.decision = a.out.Decision
	run := a.run()
	run.Async, run.Observed = true, true
	return run
}

// lateTimeout bounds an observing hook that names no timeout of its own.
const lateTimeout = 5 * time.Minute
