package replay

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
)

// suggest returns a new Suggestion.
func suggest(kind Kind, e *evidence, title, advice string, more ...string) *Suggestion {
	return &Suggestion{Kind: kind, Title: title, Advice: advice, Count: e.count, First: e.first, Last: e.last, Records: e.ids, Evidence: more}
}

func (a *adviser) failing(t *tally) *Suggestion {
	if t.failed.count < a.th.Failures {
		return nil
	}
	more := []string{"the last error: " + short(t.error)}
	if t.timeout > 0 {
		more = append(more, fmt.Sprintf("%d of them took longer than the timeout", t.timeout))
	}
	if t.open.count >= a.th.Failures {
		s := suggest(FailsOpen, &t.open, fmt.Sprintf("it failed %d times of %d, and %d times the action continued unguarded", t.failed.count, t.runs, t.open.count),
			"Mend the hook. If it is a guard, let a failure stop what it guards, with on_error: closed or ask. That of a hook that only informs may stay open; a Record does not tell which it is.", more...)
		s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.set("on_error", "closed") })
		return s
	}
	if t.failed.count*10 < t.runs {
		return nil // rare failures need no suggestion
	}
	return suggest(Fails, &t.failed, fmt.Sprintf("it failed %d times of %d", t.failed.count, t.runs), "See what it says with: grapnel log --hook "+t.hook.Name, more...)
}

func (a *adviser) approved(t *tally) *Suggestion {
	known := t.yes + t.no
	if known < a.th.Asked || t.hook.Mode == grapnel.Observe {
		return nil
	}
	more := top(t.about)
	if n := len(t.where); t.no == 0 && n == 1 {
		more = append(more, "all of that in one session")
	} else if t.no == 0 {
		more = append(more, fmt.Sprintf("in %d sessions", n))
	}
	for _, mode := range top(t.modes) {
		more = append(more, "the agent's permission mode then: "+mode)
	}
	if t.hasty > 0 {
		more = append(more, fmt.Sprintf("%d more went on within %v, which is no answer of a person's and does not count", t.hasty, a.th.Answer))
	}
	if open := t.asked.count - known - t.hasty; open > 0 {
		more = append(more, fmt.Sprintf("of %d more questions nobody knows the end", open))
	}
	switch {
	case t.no == 0:
		s := suggest(AlwaysApproved, &t.asked, fmt.Sprintf("it asked %d times, and the call went on each time its end is known (%d)", t.asked.count, t.yes),
			"A question to which the answer is always yes is soon answered unread. That a call went on may also mean that the agent's own settings answered: look at them first.", more...)
		if s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.unless(t.lines, a.th.Asked) }); s.Hunk != "" {
			s.Advice += " The change leaves out these command lines, word for word and in every directory, and no others."
		} else {
			s.Advice += " If what it asks about is harmless, narrow its match; what would fit and did not happen, the Records do not show."
		}
		return s
	case t.yes == 0 && t.hasty == 0:
		s := suggest(NeverApproved, &t.asked, fmt.Sprintf("it asked %d times, and no call went on where its end is known (%d)", t.asked.count, t.no),
			"Block instead, and say what to do otherwise: then nobody has to be asked. A call that a person let through and then interrupted looks the same.", more...)
		s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.rename("ask", "block") })
		return s
	}
	return nil
}

// shadowed checks for rules of the user that never decided without another rule. It ignores rules
// of packs, which may be for rare events.
func (a *adviser) shadowed(t *tally) *Suggestion {
	if t.decided.count < a.th.Matched || t.hook.Policy == nil {
		return nil
	}
	var by []string
	sure := ""
	for o := range t.shadow {
		switch h := o.hook; {
		case h.Source.Scope > t.hook.Source.Scope, h.Leaves, h.Policy != nil && h.Policy.Limit != nil:
			continue // it is not always enabled together with this rule, or its answer varies
		case h.Policy != nil && o.shadow[t] && o.order > t.order && o.decided.count == t.decided.count:
			continue // each shadows the other; only the other one is suggested
		}
		by = append(by, o.hook.Name)
		if o.hook.Policy != nil && o.hook.Source.File == t.hook.Source.File && match.Covers(o.hook.Policy, t.hook.Policy) && (sure == "" || o.hook.Name < sure) {
			sure = o.hook.Name
		}
	}
	if len(by) == 0 {
		return nil
	}
	slices.Sort(by)
	s := suggest(Shadowed, &t.decided, fmt.Sprintf("each of the %d times that it decided, %s decided the same or more", t.decided.count, strings.Join(by, " and ")),
		"It may not be needed. Of what never happened the Records say nothing: compare what both match before you take it away.")
	if sure != "" {
		s.Advice = fmt.Sprintf("Whatever it matches, %s matches as well: it is not needed, unless its reason is.", sure)
		s.Hunk = a.hunk(t.hook, (*edit).without)
	}
	return s
}

// unmatched checks for rules that never matched although they had enough events over enough days.
func (a *adviser) unmatched(t *tally) *Suggestion {
	c := &t.chances
	days := int(c.last.Sub(c.first) / (24 * time.Hour))
	if t.matched.count > 0 || c.count < a.th.Seen || days < a.th.Days {
		return nil
	}
	s := suggest(NeverMatched, c, fmt.Sprintf("it matched none of %d events in %d days", c.count, days),
		"Either its pattern is wrong, or it is not needed: try it with grapnel explain.")
	if t.guards() {
		s.Advice += " A guard against what is rare is worth keeping, and of that the Records say nothing."
	} else {
		s.Hunk = a.hunk(t.hook, (*edit).without)
	}
	return s
}

