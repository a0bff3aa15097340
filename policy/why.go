package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/expr"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Check is one condition of a hook, and what came of it.
type Check struct {
	Key  string   `json:"key"`            // as the file says it: match.command, match.not.path, except[0], except[0].tool, when, after[1]
	Want []string `json:"want,omitempty"` // its words, as the file says them
	Got  []string `json:"got,omitempty"`  // what the event has for it, whole and not masked
	Fits []int    `json:"fits,omitempty"` // which of Want fit something of the event, from 0

	// OK: the condition holds. That of a `not` or an `except` does when what it takes out is
	// not this event.
	OK bool `json:"ok"`

	// Of are the conditions inside: of a `not`, of an `except`, and what and, or and not join
	// in a `when`, which Op names. That they hold means that they fit.
	Op string  `json:"op,omitempty"`
	Of []Check `json:"of,omitempty"`
}

// Reasoning is why a hook listens to an event, or why it does not.
type Reasoning struct {
	Event   bool    `json:"event"`          // it listens to events of this kind
	Matched bool    `json:"matched"`        // it listens to this one: that, and what its Matcher says
	Checks  []Check `json:"checks"`         // all of its conditions; it listens when each is OK
	Text    string  `json:"text,omitempty"` // what its Matcher says of itself, where its conditions are not known
	Call    int     `json:"call"`           // of a batch of calls: the number, from 0, of the one that Checks are about

	// Err is why nobody could tell whether it listens, which counts as an error of the hook. Of
	// a call that is too large to be judged there are no Checks.
	Err error `json:"-"`
}

// Why says why a hook listens to an event, or why it does not, condition by condition.
// Every one is looked at, also behind one that failed. Of Specs that this package has made it
// knows the conditions, unless they come from a hook file of another system. What a Reasoning
// quotes of the event is not masked.
func Why(s *grapnel.Spec, ev *grapnel.Event) Reasoning { return NewReasoner(s).Why(ev, nil) }

// A Reasoner is [Why] for many events.
type Reasoner struct {
	spec  *grapnel.Spec
	known *conditions // nil = they are not
	gate  string      // the key that tells a hook of a pack from afar that it has nothing to do
	past  *past       // nil = it has no `after:`
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
		r.known = &conditions{}
	case *matcher:
		r.known = conditionsOf(m)
	case *past:
		r.known, r.past = conditionsOf(m.matcher), m
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

// Why is the function of this name, for the hook. v is nil but for an observing hook, which
// listens to events that have their Verdict.
func (r *Reasoner) Why(ev *grapnel.Event, v *grapnel.Verdict) Reasoning {
	s := r.spec
	why := Reasoning{Event: len(s.On) == 0 || slices.Contains(s.On, ev.Kind), Matched: true, Err: r.err}
	if len(s.Tools) > 0 {
		why.Matched = grapnel.MatchTool(s.Tools, ev.Tool)
		why.Checks = append(why.Checks, Check{Key: "tool", Want: s.Tools, Got: toolWords(&facts{ev: ev}), OK: why.Matched})
	}
	if s.Match != nil && why.Err == nil {
		ok, err := s.Match.Match(ev, v)
		why.Matched, why.Err = why.Matched && ok && err == nil, err
	}
	if x, ok := s.Match.(grapnel.Explainer); ok && r.known == nil {
		why.Text = x.Explain(ev, v)
	}
	if r.known != nil && r.known.m != nil {
		checks, call := r.known.of(ev, v)
		why.Checks, why.Call = append(why.Checks, checks...), call
	}
	if r.past != nil {
		why.Checks = append(why.Checks, r.past.checks(ev)...)
	}
	if r.gate != "" && !why.Matched && why.Err == nil && why.Holds() {
		why.Checks = append(why.Checks, Check{Key: r.gate})
	}
	why.Matched = why.Matched && why.Event && why.Err == nil
	return why
}

// Holds reports whether all conditions hold.
func (r *Reasoning) Holds() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
}

// conditions are those of a matcher.
type conditions struct {
	m      *matcher
	match  *matchConditions
	except []*matchConditions
	when   *whenCondition
}

// matchConditions are those of one match.
type matchConditions struct {
	c    *compiled
	name string // match, match.not, except[1]
	keys []keyCondition
	not  *matchConditions
}

// keyCondition is one key of a match, made so that it can be asked alone.
type keyCondition struct {
	*matchKey
	want []string
	one  *compiled
	each []*compiled // a match for each word, which asks whether it fits anything
}

func conditionsOf(m *matcher) *conditions {
	facts := m.facts
	if facts.first != nil {
		facts = facts.first
	}
	cs := &conditions{m: m, match: facts.conditions(m.match, "match")}
	for i, e := range m.except {
		cs.except = append(cs.except, facts.conditions(e, "except["+strconv.Itoa(i)+"]"))
	}
	if m.when != nil {
		cs.when = newWhenCondition(m.when.source)
	}
	return cs
}

func (cache *factCache) conditions(c *compiled, name string) *matchConditions {
	if c == nil {
		return nil
	}
	mc := &matchConditions{c: c, name: name}
	late := &factCache{first: cache} // what is made here is made later than the policy
	if c.secret != nil {
		late.secrets = c.secret.rules
	}
	some := c.reading
	if some.every() {
		some = reading{}
	}
	for i := range matchKeys {
		k := keyCondition{matchKey: &matchKeys[i], want: matchKeys[i].said(c.said)}
		if len(k.want) == 0 {
			continue
		}
		k.one, _ = late.compile(k.only(c.said, -1), c.reading) // it was compiled with the others before
		for j := range k.want {
			each, _ := late.compile(k.only(c.said, j), some)
			k.each = append(k.each, each)
		}
		mc.keys = append(mc.keys, k)
	}
	mc.not = cache.conditions(c.not, name+".not")
	return mc
}

