package explain

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// explainer builds the explanation of a firing.
type explainer struct {
	x      *Explanation
	engine *grapnel.Engine
	specs  []grapnel.Spec // of the engine
	trial  *trial
	rec    *grapnel.Record
	plan   grapnel.Plan
	top    grapnel.Decision // the strongest decision that counts, before limits of the agent's dialect
}

// spec returns the hook of a run; nil = the engine does not have it.
func (t *explainer) spec(name, source string, phase grapnel.Phase) *grapnel.Spec {
	for i := range t.specs {
		if s := &t.specs[i]; s.Name == name && s.Source.Name == source && s.Phase == phase {
			return s
		}
	}
	return nil
}

// hooks adds all hooks that ran, and hooks of the plan that did not.
func (t *explainer) hooks() {
	for i := range t.rec.Hooks {
		t.top = max(t.top, t.counts(&t.rec.Hooks[i]))
	}
	planned := func(run *grapnel.HookRun) *grapnel.Planned {
		for i := range t.plan.Entries {
			if p := &t.plan.Entries[i]; p.Hook == run.Name && p.Source == run.Source && p.Phase == run.Phase {
				return p
			}
		}
		return nil
	}
	seen := map[*grapnel.Planned]bool{}
	for i := range t.rec.Hooks {
		run := &t.rec.Hooks[i]
		p := planned(run)
		seen[p] = true
		t.x.Hooks = append(t.x.Hooks, t.asked(run, p))
	}
	for i := range t.plan.Entries {
		p := &t.plan.Entries[i]
		s := t.spec(p.Hook, p.Source, p.Phase)
		if seen[p] || s != nil && marks(s) { // a Record has a Marker only if it failed
			continue
		}
		h := hookPart{
			Phase: p.Phase, Hook: p.Hook, Source: p.Source, File: p.File, Line: p.Line, Part: partNotAsked,
			Reason: t.whyNotAsked(), matched: t.x.mask(p.Matched),
		}
		if s != nil {
			h.Why = t.checks(load.NewReasoner(s).Why(t.x.sent, nil))
		}
		t.x.Hooks = append(t.x.Hooks, h)
	}
}

// marks reports whether a hook only stores facts for later events.
func marks(s *grapnel.Spec) bool {
	_, marker := s.Hook.(seam.Marker[grapnel.Event, grapnel.Verdict])
	return marker
}

// counts returns the decision of a run, as far as it counts. Ending the turn is treated as a
// block of an action that is about to happen.
func (t *explainer) counts(run *grapnel.HookRun) grapnel.Decision {
	switch {
	case run.Observed || run.Async || run.Expired:
		return grapnel.None
	case run.Halt && blocksAction(t.x.sent):
		return grapnel.Block
	}
	return run.Decision
}

func blocksAction(ev *grapnel.Event) bool {
	return ev.Contract().Blocks == grapnel.BlockingAction
}

// whyNotAsked returns why a hook of the plan was not run.
func (t *explainer) whyNotAsked() string {
	if who := t.who(func(run *grapnel.HookRun) bool {
		return t.counts(run) == grapnel.Block
	}); who != "" {
		return who + " already blocked"
	}
	return "a change to the event means that it no longer matches"
}

// who returns the names of the hooks of some runs, each once.
func (t *explainer) who(of func(*grapnel.HookRun) bool) string {
	var names []string
	for i := range t.rec.Hooks {
		if run := &t.rec.Hooks[i]; of(run) && !slices.Contains(names, run.Name) {
			names = append(names, run.Name)
		}
	}
	return shortList(names, "and")
}

// listed joins words as in a sentence: a, b and c.
func listed(words []string, and string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " " + and + " " + words[n-1]
	}
	return strings.Join(words, "")
}

