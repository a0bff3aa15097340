package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Reasoning is why a hook listens to an event, or why it does not.
type Reasoning struct {
	Event   bool          `json:"event"`          // it listens to events of this kind
	Matched bool          `json:"matched"`        // it listens to this one: that, and what its Matcher says
	Checks  []match.Check `json:"checks"`         // all of its conditions; it listens when each is OK
	Text    string        `json:"text,omitempty"` // what its Matcher says of itself, where its conditions are not known
	Call    int           `json:"call"`           // of a batch of calls: the number, from 0, of the one that Checks are about

	// Err is why nobody could tell whether it listens, which counts as an error of the hook. Of
	// a call that is too large to be judged there are no Checks.
	Err error `json:"-"`
}

// A Reasoner says why a hook listens to an event, or why it does not, condition by condition.
// It looks at every condition, also behind one that failed. It knows the conditions of Specs
// that this package has made, unless they come from a hook file of another system.
type Reasoner struct {
	spec  *grapnel.Spec
	known *match.Conditions // nil = they are not
	gate  string            // the key that tells a hook of a pack from afar that it has nothing to do
	past  *past             // nil = it has no `after:`
	err   error
}

// NewReasoner looks at the conditions of a hook.
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
	case *past:
		r.known, r.past = match.ConditionsOf(m.Matcher), m
	}
	return r
}

// packHookOf returns the packHook behind a Matcher.
func packHookOf(m grapnel.Matcher) (*packHook, bool) {
	switch m := m.(type) {
	case *packHook:
		return m, true
	case packSequence:
		return m.packHook, true
	}
	return nil, false
}

// Why looks at one event. What it quotes of the event is not masked. v is nil but for an
// observing hook, which listens to events that have their Verdict.
func (r *Reasoner) Why(ev *grapnel.Event, v *grapnel.Verdict) Reasoning {
	s := r.spec
	why := Reasoning{Event: len(s.On) == 0 || slices.Contains(s.On, ev.Kind), Matched: true, Err: r.err}
	if len(s.Tools) > 0 {
		why.Matched = grapnel.MatchTool(s.Tools, ev.Tool)
		why.Checks = append(why.Checks, match.Check{Key: "tool", Want: s.Tools, Got: match.ToolWords(&match.Facts{Event: ev}), OK: why.Matched})
	}
	if s.Match != nil && why.Err == nil {
		ok, err := s.Match.Match(ev, v)
		why.Matched, why.Err = why.Matched && ok && err == nil, err
	}
	if x, ok := s.Match.(grapnel.Explainer); ok && r.known == nil {
		why.Text = x.Explain(ev, v)
	}
	if r.known != nil && !r.known.Empty() {
		checks, call := r.known.Of(ev, v)
		why.Checks, why.Call = append(why.Checks, checks...), call
	}
	if r.past != nil {
		why.Checks = append(why.Checks, r.past.checks(ev)...)
	}
	if r.gate != "" && !why.Matched && why.Err == nil && why.Holds() {
		why.Checks = append(why.Checks, match.Check{Key: r.gate})
	}
	why.Matched = why.Matched && why.Event && why.Err == nil
	return why
}

// Holds reports whether all conditions hold.
func (r *Reasoning) Holds() bool {
	return match.AllHold(r.Checks)
}

// checks looks at what has to have happened before.
func (f *past) checks(ev *grapnel.Event) []match.Check {
	kept, err := counted(f.counter, f.key(ev))
	if err != nil {
		return nil
	}
	marks, err := readMarks(kept, len(f.steps))
	if err != nil {
		return nil
	}
	marks = f.age(marks)
	missing := f.missing(marks, ev)
	var checks []match.Check
	for i := range f.steps {
		checks = append(checks, match.Check{
			Key: "after[" + strconv.Itoa(i) + "]", Want: []string{f.steps[i].describe()}, Got: f.happenings(marks, i, ev), OK: missing < 0 || i < missing,
		})
	}
	return checks
}

// happenings says of each mark that counts for a step how long ago it was.
func (f *past) happenings(marks []mark, i int, ev *grapnel.Event) (got []string) {
	self := f.markOf(ev)
	for j := range marks {
		if f.counts(&marks[j], i, &self, ev) {
			ago := policyfile.FormatDuration(time.Duration(self.at - marks[j].at).Truncate(time.Second))
			got = append(got, strings.Join([]string{string(marks[j].kind), ago, "ago"}, " "))
		}
	}
	return got
}
