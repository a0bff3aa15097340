// Package mutate performs mutation testing of hooks: it changes one part of a hook at a time. If no
// test fails after a change, the tests do not cover that part.
package mutate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/expr"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Mutant is a hook with one change, which its tests should detect.
type Mutant struct {
	Hook *policyfile.Hook // the changed hook; nil = the hook is removed

	// At is the changed part, as in a [match.Check], with an index for list items:
	// match.command[2], limit.count. on.tool.before is an event; empty = the whole hook.
	At   string
	What string // description of the change: "the exception is dropped"

	// More reports that the changed hook does more than before, for example without an exception.
	// Otherwise it does less.
	More bool

	// Same explains why no event can distinguish the mutant from the hook; empty = an event may.
	Same string
}

// All returns the mutants of a hook: one for each word, key, event and number that can be changed.
// Mutants share unchanged data with the hook.
func All(h *policyfile.Hook) []Mutant {
	m := &mutator{hook: h, all: []Mutant{{What: "the hook is taken away"}}}
	if h.Decide == "block" {
		m.asks("block", func(h *policyfile.Hook) { h.Decide = "ask" })
	}
	for i, kind := range h.On {
		if len(h.On) > 1 {
			m.edit("on."+string(kind), false, fmt.Sprintf("it does not listen to %s", kind), func(h *policyfile.Hook) { h.On = dropped(h.On, i) }).Same = match.NeverMatches(h, kind)
		}
	}
	as := match.Reading{Allow: h.Decide == "allow"}
	if h.Match != nil {
		m.match("match", true, as, h.Match, func(h *policyfile.Hook, match *policyfile.Match) { h.Match = match })
	}
	m.exceptions("", h.Except, true, as, func(h *policyfile.Hook, except []policyfile.Match) { h.Except = except })
	m.when("when", h.When, true, func(h *policyfile.Hook, source string) { h.When = source })
	m.after()
	if h.Limit != nil {
		m.limit()
	}
	m.changes()
	return m.all
}

// mutator collects the mutants of a hook.
type mutator struct {
	hook *policyfile.Hook
	all  []Mutant
}

// edit adds a mutant: a shallow copy of the hook, modified by change. change may replace referenced
// data, but must not modify it.
func (m *mutator) edit(at string, more bool, what string, change func(*policyfile.Hook)) *Mutant {
	h := *m.hook
	change(&h)
	m.all = append(m.all, Mutant{Hook: &h, At: at, What: what, More: more})
	return &m.all[len(m.all)-1]
}

// asks adds a mutant that asks instead of blocking, if all events permit asking.
func (m *mutator) asks(at string, change func(*policyfile.Hook)) {
	if !slices.ContainsFunc(m.hook.On, cannotAsk) {
		m.edit(at, false, "it asks instead of blocking", change)
	}
}

// cannotAsk reports whether an event has no action that can wait for an answer.
func cannotAsk(kind grapnel.Kind) bool {
	c, known := dialect.ContractOf(kind)
	return !known || c.Blocks != grapnel.BlockingAction
}

// match adds the mutants of a match. more is true if the hook does more when the match matches more
// events. put sets a hook's match, or removes it for nil.
func (m *mutator) match(at string, more bool, as match.Reading, of *policyfile.Match, put func(*policyfile.Hook, *policyfile.Match)) {
	keys := match.KeysOf(of)
	edit := func(key string, more bool, what string, change func(*policyfile.Match)) *Mutant {
		one := *of
		change(&one)
		return m.edit(at+"."+key, more, what, func(h *policyfile.Hook) { put(h, &one) })
	}
	for _, k := range keys {
		words := k.Sources(of)
		for i := range words {
			if len(words) > 1 {
				edit(fmt.Sprintf("%s[%d]", k.Name, i), !more, fmt.Sprintf("%q is dropped", words[i]), func(one *policyfile.Match) { dropWord(k, one, i) }).Same = k.Covered(words, i, as)
			}
		}
	}
	size := len(keys)
	for _, more := range []bool{of.Failed != nil, of.Not != nil} {
		if more {
			size++
		}
	}
	if size > 1 { // a single key: the caller drops the whole match
		for _, k := range keys {
			edit(k.Name, more, fmt.Sprintf("%q is dropped", k.Name), func(one *policyfile.Match) { dropWord(k, one, -1) })
		}
		if of.Failed != nil {
			edit("failed", more, `"failed" is dropped`, func(one *policyfile.Match) { one.Failed = nil })
		}
		if of.Not != nil {
			edit("not", more, `"not" is dropped`, func(one *policyfile.Match) { one.Not = nil })
		}
	} else if at == "match" {
		m.edit(at, more, "the match is dropped", func(h *policyfile.Hook) { put(h, nil) })
	}
	if of.Not != nil {
		m.match(at+".not", !more, as.Not(), of.Not, func(h *policyfile.Hook, not *policyfile.Match) {
			one := *of
			one.Not = not
			put(h, &one)
		})
	}
}

