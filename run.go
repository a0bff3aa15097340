package grapnel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// Errors of hooks that a Record distinguishes; see errors.Is.
var (
	ErrTimeout = errors.New("took longer than its timeout")
	ErrPanic   = errors.New("panicked")
	ErrIllegal = errors.New("answered with something that this event does not permit")

	// ErrUndecided is an error of a Matcher that gave up. The hook runs, because it may be a guard.
	ErrUndecided = errors.New("cannot decide whether the hook listens")
)

// firing holds the state of one event while its hooks run.
type firing struct {
	engine    *Engine
	table     *table
	lineup    *lineup
	contract  *Contract
	first     *Event // as it was fired
	ev        *Event // with the changes of all hooks so far
	shown     *Event // the event for the next step, if it differs from ev
	answers   []answer
	conflicts []string
	blocked   bool // no further hooks run
	step      uint16
	record    bool
	unread    error         // error of an unreadable event, for which no hook runs
	approval  string        // ID of the approval that was used
	agreed    bool          // a person has just said yes
	refused   string        // why a person has just said no
	waited    time.Duration // for the person
	heard     *tally        // collects the runs of observing hooks; nil = not needed
}

// answer holds one hook's answer and its effect.
type answer struct {
	spec     *Spec
	out      *Outcome
	output   *Output
	err      error
	unsure   error // wraps ErrUndecided
	saw      *Event
	left     *Event  // saw with the hook's own changes: the version that its Allow approves
	changed  []Field // fields that it changed, or in observe mode would have changed
	took     time.Duration
	decision Decision // after the Contract and on_error were applied
	byError  bool     // the hook's failure selected the decision
	notRun   bool     // the context was done before the hook could start
	round    uint8
	failOpen bool

	approval   *Approval // nil = none was looked up
	superseded bool      // its change is dropped, because the hook is asked again
	expired    string    // why the Allow is ignored
	step       uint16    // from 1: hooks with the same number were called together
}

// noOpinion is shared by all answers without an opinion. It must not be modified.
var noOpinion Outcome

func newAnswer(s *Spec, ev *Event) answer {
	return answer{spec: s, out: &noOpinion, saw: ev, left: ev}
}

// matched adds the error of the hook's Matcher, if it returned one.
func (a *answer) matched(err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrUndecided):
		a.unsure = fmt.Errorf("the hook runs anyway: %w", err)
	default:
		a.err = fmt.Errorf("cannot check whether the hook listens: %w", err)
	}
}

// silent reports whether a hook answered and had no opinion.
func (a *answer) silent() bool { return a.out == &noOpinion && a.err == nil }

func (e *Engine) fire(ctx context.Context, t *table, l *lineup, ev *Event, unread error, heard *tally) Verdict {
	if ev.Tool != nil && ev.Tool.incomplete() {
		ev = clone(ev)
		ev.Tool = clone(ev.Tool)
		ev.Tool.Complete()
	}
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
		// Matchers may cache results by the event's pointer. Callers may reuse their Event, so
		// each firing needs its own copy.
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
	v := f.useApproval(ctx, f.merge())
	if v.Decision >= Ask {
		v = f.askPerson(ctx, v)
	}
	f.letStop(&v)
	if len(l.markers) > 0 && unread == nil {
		v = f.mark(ctx, v)
	}
	if f.record || len(l.observers) > 0 {
		if err := f.notifyObservers(ctx, v, begun, unread); err != nil {
			v.Messages = append(v.Messages, "grapnel: "+err.Error())
		}
	}
	return v
}

