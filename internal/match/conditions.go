package match

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/expr"
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

// Conditions are those of a matcher.
type Conditions struct {
	m      *Matcher
	match  *matchConditions
	except []*matchConditions
	when   *whenCondition
}

// Empty reports whether there is no condition: every event matches.
func (cs *Conditions) Empty() bool { return cs.m == nil }

// matchConditions are those of one match.
type matchConditions struct {
	c    *compiled
	name string // match, match.not, except[1]
	keys []keyCondition
	not  *matchConditions
}

// keyCondition is one key of a match, made so that it can be asked alone.
type keyCondition struct {
	*Key
	want []string
	one  *compiled
	each []*compiled // a match for each word, which asks whether it fits anything
}

// ConditionsOf makes the conditions of a Matcher so that each can be asked alone.
func ConditionsOf(m *Matcher) *Conditions {
	facts := m.Facts
	if facts.first != nil {
		facts = facts.first
	}
	cs := &Conditions{m: m, match: facts.conditions(m.match, "match")}
	for i, e := range m.except {
		cs.except = append(cs.except, facts.conditions(e, "except["+strconv.Itoa(i)+"]"))
	}
	if m.when != nil {
		cs.when = newWhenCondition(m.when.Source)
	}
	return cs
}

func (cache *FactCache) conditions(c *compiled, name string) *matchConditions {
	if c == nil {
		return nil
	}
	mc := &matchConditions{c: c, name: name}
	late := &FactCache{first: cache} // what is made here is made later than the policy
	if c.secret != nil {
		late.Secrets = c.secret.rules
	}
	some := c.reading
	if some.every() {
		some = Reading{}
	}
	for i := range Keys {
		k := keyCondition{Key: &Keys[i], want: Keys[i].Sources(c.said)}
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

// Of looks at an event. Of a batch it looks at the first call that decides.
func (cs *Conditions) Of(ev *grapnel.Event, v *grapnel.Verdict) (checks []Check, call int) {
	f := cs.m.Facts.Of(ev)
	if ev.Tool != nil || len(ev.Calls) == 0 {
		return cs.judge(f, v), 0
	}
	var first []Check
	for i, c := range f.calls() {
		checks := cs.judge(c, v)
		if AllHold(checks) != cs.m.allow {
			return checks, i
		}
		if i == 0 {
			first = checks
		}
	}
	return first, 0
}

// judge is that of the matcher, one condition after the other. It is nil for a call that
// is too large to be judged.
func (cs *Conditions) judge(f *Facts, v *grapnel.Verdict) []Check {
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
func (cs *Conditions) exceptions(f *Facts) []Check {
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
func (mc *matchConditions) checks(f *Facts) []Check {
	c := mc.c
	var checks []Check
	add := func(key string, want, got []string, ok bool) *Check {
		checks = append(checks, Check{Key: mc.name + "." + key, Want: want, Got: got, OK: ok})
		return &checks[len(checks)-1]
	}
	for i := range mc.keys {
		k := &mc.keys[i]
		var got []string
		if k.Form == FormSecret {
			got = f.secrets(c.secret.rules)
		} else {
			got = k.values(f)
		}
		check := add(k.Name, k.want, got, k.holds(k.one, f))
		for j, each := range k.each {
			if (check.OK || c.reading.every()) && k.holds(each, f) {
				check.Fits = append(check.Fits, j)
			}
		}
		if k.Name == "host" && len(c.url) > 0 {
			check.OK = check.OK && c.fitsURLs(f, nil) // both are about one address
		}
	}
	if c.items() && c.blind(f) {
		add("command", nil, f.commandTexts(), false)
	}
	if c.ended != nil {
		ok := hasEnded(f.Event) && f.Failed() == *c.ended
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
	Expression
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
	w := &whenCondition{Expression: Expression{Key: KeyWhen, Source: p.Source}, op: p.Op}
	for _, part := range p.Parts {
		w.parts = append(w.parts, whenConditionOf(part))
	}
	return w
}

// check runs each part by itself, also those that the whole would not come to.
func (w *whenCondition) check(f *Facts, v *grapnel.Verdict) Check {
	check := Check{Key: KeyWhen, Want: []string{w.Source}, Op: w.op}
	for _, part := range w.parts {
		check.Of = append(check.Of, part.check(f, v))
	}
	value, err := w.Run(f, v)
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

// AllHold reports whether all conditions hold.
func AllHold(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
}