// dropWord removes the word at i from the key, or all words if i is negative.
func dropWord(k *match.Key, m *policyfile.Match, i int) {
	if k.Words != nil {
		words := k.Words(m)
		*words = dropped(*words, i)
	} else {
		texts := k.Texts(m)
		*texts = dropped(*texts, i)
	}
}

// dropped returns a copy of list without the item at i, or nil if i is negative.
func dropped[T any](list []T, i int) []T {
	if i < 0 {
		return nil
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

func (m *mutator) exceptions(at string, except []policyfile.Match, more bool, as match.Reading, put func(*policyfile.Hook, []policyfile.Match)) {
	for i := range except {
		at := at + "except[" + strconv.Itoa(i) + "]"
		m.edit(at, more, "the exception is dropped", func(h *policyfile.Hook) { put(h, dropped(except, i)) })
		m.match(at, !more, as.Not(), &except[i], func(h *policyfile.Hook, match *policyfile.Match) {
			all := slices.Clone(except)
			all[i] = *match
			put(h, all)
		})
	}
}

// when drops the whole `when:` condition, and each operand of it.
func (m *mutator) when(at, source string, more bool, put func(*policyfile.Hook, string)) {
	if source == "" {
		return
	}
	m.edit(at, more, "the condition is dropped", func(h *policyfile.Hook) { put(h, "") })
	whole, err := expr.Parts(source)
	if err != nil {
		return
	}
	var each func(expr.Part, bool)
	each = func(p expr.Part, more bool) {
		if p.Op == "not" {
			more = !more
		}
		for _, part := range p.Parts {
			if value := map[string]string{"and": "true", "or": "false"}[p.Op]; value != "" {
				changed := source[:part.At] + value + source[part.At+len(part.Source):]
				m.edit(at, more == (p.Op == "and"), fmt.Sprintf("%q is dropped", part.Source), func(h *policyfile.Hook) { put(h, changed) })
			}
			each(part, more)
		}
	}
	each(whole, more)
}

func (m *mutator) after() {
	steps := m.hook.After
	if steps == nil {
		return
	}
	m.edit("after", true, "the after condition is dropped", func(h *policyfile.Hook) { h.After = nil })
	for i := range steps {
		s := &steps[i]
		at := "after[" + strconv.Itoa(i) + "]"
		change := func(h *policyfile.Hook, change func(*policyfile.After)) {
			one := *s
			change(&one)
			h.After = slices.Clone(h.After)
			h.After[i] = one
		}
		edit := func(key string, more bool, what string, of func(*policyfile.After)) {
			m.edit(at+key, more, what, func(h *policyfile.Hook) { change(h, of) })
		}
		if len(steps) > 1 {
			m.edit(at, true, "the step is dropped", func(h *policyfile.Hook) { h.After = dropped(steps, i) })
		}
		if s.Times < policyfile.MaxTimes {
			edit(".times", false, fmt.Sprintf("it has to happen %d times", max(1, s.Times)+1), func(a *policyfile.After) { a.Times = max(1, a.Times) + 1 })
		}
		if s.Within > 0 {
			edit(".within", true, "however long ago it may be", func(a *policyfile.After) { a.Within = 0 })
			edit(".within", false, fmt.Sprintf("it has to be within %v", s.Within/2), func(a *policyfile.After) { a.Within /= 2 })
		}
		if s.Same != "" {
			edit(".same", true, "it need not be the same "+s.Same, func(a *policyfile.After) { a.Same = "" })
		}
		m.happening(at+".", true, &s.Happening, func(h *policyfile.Hook, one *policyfile.Happening) {
			change(h, func(a *policyfile.After) { a.Happening = *one })
		})
		if s.Until != nil {
			edit(".until", true, "nothing ends it", func(a *policyfile.After) { a.Until = nil })
			m.happening(at+".until.", false, s.Until, func(h *policyfile.Hook, one *policyfile.Happening) {
				change(h, func(a *policyfile.After) { a.Until = one })
			})
		}
	}
}

func (m *mutator) happening(at string, more bool, of *policyfile.Happening, put func(*policyfile.Hook, *policyfile.Happening)) {
	set := func(h *policyfile.Hook, change func(*policyfile.Happening)) {
		one := *of
		change(&one)
		put(h, &one)
	}
	for i, kind := range of.Event {
		if len(of.Event) > 1 {
			m.edit(at+"event."+string(kind), !more, fmt.Sprintf("%s does not count", kind), func(h *policyfile.Hook) {
				set(h, func(one *policyfile.Happening) { one.Event = dropped(one.Event, i) })
			})
		}
	}
	if of.Match != nil {
		m.match(at+"match", more, match.Reading{}, of.Match, func(h *policyfile.Hook, match *policyfile.Match) {
			set(h, func(one *policyfile.Happening) { one.Match = match })
		})
	}
	m.exceptions(at, of.Except, more, match.Reading{}, func(h *policyfile.Hook, except []policyfile.Match) {
		set(h, func(one *policyfile.Happening) { one.Except = except })
	})
	m.when(at+"when", of.When, more, func(h *policyfile.Hook, source string) { set(h, func(one *policyfile.Happening) { one.When = source }) })
}

func (m *mutator) limit() {
	edit := func(key string, more bool, what string, change func(*policyfile.Limit)) {
		m.edit("limit."+key, more, what, func(h *policyfile.Hook) {
			l := *h.Limit
			change(&l)
			h.Limit = &l
		})
	}
	l := m.hook.Limit
	if l.Sum == "" {
		edit("count", false, fmt.Sprintf("it lets %d through", l.Count+1), func(l *policyfile.Limit) { l.Count++ })
	} else {
		edit("max", false, fmt.Sprintf("it lets %s through", policyfile.FormatNumber(2*l.Max)), func(l *policyfile.Limit) { l.Max *= 2 })
	}
	edit("per", true, fmt.Sprintf("it counts for %v", 2*l.Per), func(l *policyfile.Limit) { l.Per *= 2 })
	edit("per", false, fmt.Sprintf("it counts for %v", l.Per/2), func(l *policyfile.Limit) { l.Per /= 2 })
	for i, by := range l.By {
		edit(fmt.Sprintf("by[%d]", i), true, fmt.Sprintf("it does not count by %s", by), func(l *policyfile.Limit) { l.By = dropped(l.By, i) })
	}
	if l.Then == "" || l.Then == "block" {
		m.asks("limit.then", func(h *policyfile.Hook) {
			l := *h.Limit
			l.Then = "ask"
			h.Limit = &l
		})
	}
}

// changes adds a mutant without the item for each item of `replace:`, `mask:`, fields and `set:`, if
// the list has several items.
func (m *mutator) changes() {
	h := m.hook
	for i := range h.Replace {
		if len(h.Replace) > 1 {
			m.edit(fmt.Sprintf("replace[%d]", i), false, fmt.Sprintf("%q is not replaced", h.Replace[i].Pattern), func(h *policyfile.Hook) { h.Replace = dropped(h.Replace, i) })
		}
	}
	for i, id := range h.Mask {
		if len(h.Mask) > 1 {
			m.edit(fmt.Sprintf("mask[%d]", i), false, fmt.Sprintf("%q is not masked", id), func(h *policyfile.Hook) { h.Mask = dropped(h.Mask, i) })
		}
	}
	for i, field := range h.Fields {
		if len(h.Fields) > 1 {
			m.edit(fmt.Sprintf("fields[%d]", i), false, fmt.Sprintf("%s is not changed", field), func(h *policyfile.Hook) { h.Fields = dropped(h.Fields, i) })
		}
	}
	if len(h.Set)+len(h.Places) < 2 {
		return
	}
	for _, field := range slices.Sorted(maps.Keys(h.Set)) {
		m.edit("set."+string(field), false, fmt.Sprintf("%s is not set", field), func(h *policyfile.Hook) {
			h.Set = maps.Clone(h.Set)
			delete(h.Set, field)
		})
	}
	for i, p := range h.Places {
		m.edit("set."+string(p.Field), false, fmt.Sprintf("%s is not set", &p), func(h *policyfile.Hook) { h.Places = dropped(h.Places, i) })
	}
}
