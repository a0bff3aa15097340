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
	"github.com/grapnel-dev/grapnel/internal/policy/match"
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
		s := suggest(FailsOpen, &t.open, fmt.Sprintf("it failed in %d of %d runs, and %d times the action continued unguarded", t.failed.count, t.runs, t.open.count),
			"Fix the hook. If it is a guard, set on_error: closed or ask, so that a failure stops the action. A hook that only informs can stay open; the records do not show which kind of hook it is.", more...)
		s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.set("on_error", "closed") })
		return s
	}
	if t.failed.count*10 < t.runs {
		return nil // rare failures need no suggestion
	}
	return suggest(Fails, &t.failed, fmt.Sprintf("it failed in %d of %d runs", t.failed.count, t.runs), "See its errors with: grapnel log --hook "+t.hook.Name, more...)
}

func (a *adviser) approved(t *tally) *Suggestion {
	known := t.yes + t.no
	if known < a.th.Asked || t.hook.Observe {
		return nil
	}
	more := top(t.about)
	if n := len(t.where); t.no == 0 && n == 1 {
		more = append(more, "all in one session")
	} else if t.no == 0 {
		more = append(more, fmt.Sprintf("in %d sessions", n))
	}
	for _, mode := range top(t.modes) {
		more = append(more, "permission mode of the agent at that time: "+mode)
	}
	if t.hasty > 0 {
		more = append(more, fmt.Sprintf("%d more calls continued within %v, too fast for an answer of the user; they are not counted", t.hasty, a.th.Answer))
	}
	if open := t.asked.count - known - t.hasty; open > 0 {
		more = append(more, fmt.Sprintf("the result of %d more questions is unknown", open))
	}
	switch {
	case t.no == 0:
		s := suggest(AlwaysApproved, &t.asked, fmt.Sprintf("it asked %d times, and all calls with a known result continued (%d)", t.asked.count, t.yes),
			"Users stop reading a question if the answer is always yes. The agent's own settings may also have answered: check them first.", more...)
		if s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.unless(t.lines, a.th.Asked) }); s.Hunk != "" {
			s.Advice += " The change exempts exactly these command lines, in every directory."
		} else {
			s.Advice += " If these calls are harmless, narrow its match. The records do not show which other calls would match."
		}
		return s
	case t.yes == 0 && t.hasty == 0:
		s := suggest(NeverApproved, &t.asked, fmt.Sprintf("it asked %d times, and no call with a known result continued (%d)", t.asked.count, t.no),
			"Block these calls and name an alternative in the reason, so that no user has to answer. In the records, a call that the user allowed and then interrupted looks the same.", more...)
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
	s := suggest(Shadowed, &t.decided, fmt.Sprintf("each of the %d times that it decided, %s made the same or a stricter decision", t.decided.count, strings.Join(by, " and ")),
		"It may not be needed. The records show only events that happened: compare the match keys of both before you remove it.")
	if sure != "" {
		s.Advice = fmt.Sprintf("%s matches all events that it matches: it is not needed, unless you need its reason.", sure)
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
		"Its pattern is wrong or it is not needed: test it with grapnel explain.")
	if t.guards() {
		s.Advice += " A guard against rare actions is worth keeping; the records do not show whether it is one."
	} else {
		s.Hunk = a.hunk(t.hook, (*edit).without)
	}
	return s
}

// guards reports whether a hook can prevent an action or hide data.
func (t *tally) guards() bool {
	h := t.hook.Policy
	return t.hook.Phase != grapnel.PhaseObserve && !t.hook.Observe && h.Decide != "allow" && (h.Context == nil || h.OnError != "")
}

func (a *adviser) wide(t *tally) *Suggestion {
	h := t.hook
	if !h.Leaves || h.Phase == grapnel.PhaseObserve || h.Policy == nil || h.Policy.Match != nil && len(h.Policy.Match.Tool) > 0 || len(h.Tools) > 0 || t.runs < a.th.Runs || t.effects.count < 3 {
		return nil
	}
	var only string
	silent, ms := 0, 0.0
	for name, tool := range t.tools {
		if tool.effects == 0 {
			silent += tool.runs
			ms += tool.ms
			continue
		}
		if only != "" {
			return nil
		}
		only = name
	}
	if only == "" || silent < a.th.Seen || t.tools[only].effects != t.effects.count {
		return nil
	}
	word := cmp.Or(string(t.tools[only].class), only)
	if word == string(grapnel.ClassOther) || word == string(grapnel.ClassMCP) {
		word = only
	}
	s := suggest(TooWide, &t.effects, fmt.Sprintf("it ran %d times and had an effect only for the tool %s; %d runs for other tools took %s", t.runs, only, silent, took(ms)),
		"Run it only for this tool if it is not meant for others. A guard that found nothing looks the same, and records do not contain its messages to the user.")
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
			"Narrow its match, make it faster, or keep it running with worker.", more)
		if p := t.hook.Policy; t.effects.count == 0 && p != nil && p.Run != nil && !p.Run.Worker && !stops(p.On) {
			s.Advice = "It never decided or changed anything, and its events cannot be blocked: the agent does not have to wait for it."
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
		return !ok || c.Blocks == grapnel.BlockingAction
	})
}

func (a *adviser) limit(t *tally) *Suggestion {
	if t.used == nil || t.runs < a.th.Runs {
		return nil
	}
	l := t.hook.Policy.Limit
	switch {
	case t.hit.count*2 >= t.runs:
		return suggest(LimitHit, &t.hit, fmt.Sprintf("%d of %d calls exceeded it: %v", t.hit.count, t.runs, l),
			"It stops more calls than it allows. Raise it, or block these calls. Each retry of an agent is counted.")
	case t.hit.count == 0 && t.used.most*4 <= l.Count && l.Count > 1:
		count := max(2*t.used.most, 1)
		s := suggest(LimitUnused, &t.matched, fmt.Sprintf("at most %d were used of %v", t.used.most, l),
			fmt.Sprintf("A limit far above normal use stops a runaway agent late. Twice the highest use is %d; you know better than the records how much a busy week needs.", count))
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
	s := suggest(FailsAgain, &total, fmt.Sprintf("commands that had just failed ran again %d times, and most failed again", total.count),
		"Ask the agent to think after the second failure. The cause may have been fixed in between; records do not show that.", top(counts)...)
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