// asked returns the part of a hook that ran.
func (t *explainer) asked(run *grapnel.HookRun, p *grapnel.Planned) hookPart {
	h := hookPart{
		Step: run.Step, Round: run.Round, Phase: run.Phase, Hook: run.Name, Source: run.Source, Line: run.Line,
		Decision: run.Decision, Cause: run.Cause, Error: t.x.mask(run.Error), MS: run.MS, saw: run.Saw, run: *run,
	}
	saw := run.Saw
	if saw == nil {
		saw = t.rec.Verdict.Event
	}
	s := t.spec(run.Name, run.Source, run.Phase)
	if s != nil {
		h.File = s.Source.File
		v := t.rec.Verdict
		if !run.Async {
			v = nil
		}
		h.Why = t.checks(load.NewReasoner(s).Why(saw, v))
		if !run.Async || t.trial.run {
			h.Wrote = t.wrote(s)
		}
	}
	if p != nil && (run.Saw == nil || len(run.Saw.Changed(t.x.sent)) == 0) {
		h.matched = t.x.mask(p.Matched)
	} else if s != nil {
		h.matched = t.matched(s, saw)
	}
	if run.Saw != nil {
		for _, f := range run.Saw.Changed(t.x.sent) {
			if h.Saw == nil {
				h.Saw = map[grapnel.Field]json.RawMessage{}
			}
			raw, _ := run.Saw.Get(f)
			h.Saw[f] = t.x.maskJSON(raw)
		}
	}
	if run.Outcome != nil {
		h.Outcome = t.maskedOutcome(run.Outcome)
	}
	if run.Async {
		if end, ok := t.trial.ended[s.FullName()]; ok {
			h.MS = float64(end.took.Microseconds()) / 1000
			if end.err != nil {
				h.Cause, h.Error = grapnel.CauseError, t.x.mask(end.err.Error())
			}
		}
	}
	h.Part, h.Reason = t.part(run)
	return h
}

// wrote returns the masked output of a program.
func (t *explainer) wrote(s *grapnel.Spec) *wrote {
	out := t.trial.output(s.Name, filepath.Dir(s.Source.File))
	if out != nil {
		out.Stdout, out.Stderr = t.x.mask(out.Stdout), t.x.mask(out.Stderr)
	}
	return out
}

// matched returns the text of the Plan about the match of a hook, for a later version of the event.
func (t *explainer) matched(s *grapnel.Spec, saw *grapnel.Event) string {
	for _, p := range t.engine.Plan(saw).Entries {
		if p.Hook == s.Name && p.Source == s.Source.Name && p.Phase == s.Phase {
			return t.x.mask(p.Matched)
		}
	}
	return ""
}

// part returns the role of a run in the verdict, and the reason.
func (t *explainer) part(run *grapnel.HookRun) (part, string) {
	top := t.top
	switch {
	case run.Async:
		return partLater, "it runs after the reply"
	case run.Observed && (run.Decision > grapnel.None || run.Halt || len(run.Changed) > 0):
		return partObserves, "it is in observe mode"
	case run.Expired:
		return partExpired, run.Expiry
	case run.Approved > grapnel.None:
		return partApproved, fmt.Sprintf("grant %s lets this call pass", t.rec.Approval)
	case run.FailOpen && run.Decision == grapnel.None:
		return partFailed, "it failed, which is treated as no opinion"
	case run.Decision > grapnel.None && run.Decision < top:
		return partOutvoted, fmt.Sprintf("the %s of %s is stricter", top, t.deciders())
	case run.Decision > grapnel.None:
		if run.Cause != grapnel.CauseDecision && run.Error != "" {
			return partDecides, fmt.Sprintf("it failed, which is treated as %s", run.Decision)
		}
		return partDecides, ""
	case run.Error != "":
		return partFailed, "it failed, which is treated as no opinion"
	case run.Superseded:
		return partNone, "another hook of its step changed the event, so its change is ignored and it runs again"
	case run.Outcome != nil:
		return partAdds, ""
	default:
		return partNone, ""
	}
}

// deciders returns the names of the hooks with the strongest decision.
func (t *explainer) deciders() string {
	return t.who(func(run *grapnel.HookRun) bool { return t.top > grapnel.None && t.counts(run) == t.top })
}

// maskJSON masks the secrets in a JSON value, also by the names of its members.
func (x *Explanation) maskJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if hidden := json.RawMessage(x.mask(string(raw))); json.Valid(hidden) {
		return hidden
	}
	return json.RawMessage(`"***"`)
}

// maskedOutcome returns the outcome of a hook with its secrets masked.
func (t *explainer) maskedOutcome(out *grapnel.Outcome) *grapnel.Outcome {
	mask := t.x.mask
	shown := *out
	shown.Reason, shown.Message, shown.Halt = mask(out.Reason), mask(out.Message), mask(out.Halt)
	shown.Context = nil
	for _, text := range out.Context {
		shown.Context = append(shown.Context, mask(text))
	}
	values := func(of map[grapnel.Field]json.RawMessage) map[grapnel.Field]json.RawMessage {
		var now map[grapnel.Field]json.RawMessage
		for f, raw := range of {
			if now == nil {
				now = map[grapnel.Field]json.RawMessage{}
			}
			now[f] = t.x.maskJSON(raw)
		}
		return now
	}
	shown.Set, shown.Patch = values(out.Set), values(out.Patch)
	return &shown
}