// run calls the hooks of a firing: rewrites, rules, then steps. If a step changed input that
// earlier hooks had judged, one more bounded round follows. A Block ends the firing.
func (f *firing) run(ctx context.Context) {
	f.rewrite(ctx, ScopeManaged, ScopeSession, 1)
	f.together(ctx, f.lineup.rules, 1)
	judged := f.ev
	if t := f.first.Terms; t != nil && t.Budget > 0 && len(f.lineup.steps) > 0 {
		// The timer is set only if a step will run, because it starts a thread, which is expensive
		// for a program that answers one event.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Budget, fmt.Errorf("the hooks of this event exceeded their common limit of %v: %w", t.Budget, ErrTimeout))
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
	// Weakest scope first. Changes of a scope's steps pass only through the rewrites of that
	// scope, so no scope changes the event after a stronger one.
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

// rewrite runs the rewrites of some scopes, each on the result of the previous one.
func (f *firing) rewrite(ctx context.Context, strongest, weakest Scope, round uint8) {
	for i, s := range f.lineup.rewrites {
		if strongest <= s.Source.Scope && s.Source.Scope <= weakest {
			f.together(ctx, f.lineup.rewrites[i:i+1], round)
		}
	}
}

// overruled returns the hooks of one scope in a step that need to run again: a hook of a weaker
// scope changed their input after they had answered or had not matched. Within a step, the weaker
// scopes come later.
func (f *firing) overruled(step []*Spec, scope Scope) []*Spec {
	var again []*Spec
	for _, s := range step {
		if s.Source.Scope != scope {
			continue
		}
		since := f.answers
		for i := range slices.Backward(since) {
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

// differs reports whether the event now differs from an earlier version.
func (f *firing) differs(was *Event) bool {
	return len(changedFields(was, f.ev, f.contract.Changes)) > 0
}

// together runs the listening hooks on the same event, or one after the other if one of them is
// Sequential.
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

// sees returns the version of the event for the next step.
func (f *firing) sees() *Event {
	switch f.engine.rules.Changes {
	case presets.ChangesLastWins:
		return f.first
	case presets.ChangesOverlay:
		return cmp.Or(f.shown, f.first)
	default:
		return f.ev
	}
}

// ask runs hooks together and applies their changes in plan order.
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
			a.notRun, a.err = true, fmt.Errorf("not started: %w", context.Cause(ctx))
		case a.spec.Timeout > 0, f.engine.rules.Parallel && len(answers) > 1:
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
	var again []*Spec
	for i := range answers {
		a := &answers[i]
		if a.silent() {
			continue
		}
		if f.outdated(a) {
			a.superseded = true
			a.out.Set, a.out.Patch = nil, nil
			again = append(again, a.spec)
		}
		blocked := f.blocked
		if f.settle(a); f.approve(ctx, a) {
			f.blocked = blocked
		}
	}
	if f.record && len(answers) > 1 {
		f.noteConflicts(answers)
	}
	for _, s := range again {
		f.askAgain(ctx, s, round)
	}
}

// outdated reports whether an answer changes an event that another hook of the step has changed
// meanwhile. Its change would undo the other one. A Block needs no change.
func (f *firing) outdated(a *answer) bool {
	return f.engine.rules.Changes == presets.ChangesChain && a.spec.Phase == PhaseStep && !a.spec.Observe &&
		a.err == nil && a.out.Decision < Block && len(a.out.Set)+len(a.out.Patch) > 0 && f.differs(a.saw)
}

// askAgain runs a hook with the changes of the other hooks of its step, if it still listens.
func (f *firing) askAgain(ctx context.Context, s *Spec, round uint8) {
	if f.blocked {
		return
	}
	ok, err := s.listens(f.sees(), nil)
	if !ok && err == nil {
		return
	}
	a := newAnswer(s, f.sees())
	a.matched(err)
	f.answers = append(f.answers, a)
	f.ask(ctx, f.answers[len(f.answers)-1:], round)
}

// ask calls the hook. It returns a panic as the hook's error.
func (a *answer) ask(ctx context.Context) {
	defer caught(&a.err)
	out, err := a.spec.Hook.Handle(ctx, a.saw)
	a.err = err
	a.output, out.Output = out.Output, nil
	if !out.zero() {
		a.out = new(Outcome)
		*a.out = out
	}
}

// askBy calls the hook in the current goroutine. ctx carries the hook's timeout, if it has one.
func (a *answer) askBy(ctx context.Context) {
	begun := time.Now()
	a.err = errors.New("ended its goroutine without an answer") // stays if the hook calls runtime.Goexit
	a.ask(ctx)
	a.took = time.Since(begun)
	switch {
	case a.spec.Timeout == 0:
	case ctx.Err() != nil:
		a.err = lateError(context.Cause(ctx), a.err)
	case a.took > a.spec.Timeout: // on a busy machine a hook can return before the timer fires
		a.err = lateError(fmt.Errorf("%w of %v", ErrTimeout, a.spec.Timeout), a.err)
	}
}

// caught, when deferred, converts a panic into an error, so that a hook that panics is treated as
// a hook that failed.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrPanic, r)
	}
}

// begin starts the hook in a goroutine and returns the function that waits for it. If the hook
// does not return in time, it is abandoned and its answer is discarded.
func begin(ctx context.Context, a *answer) (wait func()) {
	if a.spec.Timeout == 0 { // never abandoned, so the goroutine may use a itself
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.askBy(ctx)
		}()
		return func() { <-done }
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, a.spec.Timeout, fmt.Errorf("%w of %v", ErrTimeout, a.spec.Timeout))
	var grace time.Duration
	if g, ok := seam.As[seam.Graceful](a.spec.Hook); ok {
		grace = g.Grace()
	}
	abandoned := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(abandoned) }) })

	done := make(chan answer, 1)
	r := *a // the waiting goroutine owns a itself
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
		case *a = <-done: // in time, while this goroutine waited for another hook
		default:
			a.err, a.took = context.Cause(ctx), time.Since(begun)
		}
	}
}

