package policytest

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Which tests can notice a change at all: those that fire an event of which the changed hook
// says something else than before. Until then all goes as it did. To ask two matchers
// takes a thousandth of a test.

// choose finds for each change the tests that can notice it.
func (m *mutation) choose(ctx context.Context, p *mutating, s *stage) error {
	// What has to have happened before is left out: that cannot be told by looking at an
	// event alone. A hook that listens to none of them notices nothing of it either.
	with := func(mu mutant, h policyfile.Hook) (*grapnel.Spec, error) {
		h.After, mu.to = nil, &h
		specs, err := p.swapped(&mu, s)
		i := slices.IndexFunc(specs, func(spec grapnel.Spec) bool { return p.hook(&spec) == mu.hook })
		if err != nil || i < 0 {
			return nil, err
		}
		return &specs[i], nil
	}
	p.before, p.widest, p.after = make([]*grapnel.Spec, len(p.hooks)), make([]*grapnel.Spec, len(p.hooks)), make([]*grapnel.Spec, len(p.mutants))
	var err error
	for i := range p.hooks {
		h := p.hooks[i]
		if p.before[i], err = with(mutant{hook: i}, h); err != nil {
			return err
		}
		if h.Except == nil {
			continue
		}
		h.Except = nil
		if p.widest[i], err = with(mutant{hook: i}, h); err != nil {
			return err
		}
	}
	for i := range p.mutants {
		if mu := &p.mutants[i]; mu.looks() {
			if p.after[i], err = with(*mu, *mu.to); err != nil {
				return err
			}
		}
	}
	lists := make([][]notice, len(p.tests))
	err = m.each(len(p.tests), func(i int) error {
		lists[i] = p.notices(p.tests[i])
		return context.Cause(ctx)
	})
	for i := range p.mutants {
		mu := &p.mutants[i]
		for _, sort := range []notice{likely, perhaps} {
			for j, r := range p.tests {
				if err == nil && lists[j][i] == sort {
					mu.tests = append(mu.tests, r)
				}
			}
		}
		mu.Tests = len(mu.tests)
	}
	return err
}

// looks reports whether a change is one of when the hook listens.
func (mu *mutant) looks() bool {
	key, _, _ := strings.Cut(mu.At, ".")
	key, _, _ = strings.Cut(key, "[")
	return mu.Status != Same && mu.to != nil && slices.Contains([]string{"match", "except", "when", "on"}, key)
}

// notice is whether a test can notice a change.
type notice uint8

const (
	never notice = iota
	perhaps
	likely // the hook listened before
)

// notices says which changes a test can notice.
func (p *mutating) notices(r *Result) []notice {
	list := make([]notice, len(p.mutants))
	for f := range r.Firings {
		firing := &r.Firings[f]
		one := &asking{
			mutating: p, firing: firing, ev: firing.Record.Input,
			rewritten: slices.ContainsFunc(firing.Record.Hooks, func(run grapnel.HookRun) bool { return len(run.Changed) > 0 }),
			asked:     make([]answer, len(p.hooks)), bare: make([]answer, len(p.hooks)), checks: map[int][]match.Check{},
		}
		for i := range p.mutants {
			if list[i] != likely {
				list[i] = max(list[i], one.notice(i))
			}
		}
	}
	return list
}

// asking is one event, with what hooks have answered about it.
type asking struct {
	*mutating
	firing    *Firing
	ev        *grapnel.Event
	rewritten bool                  // by hooks
	asked     []answer              // by hook
	bare      []answer              // by hook without its exceptions
	checks    map[int][]match.Check // by hook that listens
}

// notice says whether the event shows a change.
func (a *asking) notice(i int) notice {
	mu := &a.mutants[i]
	if mu.hook < 0 {
		return likely
	}
	s := a.before[mu.hook]
	if mu.Status == Same || s == nil || !slices.Contains(a.hooks[mu.hook].On, a.ev.Kind) {
		return never
	}
	if a.asked[mu.hook] == unasked {
		a.asked[mu.hook] = listens(s, a.ev, a.firing)
	}
	old := a.asked[mu.hook]
	now := old
	if a.after[i] != nil && !a.same(mu, s, old) {
		now = listens(a.after[i], a.ev, a.firing)
	}
	acts := old != no || now != no
	switch {
	case acts && a.hooks[mu.hook].After != nil, a.after[i] == nil && old != no, now != old && old != no:
		return likely
	case now != old, a.rewritten: // who knows what it saw
		return perhaps
	}
	return never
}

// same reports whether a changed hook certainly listens as before, so that it need not be asked.
func (a *asking) same(mu *mutant, s *grapnel.Spec, old answer) bool {
	switch {
	case strings.HasSuffix(mu.At, "]") && (mu.More && old == yes || !mu.More && old == no):
		return true // with a word less to except it listens to no less, with a word less to match to no more
	case strings.HasPrefix(mu.At, "except") && old == no && a.beyond(mu.hook):
		return true
	}
	return old == yes && mu.idle(a.checks, s, a.ev, a.firing) // the word does not fit
}

// beyond reports whether a hook would not listen without its exceptions either. Most events
// are about something else altogether, and exceptions are many.
func (a *asking) beyond(hook int) bool {
	if a.bare[hook] == unasked {
		a.bare[hook] = listens(a.widest[hook], a.ev, a.firing)
	}
	return a.bare[hook] == no
}

// idle reports whether a mutant drops a word of a match that does not fit an event to which
// the hook listens. said is what was asked before.
func (mu *mutant) idle(said map[int][]match.Check, s *grapnel.Spec, ev *grapnel.Event, f *Firing) bool {
	key, number, _ := strings.Cut(mu.At, "[")
	i, err := strconv.Atoi(strings.TrimSuffix(number, "]"))
	if err != nil || !strings.HasPrefix(key, "match.") || len(ev.Calls) > 0 { // of many calls only one is looked at
		return false
	}
	if said[mu.hook] == nil {
		why := policy.NewReasoner(s).Why(ev, seenBy(s, f))
		if !why.Holds() {
			return false
		}
		said[mu.hook] = why.Checks
	}
	at := slices.IndexFunc(said[mu.hook], func(c match.Check) bool { return c.Key == key })
	return at >= 0 && !slices.Contains(said[mu.hook][at].Fits, i)
}

// answer is whether a hook listens.
type answer uint8

const (
	unasked answer = iota
	no
	yes
	cannotTell
)

// listens asks a Spec about an event as the engine does.
func listens(s *grapnel.Spec, ev *grapnel.Event, f *Firing) answer {
	if len(s.On) > 0 && !slices.Contains(s.On, ev.Kind) {
		return no
	}
	if s.Match == nil {
		return yes
	}
	switch ok, err := s.Match.Match(ev, seenBy(s, f)); {
	case err != nil:
		return cannotTell
	case ok:
		return yes
	}
	return no
}

// seenBy is the Verdict that a hook is shown when it is asked; nil = none.
func seenBy(s *grapnel.Spec, f *Firing) *grapnel.Verdict {
	if s.Phase != grapnel.PhaseObserve {
		return nil
	}
	return &f.Verdict
}