// checks returns the conditions of a hook, with the secrets of the event masked.
func (t *explainer) checks(r load.Reasoning) []match.Check { return maskChecks(r.Checks, t.x.mask) }

func maskChecks(checks []match.Check, mask func(string) string) []match.Check {
	checks = slices.Clone(checks)
	for i := range checks {
		c := &checks[i]
		c.Got = slices.Clone(c.Got)
		for j, got := range c.Got {
			c.Got[j] = mask(got)
		}
		c.Of = maskChecks(c.Of, mask)
	}
	return checks
}

// merge describes how the outcomes were merged, if there was more than one decision.
func (t *explainer) merge() {
	x, v := t.x, t.rec.Verdict
	add := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !slices.Contains(x.Merge, line) {
			x.Merge = append(x.Merge, line)
		}
	}
	deciders := t.deciders()
	for i := range x.Hooks {
		switch h := &x.Hooks[i]; h.Part {
		case partOutvoted:
			add("%s of %s outvotes %s of %s", t.top, deciders, h.Decision, h.Hook)
		case partExpired:
			add("the allow of %s is ignored: %s", h.Hook, h.Reason)
		case partApproved:
			add("the %s of %s has no effect: %s", h.run.Approved, h.Hook, h.Reason)
		case partObserves:
			if h.Decision > grapnel.None {
				add("%s is in observe mode: it would %s", h.Hook, h.Decision)
			}
		case partFailed:
			add("%s failed, which is treated as no opinion", h.Hook)
		case partNone, partDecides, partAdds, partNotAsked, partLater:
		}
	}
	if who := t.who(func(run *grapnel.HookRun) bool { return run.Halt && !run.Observed && !run.Async }); who != "" {
		add("%s ends the turn", who)
	}
	for _, conflict := range t.rec.Conflicts {
		add("two hooks of one step changed %s: the later one in the plan wins", conflict)
	}
	t.replaced(add)
	if v.Decision == grapnel.Block && len(v.Changes) == 0 {
		if who := t.who(func(run *grapnel.HookRun) bool { return len(run.Changed) > 0 && !run.Observed }); who != "" {
			add("changes by %s are dropped because the event is blocked", who)
		}
	}
	if t.top > v.Decision && v.Halt == "" || v.Decision > t.top && t.top > grapnel.None {
		add("%s is downgraded to %s: see unsupported", t.top, v.Decision)
	}
}

// replaced reports changes that a later hook has overwritten.
func (t *explainer) replaced(add func(string, ...any)) {
	last := map[grapnel.Field]*hookPart{}
	for i := range t.x.Hooks {
		h := &t.x.Hooks[i]
		if h.run.Observed || h.run.Async || h.Outcome == nil {
			continue
		}
		for _, f := range h.run.Changed {
			if _, whole := h.run.Outcome.Set[f]; !whole {
				continue
			}
			if was := last[f]; was != nil && was.Hook != h.Hook && was.Step != h.Step {
				add("a later hook, %[3]s, changed %[1]s of %[2]s again", f, was.Hook, h.Hook)
			}
			last[f] = h
		}
	}
}

// unmatched is a hook that does not match the event.
type unmatched struct {
	Hook    string        `json:"hook"`
	Source  string        `json:"source"`
	File    string        `json:"file,omitempty"`
	Line    int           `json:"line,omitempty"`
	Near    bool          `json:"near,omitempty"` // only one condition did not match
	Because string        `json:"because"`
	Why     []match.Check `json:"why,omitempty"` // the conditions of the hook

	rank int // how near the hook is to a match; 0 is nearest
}

// maxNear is how many hooks that nearly match are shown without --all.
const maxNear = 5