// lateError combines the cause of a hook's timeout with another error of the hook.
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

// settle applies the Contract, OnError and the Preset to a hook's answer, and applies its
// changes.
func (f *firing) settle(a *answer) {
	blocks := f.contract.Blocks
	rules := f.engine.rules
	if rules.DropLate && causeOf(a.err) == CauseTimeout {
		a.out = &noOpinion
	}
	a.decision = a.out.Decision
	answered := a.err == nil
	// In another system's chain, a Block or a closed failure ends the chain even if the Contract
	// makes it ineffective.
	ends := rules.InChain && (a.decision == Block || a.err != nil && f.onError(a.spec) == OnErrorClosed)
	switch d := a.decision; {
	case d > Block, d == Block && blocks == BlockingNothing, d == Ask && blocks != BlockingAction:
		f.illegal(a, "decision "+d.String())
		a.decision = None
	case d == Allow && !f.contract.Permit:
		a.decision = None // an Allow is no opinion if the event has no permission prompt
	}
	informs := false // context in the wrong place is the only fault: no guard has failed
	if len(a.out.Context) > 0 && !f.contract.Context {
		informs = a.err == nil && a.spec.OnError == OnErrorDefault
		f.illegal(a, "context")
		a.out.Context = nil
	}
	if len(a.out.Set)+len(a.out.Patch) > 0 {
		informs = false
		f.change(a)
	}
	if a.err != nil {
		counts := f.onError(a.spec)
		if answered && rules.DropIllegal || informs && a.spec.Phase == PhaseStep {
			counts = OnErrorOpen
		}
		f.failed(a, counts)
	}
	if rules.Changes == presets.ChangesOverlay && !a.spec.Observe && a.err == nil {
		f.show(a)
	}
	if !a.spec.Observe && (ends || a.decision == Block || f.haltBlocks(a)) && !rules.RunAll {
		f.blocked = true
	}
}

// onError returns the failure mode of a hook at this event.
func (f *firing) onError(s *Spec) OnError {
	return s.onError(f.engine.rules, f.contract.Blocks == BlockingAction && !f.contract.FailOpen)
}

