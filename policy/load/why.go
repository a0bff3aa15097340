package load

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// Reasoning explains why a hook matches an event, or why it does not.
type Reasoning struct {
	Event   bool          `json:"event"`          // the hook listens to events of this kind
	Matched bool          `json:"matched"`        // the hook runs for this event: the kind and the Matcher match
	Checks  []match.Check `json:"checks"`         // all conditions; the hook matches if each is OK
	Text    string        `json:"text,omitempty"` // explanation of the Matcher if its conditions are unknown
	Call    int           `json:"call"`           // in a batch of calls, the index from 0 of the call that Checks describe

	// Err is the error of the Matcher, which is treated as an error of the hook. If a call is too
	// large to evaluate, Checks is empty.
	Err error `json:"-"`
}

// A Reasoner explains, condition by condition, why a hook matches an event or not. It evaluates
// every condition, also after one that failed. It knows the conditions of Specs that this package
// built, except those from foreign hook files.
type Reasoner struct {
	spec  *grapnel.Spec
	known *match.Conditions // nil = unknown
	gate  string            // key of the prefilter by which a hook of a pack skips events
	past  *state.After      // nil = the hook has no `after:`
	err   error
}

// NewReasoner returns a Reasoner for a hook.
func NewReasoner(s *grapnel.Spec) *Reasoner {
	r := &Reasoner{spec: s}
	m := s.Match
	if packed, ok := packHookOf(m); ok {
		made, err := packed.made()
		if err != nil {
			r.err = err
			return r
		}
		if m, r.gate = made.Match, "match"; m == nil {
			r.gate = "mask"
		}
	}
	switch m := m.(type) {
	case nil:
		r.known = &match.Conditions{}
	case *match.Matcher:
		r.known = match.ConditionsOf(m)
	case *state.After:
		r.known, r.past = match.ConditionsOf(m.Matcher), m
	}
	return r
}

// Describe returns a short description of the conditions of the hook, one part per condition. It
// is empty if the hook has none.
func (r *Reasoner) Describe() []string {
	var parts []string
	if len(r.spec.Tools) > 0 {
		parts = append(parts, "tool "+strings.Join(r.spec.Tools, " or "))
	}
	if r.known != nil {
		parts = append(parts, r.known.Describe()...)
	}
	if r.past != nil {
		parts = append(parts, "after earlier events")
	}
	if m, ok := r.spec.Match.(*foreignMatcher); ok {
		parts = append(parts, m.describe()...)
	}
	return parts
}

// packHookOf returns the packHook that implements a Matcher, if any.
func packHookOf(m grapnel.Matcher) (*packHook, bool) {
	switch m := m.(type) {
	case *packHook:
		return m, true
	case packSequence:
		return m.packHook, true
	}
	return nil, false
}

// Why evaluates the hook for one event. Texts that it quotes from the event are not masked. v is
// nil except for observing hooks, which get events with their verdict.
func (r *Reasoner) Why(ev *grapnel.Event, v *grapnel.Verdict) Reasoning {
	s := r.spec
	why := Reasoning{Event: len(s.On) == 0 || slices.Contains(s.On, ev.Kind), Matched: true, Err: r.err}
	if len(s.Tools) > 0 {
		why.Matched = ev.Tool.Matches(s.Tools)
		why.Checks = append(why.Checks, match.Check{Key: "tool", Want: s.Tools, Got: match.ToolWords(&match.Facts{Event: ev}), OK: why.Matched})
	}
	if s.Match != nil && why.Err == nil {
		ok, err := s.Match.Match(ev, v)
		why.Matched, why.Err = why.Matched && ok && err == nil, err
	}
	if x, ok := s.Match.(seam.Explainer[grapnel.Event, grapnel.Verdict]); ok && r.known == nil {
		why.Text = x.Explain(ev, v)
	}
	if r.known != nil && !r.known.Empty() {
		checks, call := r.known.Of(ev, v)
		why.Checks, why.Call = append(why.Checks, checks...), call
	}
	if r.past != nil {
		why.Checks = append(why.Checks, r.past.Checks(ev)...)
	}
	if r.gate != "" && !why.Matched && why.Err == nil && why.Holds() {
		why.Checks = append(why.Checks, match.Check{Key: r.gate})
	}
	why.Matched = why.Matched && why.Event && why.Err == nil
	return why
}

// Holds reports whether all conditions are met.
func (r *Reasoning) Holds() bool {
	return match.AllHold(r.Checks)
}
