package grapnel

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// A Plan says who runs in which step for one event, as it stands before any hook
// changed it. It is a pure function of the engine's Specs and the event.
type Plan struct {
	Event   Kind      `json:"event"`
	Entries []Planned `json:"entries"`
}

// Planned is one hook of a Plan.
type Planned struct {
	Step       int    `json:"step"` // hooks of one step see the same event
	Phase      Phase  `json:"phase"`
	Hook       string `json:"hook"`
	Source     string `json:"source"`
	File       string `json:"file,omitempty"`
	Line       int    `json:"line,omitempty"`
	Matched    string `json:"matched"`              // what made it listen
	Sequential bool   `json:"sequential,omitempty"` // because of it the hooks of its step run one after the other
	Error      string `json:"error,omitempty"`      // it could not tell whether it listens; that counts as its failure
}

// lineup is who could run for one kind of event, in plan order.
type lineup struct {
	contract  *Contract // nil for a native kind: its events bring their own
	rewrites  []*Spec
	rules     []*Spec
	steps     [][]*Spec // one slice per priority
	markers   []*Spec
	observers []*Spec
	size      int  // how many there are
	decides   bool // what any of them says counts
	matchers  bool // any of them has a Matcher
	readsID   bool // any of them is an IDReader, or its Matcher is
}

// table is what the layers of an engine hold, made ready for lookup. It never
// changes.
type table struct {
	preset    *Preset
	states    []*state // of the layers
	observers []Observer
	ranked    []*Spec // the hooks that are switched on
	byKind    map[Kind]*seat
	other     seat // kinds that neither contracts nor any Spec names
	unknown   seat // an event of which not even the kind could be read
}

// A seat holds the lineup of one kind from the first event of that kind on: a program
// that answers one event and ends needs one of thirty.
type seat struct {
	once   sync.Once
	lineup lineup
}

// newTable orders the hooks of all layers as if they were one.
func newTable(states []*state, preset *Preset) *table {
	t := &table{preset: preset, states: states, byKind: make(map[Kind]*seat, len(contracts))}
	t.unknown.lineup.contract = &Contract{Blocks: BlockAction}
	for _, st := range states {
		t.observers = append(t.observers, st.observers...)
		for i := range st.specs {
			if !st.off {
				t.ranked = append(t.ranked, &st.specs[i])
			}
		}
	}
	slices.SortStableFunc(t.ranked, preset.compare)
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

// lineup is who could run for events of a kind.
func (t *table) lineup(k Kind) *lineup {
	s := t.byKind[k]
	if s == nil {
		s, k = &t.other, "" // which no On names
	}
	s.once.Do(func() {
		s.lineup.fill(t, func(spec *Spec) bool { return len(spec.On) == 0 || slices.Contains(spec.On, k) })
	})
	return &s.lineup
}

// whatever is who could run for an event of which nobody knows the kind.
func (t *table) whatever() *lineup {
	t.unknown.once.Do(func() {
		t.unknown.lineup.fill(t, func(spec *Spec) bool { return len(spec.On) == 0 || slices.ContainsFunc(spec.On, stoppable) })
	})
	return &t.unknown.lineup
}

func (l *lineup) fill(t *table, listens func(*Spec) bool) {
	for _, s := range t.ranked {
		if listens(s) {
			l.add(s, t.preset)
		}
	}
	l.lastWord()
}

// lastWord lets the rewrites of each scope run after those of the weaker ones: a
// project must not put back what the user's policy took out.
func (l *lineup) lastWord() {
	slices.SortStableFunc(l.rewrites, func(a, b *Spec) int { return cmp.Compare(b.Source.Scope, a.Source.Scope) })
}

// cloneSpecs copies Specs with all that a caller could change in them.
func cloneSpecs(specs []Spec) []Spec {
	specs = slices.Clone(specs)
	for i := range specs {
		s := &specs[i]
		s.On, s.Tools = slices.Clone(s.On), slices.Clone(s.Tools)
		if s.Priority != nil {
			s.Priority = clone(s.Priority)
		}
	}
	return specs
}

// stoppable reports whether a Block stops what an event of this kind announces.
func stoppable(k Kind) bool {
	c := contractOf(k)
	return c != nil && c.Blocks == BlockAction
}

// add appends a Spec; the caller adds in plan order.
func (l *lineup) add(s *Spec, preset *Preset) {
	l.size++
	l.decides = l.decides || (s.Phase != PhaseObserve || isMarker(s.Hook)) && s.Mode == Enforce
	l.matchers = l.matchers || s.Match != nil
	l.readsID = l.readsID || s.readsID()
	phase := s.Phase
	if preset.InChain && phase != PhaseObserve {
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
		if n := len(l.steps); n > 0 && preset.together(l.steps[n-1][0], s) {
			l.steps[n-1] = append(l.steps[n-1], s)
		} else {
			l.steps = append(l.steps, []*Spec{s})
		}
	}
}

// readsID reports whether the hook or its matcher reads Event.ID.
func (s *Spec) readsID() bool {
	_, hook := HookAs[IDReader](s.Hook)
	_, matcher := s.Match.(IDReader)
	return hook || matcher
}

// home is the number of the layer whose hook s is.
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

// groups lists the lineup's Specs, those that see the same event together, the
// observers last.
func (l *lineup) groups() [][]*Spec {
	var groups [][]*Spec
	for i := range l.rewrites { // each sees what the one before left
		groups = append(groups, l.rewrites[i:i+1:i+1])
	}
	groups = append(groups, l.rules)
	groups = append(groups, l.steps...)
	return append(groups, l.markers, l.observers)
}

func (l *lineup) plan(ev *Event, t *table) Plan {
	p := Plan{Event: ev.Kind, Entries: []Planned{}}
	ev = clone(ev) // as in a firing
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
			if a.err != nil {
				entry.Error = a.err.Error()
			}
			p.Entries = append(p.Entries, entry)
		}
	}
	return p
}