// haltBlocks reports whether the answer's halt also stops the action that is about to happen.
func (f *firing) haltBlocks(a *answer) bool {
	return a.out.Halt != "" && f.contract.Blocks == BlockingAction
}

// failed applies OnError to a hook that failed. If the hook also returned a decision, the
// stricter one of the two wins.
func (f *firing) failed(a *answer, counts OnError) {
	if f.contract.FailOpen || f.contract.Blocks == BlockingNothing {
		counts = OnErrorOpen
	}
	if _, asking := errors.AsType[seam.Asking](a.err); asking && counts == OnErrorClosed {
		counts = OnErrorAsk
	}
	decision := a.decision
	switch {
	case counts == OnErrorClosed, counts == OnErrorAsk && f.contract.Blocks != BlockingAction:
		a.decision = Block
	case counts == OnErrorAsk:
		a.decision = max(decision, Ask)
	default:
		a.failOpen = decision < Block && !a.spec.Observe
	}
	a.byError = a.decision != decision
}

// illegal records that a part of an answer was dropped, which is an error of the hook.
func (f *firing) illegal(a *answer, what string) {
	a.err = errors.Join(a.err, fmt.Errorf("%w: %s on %s", ErrIllegal, what, f.first.Kind))
}

// cause returns the origin of the decision.
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

// change applies a hook's changes to the event, in a fixed order of fields: replacements before
// patches, and fields before their views.
func (f *firing) change(a *answer) {
	now, own := f.ev, f.first
	for _, part := range []struct {
		values map[Field]json.RawMessage
		patch  bool
	}{{a.out.Set, false}, {a.out.Patch, true}} {
		for _, field := range inOrder(part.values) {
			left, laid, isolated, err := f.overlay(a, now, own, field, part.values[field], part.patch)
			if err != nil {
				f.illegal(a, err.Error())
				continue
			}
			a.left, now, own = left, laid, isolated
			if !slices.Contains(a.changed, field) {
				a.changed = append(a.changed, field)
			}
		}
	}
	if !a.spec.Observe {
		f.ev = now
	}
}

// overlay applies one change to two events: to the event that the hook saw, and to the event as
// earlier hooks of the same step have changed it. If the last hook wins, the second event gets
// the value that results from this hook's changes alone, applied to own, the event as it was
// fired.
func (f *firing) overlay(a *answer, now, own *Event, field Field, value json.RawMessage, patch bool) (left, laid, isolated *Event, err error) {
	merge, err := f.merging(a, field)
	if err != nil {
		return nil, nil, nil, err
	}
	if merge == mergeUnion && !f.changedBefore(field) {
		merge = mergeChain // the first list replaces the event's list: the union contains only values that hooks allow
	}
	left, err = mergeField(a.left, field, value, patch, merge)
	if err == nil && merge == mergeIntersect && a.spec.Unite != "" {
		left, err = f.unite(a, now, field, value)
		return left, left, left, err
	}
	if err != nil || now == a.left {
		return left, left, left, err
	}
	if rule := f.engine.rules.Changes; merge == mergeChain && (rule == presets.ChangesLastWins || rule == presets.ChangesOverlay) {
		if own, err = mergeField(own, field, value, patch, merge); err != nil {
			return nil, nil, nil, err
		}
		field, patch = field.stored(), false
		value, _ = own.Get(field)
	}
	laid, err = mergeField(now, field, value, patch, merge)
	return left, laid, own, err
}