// of looks at an event. Of a batch it looks at the first call that decides.
func (cs *conditions) of(ev *grapnel.Event, v *grapnel.Verdict) (checks []Check, call int) {
	f := cs.m.facts.of(ev)
	if ev.Tool != nil || len(ev.Calls) == 0 {
		return cs.judge(f, v), 0
	}
	var first []Check
	for i, c := range f.calls() {
		why := Reasoning{Checks: cs.judge(c, v)}
		if why.Holds() != cs.m.allow {
			return why.Checks, i
		}
		if i == 0 {
			first = why.Checks
		}
	}
	return first, 0
}

// judge is that of the matcher, one condition after the other. It is nil for a call that
// is too large to be judged.
func (cs *conditions) judge(f *facts, v *grapnel.Verdict) []Check {
	if cs.m.tooLarge(f) != nil {
		return nil
	}
	var checks []Check
	if cs.match != nil {
		checks = cs.match.checks(f)
	}
	checks = append(checks, cs.exceptions(f)...)
	if cs.when != nil {
		checks = append(checks, cs.when.check(f, v))
	}
	return checks
}

// exceptions looks at what each `except` takes out.
func (cs *conditions) exceptions(f *facts) []Check {
	m := cs.m
	var checks []Check
	var single []*compiled // those that take out single commands, paths or addresses
	var at []int           // their numbers
	for i, e := range m.except {
		check := Check{Key: cs.except[i].name, OK: true, Of: cs.except[i].checks(f)}
		switch {
		case !e.whole(f):
		case !e.items():
			check.OK = false
		case e.sorts == 1 && m.match != nil && m.match.items():
			single, at = append(single, e), append(at, i)
		default:
			check.OK = !e.fits(f, nil)
		}
		checks = append(checks, check)
	}
	if len(single) == 0 || !m.match.fits(f, nil) || m.match.fits(f, single) {
		return checks
	}
	// Together they take out all that fits. Those count that would alone, or without
	// which the others would not; else it takes all of them.
	counts := slices.DeleteFunc(slices.Clone(at), func(i int) bool {
		others := slices.DeleteFunc(slices.Clone(single), func(e *compiled) bool { return e == m.except[i] })
		return m.match.fits(f, []*compiled{m.except[i]}) && !m.match.fits(f, others)
	})
	if len(counts) == 0 {
		counts = at
	}
	for _, i := range counts {
		checks[i].OK = false
	}
	return checks
}

// checks looks at each key of a match.
func (mc *matchConditions) checks(f *facts) []Check {
	c := mc.c
	var checks []Check
	add := func(key string, want, got []string, ok bool) *Check {
		checks = append(checks, Check{Key: mc.name + "." + key, Want: want, Got: got, OK: ok})
		return &checks[len(checks)-1]
	}
	for i := range mc.keys {
		k := &mc.keys[i]
		var got []string
		if k.got != nil {
			got = k.got(f)
		} else {
			got = f.secrets(c.secret.rules)
		}
		check := add(k.name, k.want, got, k.holds(k.one, f))
		for j, each := range k.each {
			if (check.OK || c.reading.every()) && k.holds(each, f) {
				check.Fits = append(check.Fits, j)
			}
		}
		if k.name == "host" && len(c.url) > 0 {
			check.OK = check.OK && c.fitsURLs(f, nil) // both are about one address
		}
	}
	if c.items() && c.blind(f) {
		add("command", nil, f.commandTexts(), false)
	}
	if c.ended != nil {
		ok := hasEnded(f.ev) && f.failed() == *c.ended
		add("failed", []string{strconv.FormatBool(*c.ended)}, f.ending(), ok)
	}
	if c.not != nil {
		check := add("not", nil, nil, !c.not.whole(f) || c.not.items() && !c.not.fits(f, nil))
		check.Of = mc.not.checks(f)
	}
	return checks
}

// whenCondition is a `when:`, or one of the conditions that it joins.
type whenCondition struct {
	expression
	op    string
	parts []*whenCondition
}

func newWhenCondition(source string) *whenCondition {
	whole, err := expr.Parts(source)
	if err != nil {
		whole = expr.Part{Source: source}
	}
	return whenConditionOf(whole)
}

func whenConditionOf(p expr.Part) *whenCondition {
	w := &whenCondition{expression: expression{key: keyWhen, source: p.Source}, op: p.Op}
	for _, part := range p.Parts {
		w.parts = append(w.parts, whenConditionOf(part))
	}
	return w
}

// check runs each part by itself, also those that the whole would not come to.
func (w *whenCondition) check(f *facts, v *grapnel.Verdict) Check {
	check := Check{Key: keyWhen, Want: []string{w.source}, Op: w.op}
	for _, part := range w.parts {
		check.Of = append(check.Of, part.check(f, v))
	}
	value, err := w.run(f, v)
	check.OK, _ = value.(bool)
	switch {
	case err != nil:
		check.Got = []string{err.Error()}
	case w.op == "":
		for _, name := range w.program.Names() {
			if name >= len(whenNames) { // those that it has of it are there too
				continue
			}
			check.Got = append(check.Got, whenLanguage()[name].Name+" is "+valueText(whenValue(name, f, v)))
		}
	}
	return check
}

func valueText(v any) string {
	if text, ok := v.(string); ok {
		return strconv.Quote(text)
	}
	if list, ok := v.([]string); ok {
		return fmt.Sprintf("%q", list)
	}
	return fmt.Sprint(v)
}

// checks looks at what has to have happened before.
func (f *past) checks(ev *grapnel.Event) []Check {
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
	var checks []Check
	for i := range f.steps {
		checks = append(checks, Check{
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
