package grapnel

import (
	"cmp"
	"slices"
	"sync"

	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// A Plan lists which hooks run in which step, if none changes the event.
type Plan struct {
	Event   Kind      `json:"event"`
	Entries []Planned `json:"entries"`
}

// Planned is one hook of a Plan.
type Planned struct {
	Step       int    `json:"step"` // hooks of one step get the same event
	Phase      Phase  `json:"phase"`
	Hook       string `json:"hook"`
	Source     string `json:"source"`
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	Matched    string `json:"matched"`              // the part of the Spec that matched
	Sequential bool   `json:"sequential,omitempty"` // this hook makes the hooks of its step run one after the other
	Error      string `json:"error,omitempty"`      // the Matcher could not decide
}

// lineup holds the hooks that could run for one kind of event, in plan order.
type lineup struct {
	contract  *Contract // nil for a native kind: its events carry their own
	rewrites  []*Spec
	rules     []*Spec
	steps     [][]*Spec // one slice per priority
	markers   []*Spec
	observers []*Spec
	size      int  // number of hooks
	decides   bool // any hook can affect the Verdict
	matchers  bool // any hook has a Matcher
	readsID   bool // any hook or its Matcher reads Event.ID
}

// table is the lookup structure for the layers of an engine. It is immutable, except that lineups
// are filled on first use.
type table struct {
	rules     *presets.Row
	states    []*state // one state per layer
	observers []Observer
	ranked    []*Spec // enabled hooks in plan order
	byKind    map[Kind]*seat
	other     seat // for kinds that neither contracts nor any Spec names
	unknown   seat // for an event whose kind could not be read
}

// A seat builds the lineup of one kind on its first event. A program that answers one event and
// exits needs only one of about thirty.
type seat struct {
	once   sync.Once
	lineup lineup
}

// newTable sorts the hooks of all layers as if they were in one layer.
func newTable(states []*state, rules *presets.Row) *table {
	t := &table{rules: rules, states: states, byKind: make(map[Kind]*seat, len(contracts))}
	t.unknown.lineup.contract = &Contract{Blocks: BlockingAction}
	for _, st := range states {
		t.observers = append(t.observers, st.observers...)
		for i := range st.specs {
			if !st.off {
				t.ranked = append(t.ranked, &st.specs[i])
			}
		}
	}
	slices.SortStableFunc(t.ranked, byRank(rules))
	seats := make([]seat, len(contracts))
	for i := range contracts {
		seats[i].lineup.contract = &contracts[i]
		t.byKind[contracts[i].Kind] = &seats[i]
	}
	for _, s := range t.ranked {
		for _, k := range s.On {
			if t.byKind[k] == nil {
				t.byKind[k] = &seat{}
			}
		}
	}
	return t
}

// lineup returns the hooks that could run for events of kind k.
func (t *table) lineup(k Kind) *lineup {
	s := t.byKind[k]
	if s == nil {
		s, k = &t.other, "" // "" is in no Spec.On
	}
	s.once.Do(func() {
		s.lineup.fill(t, func(spec *Spec) bool { return len(spec.On) == 0 || slices.Contains(spec.On, k) })
	})
	return &s.lineup
}

// forUnknown returns the hooks that could run for an event of unknown kind.
func (t *table) forUnknown() *lineup {
	t.unknown.once.Do(func() {
		t.unknown.lineup.fill(t, func(spec *Spec) bool { return len(spec.On) == 0 || slices.ContainsFunc(spec.On, stoppable) })
	})
	return &t.unknown.lineup
}

func (l *lineup) fill(t *table, listens func(*Spec) bool) {
	for _, s := range t.ranked {
		if listens(s) {
			l.add(s, t.rules)
		}
	}
	l.lastWord()
}

// lastWord moves the rewrites of each scope after those in weaker scopes, so that a project
// cannot restore data that the user's policy removed.
func (l *lineup) lastWord() {
	slices.SortStableFunc(l.rewrites, func(a, b *Spec) int { return cmp.Compare(b.Source.Scope, a.Source.Scope) })
}

// cloneSpecs copies Specs, including the slices and pointers that a caller could modify.
func cloneSpecs(specs []Spec) []Spec {
	specs = slices.Clone(specs)
	for i := range specs {
		s := &specs[i]
		s.On, s.Tools = slices.Clone(s.On), slices.Clone(s.Tools)
	}
	return specs
}

// stoppable reports whether a Block stops the action that an event of this kind announces.
func stoppable(k Kind) bool {
	c := contractOf(k)
	return c != nil && c.Blocks == BlockingAction
}

// add appends a Spec to its phase. The caller adds Specs in plan order.
func (l *lineup) add(s *Spec, rules *presets.Row) {
	l.size++
	l.decides = l.decides || (s.Phase != PhaseObserve || isMarker(s.Hook)) && !s.Observe
	l.matchers = l.matchers || s.Match != nil
	l.readsID = l.readsID || s.readsID()
	phase := s.Phase
	if rules.InChain && phase != PhaseObserve {
		phase = PhaseStep
	}
	switch phase {
	case PhaseRewrite:
		l.rewrites = append(l.rewrites, s)
	case PhaseRule:
		l.rules = append(l.rules, s)
	case PhaseObserve:
		if isMarker(s.Hook) {
			l.markers = append(l.markers, s)
		} else {
			l.observers = append(l.observers, s)
		}
	case PhaseStep:
		if n := len(l.steps); n > 0 && together(rules, l.steps[n-1][0], s) {
			l.steps[n-1] = append(l.steps[n-1], s)
		} else {
			l.steps = append(l.steps, []*Spec{s})
		}
	}
}

// readsID reports whether the hook or its matcher reads Event.ID.
func (s *Spec) readsID() bool {
	_, hook := seam.As[seam.IDReader](s.Hook)
	_, matcher := s.Match.(seam.IDReader)
	return hook || matcher
}

// home returns the index of the layer that contains s, or -1.
func (t *table) home(s *Spec) int {
	return slices.IndexFunc(t.states, func(st *state) bool {
		for i := range st.specs {
			if &st.specs[i] == s {
				return true
			}
		}
		return false
	})
}

// groups returns the Specs of the lineup, grouped by the hooks that get the same event. The
// observers are last.
func (l *lineup) groups() [][]*Spec {
	var groups [][]*Spec
	for i := range l.rewrites { // each rewrite gets the result of the previous one
		groups = append(groups, l.rewrites[i:i+1:i+1])
	}
	groups = append(groups, l.rules)
	groups = append(groups, l.steps...)
	return append(groups, l.markers, l.observers)
}

func (l *lineup) plan(ev *Event, t *table) Plan {
	p := Plan{Event: ev.Kind, Entries: []Planned{}}
	ev = clone(ev) // a firing also matches on a copy
	var all []answer
	step := 0
	for _, group := range l.groups() {
		asked := len(all)
		all = listening(all, group, ev, t)
		for i := range all[asked:] {
			a := &all[asked+i]
			if i == 0 || inTurn(all[asked:]) {
				step++
			}
			s := a.spec
			entry := Planned{
				Step: step, Phase: s.Phase, Hook: s.Name, Source: s.Source.Name, File: s.Source.File, Line: s.Line,
				Matched: s.explain(ev), Sequential: s.Sequential,
			}
			if err := cmp.Or(a.err, a.unsure); err != nil {
				entry.Error = err.Error()
			}
			p.Entries = append(p.Entries, entry)
		}
	}
	return p
}

// listening appends an empty answer for each hook that listens and for each hook whose Matcher
// failed.
func listening(all []answer, hooks []*Spec, ev *Event, t *table) []answer {
	before := len(all)
	for len(hooks) > 0 {
		asked, ok, err := nextListening(hooks, ev)
		s := hooks[asked-1]
		hooks = hooks[asked:]
		if !ok && err == nil {
			break
		}
		a := newAnswer(s, ev)
		a.matched(err)
		if all == nil {
			all = make([]answer, 0, min(len(hooks)+1, 16))
		}
		all = append(all, a)
	}
	return all[:before+len(t.once(all[before:], all[:before]))]
}

// canReplace reports whether s can replace o without weakening a guard. A weaker scope or a
// session must not disable a guard by giving its key to another hook.
func (t *table) canReplace(s, o *Spec) bool {
	return t.home(s) == t.home(o) && s.Source.Scope <= o.Source.Scope && (!s.Observe || o.Observe) &&
		(s.onError(t.rules, true) == o.onError(t.rules, true) || o.onError(t.rules, true) == OnErrorOpen)
}

// unites reports whether the lists of two hooks are united. Hooks of another layer or scope cannot
// join a group, because that would widen its list.
func (t *table) unites(a, b *Spec) bool {
	return a == b || a.Unite != "" && a.Unite == b.Unite && a.Source.Scope == b.Source.Scope && t.home(a) == t.home(b)
}

// once drops the answers of hooks that another hook with the same key replaces, if the
// Preset runs only the first of them. before are the answers of earlier steps.
func (t *table) once(answers, before []answer) []answer {
	if !t.rules.Once {
		return answers
	}
	kept := answers[:0]
	for i := range answers {
		key := answers[i].spec.Key
		same := func(a *answer) bool { return a.spec.Key == key && t.canReplace(a.spec, answers[i].spec) }
		switch {
		case key == "":
		case anyOf(before, same), anyOf(kept, same):
			continue
		}
		kept = append(kept, answers[i])
	}
	return kept
}

// nextListening calls Matchers until one matches or fails, and returns the number of hooks that
// it checked. It recovers panics once for all of them: a recover for each of a hundred Matchers
// takes as long as most of them need.
func nextListening(hooks []*Spec, ev *Event) (asked int, ok bool, err error) {
	defer caught(&err)
	for asked < len(hooks) && !ok && err == nil {
		asked++
		ok, err = hooks[asked-1].matches(ev, nil)
	}
	return asked, ok, err
}

// inTurn reports whether the hooks of a step run one after the other.
func inTurn(answers []answer) bool {
	return anyOf(answers, func(a *answer) bool { return a.spec.Sequential })
}

// anyOf is slices.ContainsFunc without copying the answers.
func anyOf(answers []answer, fits func(*answer) bool) bool {
	for i := range answers {
		if fits(&answers[i]) {
			return true
		}
	}
	return false
}

// explain returns the reason why a Spec listens to the event.
func (s *Spec) explain(ev *Event) string {
	why := "event " + string(ev.Kind)
	if len(s.Tools) > 0 && ev.Tool != nil {
		why = "tool " + ev.Tool.Name
	}
	if e, ok := s.Match.(explainer); ok {
		if more := e.Explain(ev, nil); more != "" {
			return more
		}
	}
	return why
}