// unite applies a hook's list to the event as it was fired, together with the lists of the earlier
// hooks. A value remains if each hook allows it, or another hook that it unites with.
func (f *firing) unite(a *answer, now *Event, field Field, value json.RawMessage) (*Event, error) {
	lists := map[*Spec][]string{}
	for i := range f.answers { // the last list of each hook is in effect
		if b := &f.answers[i]; b.changes() && slices.Contains(b.changed, field) {
			raw, ok := b.out.Set[field]
			if !ok {
				raw = b.out.Patch[field] // a merge patch replaces a list as a whole
			}
			lists[b.spec] = textsOf(raw)
		}
	}
	lists[a.spec] = textsOf(value)
	current, known := f.first.Get(field)
	values := textsOf(current)
	if !known {
		values = slices.Concat(slices.Collect(maps.Values(lists))...)
		slices.Sort(values)
		values = slices.Compact(values)
	}
	allows := func(hook *Spec, value string) bool {
		for other, list := range lists {
			if f.table.unites(hook, other) && slices.Contains(list, value) {
				return true
			}
		}
		return false
	}
	return now.Set(field, rawjson.OrNull(slices.DeleteFunc(values, func(value string) bool {
		if now.Toolset != nil && now.Toolset.Mode == "none" {
			return true
		}
		for hook := range lists {
			if !allows(hook, value) {
				return true
			}
		}
		return false
	})))
}

// textsOf decodes a list of strings. The caller has checked that it is one.
func textsOf(raw json.RawMessage) (texts []string) {
	_ = json.Unmarshal(raw, &texts)
	return texts
}

// changedBefore reports whether an earlier hook has changed a field of the event.
func (f *firing) changedBefore(field Field) bool {
	return anyOf(f.answers, func(a *answer) bool { return a.changes() && slices.Contains(a.changed, field) })
}

// show adds an answer to the event for the next step, if that differs from the current event. It
// merges objects member by member and appends context to the prompt.
func (f *firing) show(a *answer) {
	shown := f.sees()
	for _, field := range a.changed {
		_, whole := a.out.Set[field]
		field = field.stored()
		if field != FieldInput && field != FieldRequest {
			continue // later steps see changed inputs and requests, not changed results
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

// merging returns the merge rule for a hook's change of a field, or an error if the hook may not
// change it.
func (f *firing) merging(a *answer, field Field) (string, error) {
	ch, permitted := f.contract.change(field)
	switch {
	case a.spec.Phase == PhaseRule: // the other rules have already judged the field
		return "", fmt.Errorf("a rule's change of %s", field)
	case !permitted, f.engine.rules.Changes == presets.ChangesNone && (ch.Merge != mergeJoin || a.spec.Phase == PhaseRewrite):
		return "", fmt.Errorf("a change of %s", field)
	case a.spec.Phase == PhaseRewrite && ch.Merge == mergeJoin: // the replaced text must not remain
		return mergeChain, nil
	case f.engine.rules.Unite && ch.Field == FieldTools:
		return mergeUnion, nil
	default:
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
				if ch, _ := f.contract.change(field); ch.Merge == mergeChain && undoes(b, a, field) {
					f.conflicts = append(f.conflicts, fmt.Sprintf("%s: %s and %s", field, a.spec.FullName(), b.spec.FullName()))
				}
			}
		}
	}
}

// undoes reports whether b replaced a field that a had changed: the same field with another
// value, or the whole of which a had changed a part.
func undoes(b, a *answer, field Field) bool {
	value, replaced := b.out.Set[field]
	return replaced && slices.ContainsFunc(a.changed, func(part Field) bool {
		if part == field {
			return !rawjson.Equal(a.out.Set[part], value)
		}
		return part.stored() == field
	})
}

// fail marks every hook that could have run as failed with err.
func (f *firing) fail(err error) {
	f.unread = err
	groups := f.lineup.groups()
	for _, group := range groups[:len(groups)-1] { // observers are not guards
		for _, s := range group {
			a := newAnswer(s, f.ev)
			a.err = err
			f.settle(&a)
			f.answers = append(f.answers, a)
		}
	}
}

// mark calls the Markers. If one fails, the Verdict may become stricter; the Markers that
// succeeded are then called again with the new Verdict.
func (f *firing) mark(ctx context.Context, v Verdict) Verdict {
	var marked []answer // that succeeded; only failures are in the Record
	failed := false
	for _, s := range f.lineup.markers {
		ok, err := s.listens(f.first, &v)
		if !ok && err == nil {
			continue
		}
		a := newAnswer(s, f.first)
		if a.matched(err); a.err == nil {
			a.mark(ctx, &v)
		}
		if a.err == nil {
			marked = append(marked, a)
			continue
		}
		failed = true
		f.settle(&a)
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
	for i := range marked {
		if marked[i].mark(ctx, &v); marked[i].err != nil {
			f.answers = append(f.answers, marked[i])
		}
	}
	return v
}

func (a *answer) mark(ctx context.Context, v *Verdict) {
	defer caught(&a.err)
	begun := time.Now()
	a.err = a.spec.Hook.(marker).Mark(ctx, a.saw, v)
	a.took = time.Since(begun)
}

// notifyObservers passes the Verdict to the observing hooks and to the engine's Observers. It continues if
// one of them fails.
func (f *firing) notifyObservers(ctx context.Context, v Verdict, begun time.Time, unread error) error {
	var late []*Spec
	var runs []HookRun
	for _, s := range f.lineup.observers {
		run := lateRun(s)
		ok, err := s.listens(v.Event, &v)
		switch {
		case err != nil && !errors.Is(err, ErrUndecided):
			run.Cause, run.Error, run.Err = CauseError, fmt.Sprintf("cannot check whether the hook listens: %v", err), err
			f.heard.add(run)
		case ok, err != nil:
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
				failed = errors.Join(failed, fmt.Errorf("cannot store a Record: %w", err))
			}
		}
	}
	return failed
}

// startLate starts observing hooks, each in its own layer.
func (f *firing) startLate(ctx context.Context, v *Verdict, late []*Spec) (failed error) {
	if len(late) == 0 {
		return nil
	}
	ev := v.Event.WithVerdict(v)
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
				run.Cause, run.Error, run.Err = CauseError, "not started: "+err.Error(), err
				f.heard.add(run)
			}
		}
	}
	return failed
}