// others adds the hooks that do not match.
func (t *explainer) others(all bool) {
	ev, x := t.x.sent, t.x
	var list []unmatched
	for _, s := range t.specs {
		if why := state.NotYet(&s, ev); why != "" {
			x.NotYet = append(x.NotYet, notYet{s.Name, s.Source.Name, s.Source.File, s.Line, why})
		}
		if marks(&s) || slices.ContainsFunc(x.Hooks, func(h hookPart) bool {
			return h.Hook == s.Name && h.Source == s.Source.Name
		}) {
			continue
		}
		why := load.NewReasoner(&s).Why(ev, nil)
		if !why.Event && !all {
			continue
		}
		why.Checks = t.checks(why)
		o := unmatched{
			Hook: s.Name, Source: s.Source.Name, File: s.Source.File, Line: s.Line, Because: x.mask(whyNot(&s, ev, &why)), Why: why.Checks,
		}
		o.rank, o.Near = nearness(&s, &why)
		if notice.Own(&s) && !all && o.rank > 0 {
			continue // no file contains this hook
		}
		list = append(list, o)
	}
	slices.SortStableFunc(list, func(a, b unmatched) int { return a.rank - b.rank })
	waits := func(o unmatched) bool {
		return slices.ContainsFunc(x.NotYet, func(n notYet) bool { return n.Hook == o.Hook && n.Source == o.Source })
	}
	for _, o := range list {
		if all || o.Near && len(x.Others) < maxNear && !waits(o) {
			x.Others = append(x.Others, o)
		} else if !waits(o) {
			x.more++
		}
	}
}

// nearness returns how near a hook is to a match, 0 is nearest, and whether it is near: only one
// condition does not match, and the event has a value for it. A condition of a pack, other than
// for commands, is not near only because the event has another value.
func nearness(s *grapnel.Spec, why *load.Reasoning) (rank int, near bool) {
	failed := 0
	var miss match.Check
	for _, c := range why.Checks {
		if !c.OK {
			failed, miss = failed+1, c
		}
	}
	switch {
	case !why.Event:
		return 9, false
	case failed != 1:
		return 8, false
	case strings.HasPrefix(miss.Key, "except["), miss.Key == "match.not", strings.HasPrefix(miss.Key, "after["):
		return 0, true
	case miss.Key == "match.command" && len(miss.Got) > 0:
		far := leastMissingWords(miss.Want, miss.Got)
		return 1 + min(far, 5), far <= 1
	default:
		return 3, len(miss.Got) > 0 && !strings.Contains(s.Source.Name, "#")
	}
}

// leastMissingWords returns the smallest missingWords of several patterns.
func leastMissingWords(patterns, commands []string) int {
	least := unrelated
	for _, p := range patterns {
		least = min(least, missingWords(p, commands))
	}
	return least
}

const unrelated = 100

// missingWords returns how many words of a pattern are missing in the nearest of some commands. A
// command with another program or subcommand is unrelated.
func missingWords(pattern string, commands []string) int {
	words := strings.Fields(pattern)
	least := unrelated
	for _, c := range commands {
		there := strings.Fields(c)
		lacks, names := 0, 0 // words other than flags
		for i, w := range words {
			has := slices.Contains(there, w)
			switch {
			case !has && i == 0:
				lacks = unrelated
			case !has:
				lacks++
			case !strings.HasPrefix(w, "-"):
				names++
			}
			if !has && !strings.HasPrefix(w, "-") && names < 2 {
				lacks = unrelated
			}
		}
		least = min(least, lacks)
	}
	return least
}

// whyNot returns in one line why a hook does not match.
func whyNot(s *grapnel.Spec, ev *grapnel.Event, why *load.Reasoning) string {
	switch {
	case !why.Event:
		return "it listens to " + kinds(s.On)
	case why.Err != nil:
		return "cannot check whether it matches: " + why.Err.Error()
	}
	if text := state.NotYet(s, ev); text != "" {
		return text
	}
	var missing []string
	for i := range why.Checks {
		if c := &why.Checks[i]; !c.OK {
			missing = append(missing, missed(c))
		}
	}
	switch {
	case len(missing) > 0:
		return strings.Join(missing, "; ")
	case why.Text != "":
		return why.Text
	default:
		return "its matcher excludes the event"
	}
}

// kinds lists kinds of events.
func kinds(on []grapnel.Kind) string {
	var names []string
	for _, k := range on {
		names = append(names, string(k))
	}
	return listed(names, "and")
}