// guards reports whether a hook can prevent an action or hide data.
func (t *tally) guards() bool {
	h := t.hook.Policy
	return t.hook.Phase != grapnel.PhaseObserve && t.hook.Mode != grapnel.Observe && h.Decide != "allow" && (h.Context == nil || h.OnError != "")
}

func (a *adviser) wide(t *tally) *Suggestion {
	h := t.hook
	if !h.Leaves || h.Phase == grapnel.PhaseObserve || h.Policy == nil || h.Policy.Match != nil && len(h.Policy.Match.Tool) > 0 || len(h.Tools) > 0 || t.runs < a.th.Runs || t.said.count < 3 {
		return nil
	}
	var only string
	silent, ms := 0, 0.0
	for name, tool := range t.tools {
		if tool.said == 0 {
			silent += tool.runs
			ms += tool.ms
			continue
		}
		if only != "" {
			return nil
		}
		only = name
	}
	if only == "" || silent < a.th.Seen || t.tools[only].said != t.said.count {
		return nil
	}
	word := cmp.Or(string(t.tools[only].class), only)
	if word == string(grapnel.ClassOther) || word == string(grapnel.ClassMCP) {
		word = only
	}
	s := suggest(TooWide, &t.said, fmt.Sprintf("it ran %d times, and only ever said something at the tool %s; %d runs at other tools took %s", t.runs, only, silent, took(ms)),
		"Let it run there only, if the others are none of its business: a guard that had no reason to speak looks the same. A message that it gave the person is in no Record.")
	s.Hunk = a.hunk(h, func(e *edit) bool { return e.match("tool", word) })
	return s
}

func took(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond).String()
}

func (a *adviser) slow(t *tally) *Suggestion {
	if p95 := t.times.share(0.95); t.times.n >= a.th.Runs && p95 >= float64(a.th.Slow/time.Millisecond) {
		more := fmt.Sprintf("half of its %d runs took %s or less, the longest %s", t.times.n, took(t.times.share(0.5)), took(t.times.most))
		s := suggest(Slow, &t.matched, fmt.Sprintf("5 %% of its runs take %s or more, and the agent waits for them", took(p95)),
			"Narrow its match, make it quicker, or keep it running with worker.", more)
		if p := t.hook.Policy; t.said.count == 0 && p != nil && p.Run != nil && !p.Run.Worker && !stops(p.On) {
			s.Advice = "It never decided or changed anything, and nothing that it is asked about can be stopped: nobody has to wait for it."
			s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.set("async", "true") })
		}
		return s
	}
	return nil
}

// stops reports whether a hook at these events can prevent an action.
func stops(on []grapnel.Kind) bool {
	return len(on) == 0 || slices.ContainsFunc(on, func(kind grapnel.Kind) bool {
		c, ok := grapnel.ContractOf(kind)
		return !ok || c.Blocks == grapnel.BlockAction
	})
}

func (a *adviser) limit(t *tally) *Suggestion {
	if t.used == nil || t.runs < a.th.Runs {
		return nil
	}
	l := t.hook.Policy.Limit
	switch {
	case t.hit.count*2 >= t.runs:
		return suggest(LimitHit, &t.hit, fmt.Sprintf("%d of %d calls were beyond it: %v", t.hit.count, t.runs, l),
			"It stops more than it lets through. Raise it, or block what it is about. An agent that tries again and again is counted each time.")
	case t.hit.count == 0 && t.used.most*4 <= l.Count && l.Count > 1:
		count := max(2*t.used.most, 1)
		s := suggest(LimitUnused, &t.matched, fmt.Sprintf("no more than %d were ever used of %v", t.used.most, l),
			fmt.Sprintf("A limit that nothing comes near stops a runaway late. Twice what was needed is %d; what a busy week needs, you know better than the Records.", count))
		s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.number("count", count) })
		return s
	}
	return nil
}

func (a *adviser) again() *Suggestion {
	total := evidence{}
	counts := map[string]int{}
	for what, r := range a.repeats {
		if r.count < a.th.Repeats || r.again*2 < r.count {
			continue
		}
		if total.first.IsZero() || r.first.Before(total.first) {
			total.first = r.first
		}
		if r.last.After(total.last) {
			total.last = r.last
		}
		total.count += r.count
		counts[fmt.Sprintf("%s: failed again %d times", what, r.again)] = r.count
		total.ids = append(total.ids, r.ids...)
	}
	if total.count == 0 {
		return nil
	}
	slices.Sort(total.ids)
	total.ids = total.ids[:min(len(total.ids), maxIDs)]
	s := suggest(FailsAgain, &total, fmt.Sprintf("commands that had just failed were run again %d times, and most failed again", total.count),
		"Ask the agent to think after the second failure. Something may have been mended in between, which Records do not show.", top(counts)...)
	s.File = a.opts.Policy
	s.Hunk = a.appended(a.opts.Policy, `  - name: think-before-trying-again
    on: tool.before
    match: {tool: shell}
    after: {event: tool.failed, same: call, times: 2, within: 10m}
    block: This failed twice already. Say what is wrong, change something, and only then try again.
`)
	return s
}

// top returns the most frequent texts with their counts.
func top(counts map[string]int) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var list []string
	for _, name := range names[:min(len(names), 5)] {
		list = append(list, fmt.Sprintf("%d times %s", counts[name], name))
	}
	return list
}

// simple matches a command line that needs no quotes in YAML, in an expression and in a shell.
var simple = regexp.MustCompile(`^[A-Za-z0-9_./=:@+-]+( [A-Za-z0-9_./=:@+-]+)*$`)