// lateRun returns the HookRun of an observing hook that has not run yet.
func lateRun(s *Spec) HookRun {
	return HookRun{Name: s.Name, Source: s.Source.Name, Line: s.Line, Async: true, Phase: s.Phase}
}

func observe(ctx context.Context, o Observer, rec *Record) (err error) {
	defer caught(&err)
	o.Observe(ctx, rec)
	return nil
}

// start starts observing hooks, through the layer's Background if it has one.
func (l *layer) start(ctx context.Context, ev *Event, hooks []Spec, heard *tally) (err error) {
	defer caught(&err)
	if l.opts.Background != nil {
		return l.opts.Background(ctx, ev, hooks)
	}
	return l.late.run(ctx, ev, hooks, heard)
}

// A tally collects the runs of one firing's observing hooks. The methods of a nil tally do
// nothing.
type tally struct {
	runs chan HookRun
	open atomic.Int64 // number of senders that may still add a run
}

// newTally returns a tally with one open sender: the caller, which must call end.
func newTally(l *lineup) *tally {
	t := &tally{runs: make(chan HookRun, len(l.observers))} // buffered, so no sender waits for a reader
	t.open.Store(1)
	return t
}

// add sends a run to the reader.
func (t *tally) add(run HookRun) {
	if t != nil {
		t.runs <- run
	}
}

// begin adds a sender, and end removes one. The last end closes the channel.
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

// late runs work that continues after its firing or its caller has ended.
type late struct {
	mu     sync.Mutex
	closed bool // guarded by mu

	running sync.WaitGroup
}

func (l *late) run(ctx context.Context, ev *Event, hooks []Spec, heard *tally) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
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
			a.askBy(ctx) // the answer of an observer has no effect
		})
	}
	return nil
}

// lateRun returns the HookRun of an observing hook that has ended.
func (a *answer) lateRun() HookRun {
	a.decision = a.out.Decision
	run := a.run()
	run.Async, run.Observed = true, true
	return run
}

// lateTimeout limits an observing hook without a timeout.
const lateTimeout = 5 * time.Minute
