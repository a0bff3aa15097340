package policytest

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A test can notice a change only if one of its events gets another answer from the changed hook.
// Up to that event the session is identical. Asking two matchers takes about a thousandth of the
// time of a test.

// choose finds for each change the tests that can notice it.
func (m *mutation) choose(ctx context.Context, p *mutating, s *stage) error {
	// The `after:` conditions are left out, because they depend on more than one event. If
	// a hook matches no event even without them, the change does not affect it.
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

// looks reports whether a change affects when the hook matches.
func (mu *mutant) looks() bool {
	key, _, _ := strings.Cut(mu.At, ".")
	key, _, _ = strings.Cut(key, "[")
	return mu.Status != Same && mu.to != nil && slices.Contains([]string{"match", "except", "when", "on"}, key)
}

// A notice is the probability that a test notices a change.
type notice uint8

const (
	never notice = iota
	perhaps
	likely // the hook matched before
)

// notices returns for each change whether a test can notice it.
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

// asking is one event with the answers of the hooks to it.
type asking struct {
	*mutating
	firing    *Firing
	ev        *grapnel.Event
	rewritten bool                  // hooks changed the event
	asked     []answer              // by hook
	bare      []answer              // by hook without its exceptions
	checks    map[int][]match.Check // by hook that matches
}

// notice returns whether the event shows a change.
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
	case now != old, a.rewritten: // the hook may have got a changed event
		return perhaps
	}
	return never
}

// same reports whether a changed hook certainly gives the same answer, so that it need not be
// asked.
func (a *asking) same(mu *mutant, s *grapnel.Spec, old answer) bool {
	switch {
	case strings.HasSuffix(mu.At, "]") && (mu.More && old == yes || !mu.More && old == no):
		return true // one exception less can only match more, one match word less can only match less
	case strings.HasPrefix(mu.At, "except") && old == no && a.beyond(mu.hook):
		return true
	}
	return old == yes && mu.idle(a.checks, s, a.ev, a.firing) // the removed word does not match the event
}

// beyond reports whether a hook would not match even without its exceptions. Then a change of an
// exception cannot have an effect, and one check replaces the checks of all exceptions.
func (a *asking) beyond(hook int) bool {
	if a.bare[hook] == unasked {
		a.bare[hook] = listens(a.widest[hook], a.ev, a.firing)
	}
	return a.bare[hook] == no
}

// idle reports whether a mutant only removes a word of a match that does not match the event,
// while the hook matches. checks caches the checks of hooks.
func (mu *mutant) idle(checks map[int][]match.Check, s *grapnel.Spec, ev *grapnel.Event, f *Firing) bool {
	key, number, _ := strings.Cut(mu.At, "[")
	i, err := strconv.Atoi(strings.TrimSuffix(number, "]"))
	if err != nil || !strings.HasPrefix(key, "match.") || len(ev.Calls) > 0 { // only one of several calls is checked
		return false
	}
	if checks[mu.hook] == nil {
		why := load.NewReasoner(s).Why(ev, seenBy(s, f))
		if !why.Holds() {
			return false
		}
		checks[mu.hook] = why.Checks
	}
	at := slices.IndexFunc(checks[mu.hook], func(c match.Check) bool { return c.Key == key })
	return at >= 0 && !slices.Contains(checks[mu.hook][at].Fits, i)
}

// An answer is whether a hook matches an event.
type answer uint8

const (
	unasked answer = iota
	no
	yes
	unknown
)

// listens matches an event against a Spec like the engine.
func listens(s *grapnel.Spec, ev *grapnel.Event, f *Firing) answer {
	if len(s.On) > 0 && !slices.Contains(s.On, ev.Kind) {
		return no
	}
	if s.Match == nil {
		return yes
	}
	switch ok, err := s.Match.Match(ev, seenBy(s, f)); {
	case err != nil:
		return unknown
	case ok:
		return yes
	}
	return no
}

// seenBy returns the Verdict that a hook gets when it matches, or nil.
func seenBy(s *grapnel.Spec, f *Firing) *grapnel.Verdict {
	if s.Phase != grapnel.PhaseObserve {
		return nil
	}
	return &f.Verdict
}