// missed describes in a few words the wanted and the actual value of a condition.
func missed(c *match.Check) string {
	key := strings.TrimPrefix(c.Key, "match.")
	switch {
	case strings.HasPrefix(key, "except["), key == "not", strings.HasSuffix(key, ".not"):
		word, _, _ := strings.Cut(key, "[")
		if inside := fitting(c.Of); inside != "" {
			return "its " + word + " excludes the event: " + inside
		}
		return "its " + word + " excludes the event"
	case c.Key == "when":
		return whenMissed(c)
	case strings.HasPrefix(key, "after["):
		return "not after " + strings.Join(c.Want, ", ")
	case len(c.Want) == 0:
		return key + " is not enough: the call also runs a shell command"
	case key == "shell" && len(c.Got) == 0:
		return "shell: no part of it is unknown"
	case len(c.Got) == 0:
		return fmt.Sprintf("%s: the event has none, want %s", key, wanted(c.Want))
	case len(c.Fits) > 0:
		return fmt.Sprintf("%s: not all of %s is %s", key, shortList(c.Got, "and"), wanted(c.Want))
	case key == "text" || key == "content" || key == "prompt":
		return fmt.Sprintf("%s: no match for %s", key, wanted(c.Want))
	case key == "tool" && len(c.Got) == 2:
		return fmt.Sprintf("tool: %s (%s) is not %s", c.Got[1], c.Got[0], wanted(c.Want))
	case key == "command":
		want := slices.Clone(c.Want)
		slices.SortStableFunc(want, func(a, b string) int { return missingWords(a, c.Got) - missingWords(b, c.Got) })
		return fmt.Sprintf("%s: %s is not %s", key, shortList(c.Got, "or"), wanted(want))
	}
	return fmt.Sprintf("%s: %s is not %s", key, shortList(c.Got, "or"), wanted(c.Want))
}

// fitting returns the conditions that match.
func fitting(of []match.Check) string {
	var words []string
	for i := range of {
		if c := &of[i]; c.OK && len(c.Want) > 0 {
			key := c.Key[strings.LastIndex(c.Key, ".")+1:]
			want := c.Want
			if len(c.Fits) > 0 {
				want = nil
				for _, i := range c.Fits {
					want = append(want, c.Want[i])
				}
			}
			words = append(words, key+" "+wanted(want))
		}
	}
	return strings.Join(words, ", ")
}

// whenMissed returns the parts of an expression that are false.
func whenMissed(c *match.Check) string {
	var missing []string
	var walk func(c *match.Check)
	walk = func(c *match.Check) {
		if len(c.Of) == 0 {
			line := "when " + strings.Join(c.Want, " ")
			if len(c.Got) > 0 {
				line += ": " + shortList(c.Got, "and")
			}
			missing = append(missing, line)
			return
		}
		found := len(missing)
		for i := range c.Of {
			if !c.Of[i].OK {
				walk(&c.Of[i])
			}
		}
		if len(missing) == found {
			missing = append(missing, "when "+strings.Join(c.Want, " ")+" is false")
		}
	}
	walk(c)
	return strings.Join(missing, ", ")
}

// wanted lists the values of a condition.
func wanted(words []string) string { return shortList(words, "or") }

// shortList lists the first few words, each shortened.
func shortList(words []string, and string) string {
	const most = 3
	var list []string
	for i, w := range words {
		if i == most && len(words) > most+1 {
			list = append(list, fmt.Sprintf("%d more", len(words)-most))
			break
		}
		list = append(list, cut(strings.Join(strings.Fields(w), " "), 60))
	}
	return listed(list, and)
}

// cut shortens a text to a number of characters.
func cut(text string, letters int) string {
	if utf8.RuneCountInString(text) <= letters {
		return text
	}
	return string([]rune(text)[:letters-1]) + "…"
}

// eventWords describes an event, one line per value.
func eventWords(ev *grapnel.Event, mask func(string) string) (lines []string) {
	add := func(what, text string) {
		if text != "" {
			lines = append(lines, what+": "+cut(strings.TrimSpace(mask(text)), 400)) // mask before cutting, because half a key does not look like a secret
		}
	}
	if t := ev.Tool; t != nil {
		for _, line := range t.Commands {
			add("command", line)
		}
		for _, p := range t.Paths {
			add("path", p.Path)
		}
		for _, u := range t.URLs {
			add("url", u)
		}
		add("content", t.Content)
		if len(lines) == 0 {
			add("input", string(t.Input))
		}
		add("output", string(t.Output))
	}
	if ev.Prompt != nil {
		add("prompt", ev.Prompt.Text)
	}
	if ev.Message != nil {
		add("message", ev.Message.Content)
	}
	add("cause", ev.Cause)
	return lines
}