// listening appends an answer, yet to be given, for each of the hooks that listens
// and for each that cannot tell.
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
		if err != nil {
			a.err = fmt.Errorf("cannot tell whether it listens: %w", err)
		}
		if all == nil {
			all = make([]answer, 0, min(len(hooks)+1, 16))
		}
		all = append(all, a)
	}
	return all[:before+len(t.once(all[before:], all[:before]))]
}

// standsFor reports whether nothing is lost if s answers in o's place: neither a weaker
// scope nor a session must switch a guard off by giving its key to something else.
func (t *table) standsFor(s, o *Spec) bool {
	return t.home(s) == t.home(o) && s.Source.Scope <= o.Source.Scope && (s.Mode == Enforce || o.Mode == Observe) &&
		(s.onError() == o.onError() || o.onError() == OnErrorOpen)
}

// once drops the answers that are not to be given because a hook with the same key
// gives one. before are those of earlier steps.
func (t *table) once(answers, before []answer) []answer {
	if t.preset.Once == OnceNot {
		return answers
	}
	kept := answers[:0]
	for i := range answers {
		key := answers[i].spec.Key
		same := func(a *answer) bool { return a.spec.Key == key && t.standsFor(a.spec, answers[i].spec) }
		switch {
		case key == "":
		case anyOf(before, same), t.preset.Once == OnceFirst && anyOf(kept, same):
			continue
		case t.preset.Once == OnceLast && anyOf(answers[i+1:], same):
			continue
		}
		kept = append(kept, answers[i])
	}
	return kept
}

// nextListening asks hooks until one listens or cannot tell, and says how many it
// asked. It contains panics of all of them at once: to contain each of a hundred by
// itself costs as much as most take to say no.
func nextListening(hooks []*Spec, ev *Event) (asked int, ok bool, err error) {
	defer caught(&err)
	for asked < len(hooks) && !ok && err == nil {
		asked++
		ok, err = hooks[asked-1].matches(ev, nil)
	}
	return asked, ok, err
}

// inTurn reports whether hooks that would run together run one after the other.
func inTurn(answers []answer) bool {
	return anyOf(answers, func(a *answer) bool { return a.spec.Sequential })
}

// anyOf is slices.ContainsFunc that copies no answer.
func anyOf(answers []answer, fits func(*answer) bool) bool {
	for i := range answers {
		if fits(&answers[i]) {
			return true
		}
	}
	return false
}

// explain says why a Spec that listens does.
func (s *Spec) explain(ev *Event) string {
	why := "event " + string(ev.Kind)
	if len(s.Tools) > 0 && ev.Tool != nil {
		why = "tool " + ev.Tool.Name
	}
	if e, ok := s.Match.(Explainer); ok {
		if more := e.Explain(ev, nil); more != "" {
			return more
		}
	}
	return why
}
