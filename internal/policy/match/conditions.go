package match

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/expr"
)

// A Check is one condition of a hook, and its result for an event.
type Check struct {
	Key  string   `json:"key"`            // path of the key in the file: match.command, match.not.path, except[0], except[0].tool, when, after[1]
	Want []string `json:"want,omitempty"` // words of the key in the file
	Got  []string `json:"got,omitempty"`  // values of the event, complete and not masked
	Fits []int    `json:"fits,omitempty"` // indexes into Want of the words that match a value of the event

	// OK reports whether the condition is met. A `not` or an `except` is met if it does not exclude
	// the event.
	OK bool `json:"ok"`

	// Of lists the nested conditions: of a `not`, of an `except`, or the operands in a `when`,
	// which Op joins (and, or, not). A nested condition is OK if it matches the event.
	Op string  `json:"op,omitempty"`
	Of []Check `json:"of,omitempty"`
}

// Conditions holds the conditions of a Matcher.
type Conditions struct {
	m      *Matcher
	match  *matchConditions
	except []*matchConditions
	when   *whenCondition
}

// Empty reports whether every event matches because the hook has no conditions.
func (cs *Conditions) Empty() bool { return cs.m == nil }

// Describe returns a short description of the conditions, such as "tool bash" and "except (path
// **/tmp/**)".
func (cs *Conditions) Describe() []string {
	var parts []string
	if cs.match != nil {
		parts = Describe(cs.match.c.source)
	}
	for _, e := range cs.except {
		parts = append(parts, "except ("+strings.Join(Describe(e.c.source), ", ")+")")
	}
	if cs.when != nil {
		parts = append(parts, "when "+cs.m.when.Source)
	}
	return parts
}

// matchConditions holds the conditions of one match.
type matchConditions struct {
	c    *compiled
	name string // match, match.not, except[1]
	keys []keyCondition
	not  *matchConditions
}

// keyCondition is one key of a match, compiled so that it can be evaluated separately.
type keyCondition struct {
	*Key
	want []string
	one  *compiled
	each []*compiled // one match per word, to evaluate the word separately
}

// ConditionsOf compiles each condition of a Matcher so that it can be evaluated separately.
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
	late := &FactCache{first: cache} // these matches are compiled after the policy was loaded
	if c.secret != nil {
		late.Secrets = c.secret.rules
	}
	some := c.reading
	if some.every() {
		some = Reading{}
	}
	for i := range Keys {
		k := keyCondition{Key: &Keys[i], want: Keys[i].Sources(c.source)}
		if len(k.want) == 0 {
			continue
		}
		k.one, _ = late.compile(k.only(c.source, -1), c.reading) // cannot fail: it was compiled before, together with the other keys
		for j := range k.want {
			each, _ := late.compile(k.only(c.source, j), some)
			k.each = append(k.each, each)
		}
		mc.keys = append(mc.keys, k)
	}
	mc.not = cache.conditions(c.not, name+".not")
	return mc
}

// Of evaluates the conditions for an event. For a batch of calls, it returns the checks and the
// index of the first call that decides the result.
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

// judge evaluates all conditions like Matcher.judge, but does not stop at the first one that fails.
// It returns nil for a call that is too large to evaluate.
func (cs *Conditions) judge(f *Facts, v *grapnel.Verdict) []Check {
	if cs.m.server {
		_, f, _ = cs.m.judgeNames(f, v)
	}
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

// exceptions evaluates each `except`.
func (cs *Conditions) exceptions(f *Facts) []Check {
	m := cs.m
	var checks []Check
	var single []*compiled // exceptions for single commands, paths or addresses
	var at []int           // their indexes
	for i, e := range m.except {
		check := Check{Key: cs.except[i].name, OK: true, Of: cs.except[i].checks(f)}
		switch {
		case !e.whole(f):
		case !e.items():
			check.OK = false
		case m.excepts(e):
			single, at = append(single, e), append(at, i)
		default:
			check.OK = !e.fits(f, nil)
		}
		checks = append(checks, check)
	}
	if len(single) == 0 || !m.match.fits(f, nil) || m.match.fits(f, single) {
		return checks
	}
	// Together these exceptions exclude every match. Report each exception that excludes all
	// matches alone, while the others do not. If no exception does, report all of them.
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

// pathKeys are the keys for paths, in the order of [compiled.paths].
var pathKeys = []string{"path", "reads", "writes"}

// checks evaluates each key of a match.
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
		check.OK = c.together(k.Key, f, check.OK)
	}
	if c.items() && c.blind(f) {
		add("command", nil, f.commandTexts(), false)
	}
	if c.ended != nil {
		ok := hasEnded(f.Event) && f.Failed() == *c.ended
		add("failed", []string{strconv.FormatBool(*c.ended)}, f.ending(), ok)
	}
	if c.not != nil {
		ok := !c.not.whole(f) || c.not.items() && !c.not.fits(f, nil)
		if c.excludesCommands() {
			ok = c.fits(f, nil)
		}
		check := add("not", nil, nil, ok)
		check.Of = mc.not.checks(f)
	}
	return checks
}

// together reports whether a key of a match holds, together with the keys that must match the same
// command, path or address. alone is the result of the key alone.
func (c *compiled) together(k *Key, f *Facts, alone bool) bool {
	switch {
	case k.Form == FormBranch && c.branchOfFiles():
		return c.fits(f, nil)
	case !alone:
		return false
	case k.Name == "host" && len(c.url) > 0:
		return c.fitsURLs(f, nil) // `url` and `host` must match the same address
	case k.Name == "command" && c.linked():
		return c.fitsCommandURLs(f, nil) // the address must be one of the command
	case (k.Form == FormBranch || k.Form == FormLoss || k.Form == FormDrop) && len(c.Command) > 0 && !c.namesCommand(f):
		return true // the key `command` says why there is no match
	case k.Form == FormLoss || k.Form == FormDrop:
		return c.fitsCommands(f, nil) // the same command must delete or drop it
	case k.Form == FormBranch && (len(c.Command) > 0 || len(c.branch) > 0 && len(c.pushes) > 0):
		return c.fitsCommands(f, nil) // likewise the checkout and the push
	case (len(c.Command) > 0 || c.git()) && slices.Contains(pathKeys, k.Name):
		return c.fitsPaths(f, slices.Index(pathKeys, k.Name), nil) // likewise the path
	}
	return true
}

// whenCondition is a `when:` expression, or one of the operands that it joins.
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

// check evaluates each operand separately, including those that short-circuit evaluation would
// skip.
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
			if name >= len(whenNames) { // an object; its members have their own names
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

// AllHold reports whether all checks are OK.
func AllHold(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
}
