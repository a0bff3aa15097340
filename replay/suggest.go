package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/spool"
)

// A Kind of suggestion says what was found.
type Kind string

// The kinds, in reading order.
const (
	FailsOpen      Kind = "fails-open"
	Fails          Kind = "fails"
	AlwaysApproved Kind = "always-approved"
	NeverApproved  Kind = "never-approved"
	Shadowed       Kind = "shadowed"
	NeverMatched   Kind = "never-matched"
	TooWide        Kind = "too-wide"
	Slow           Kind = "slow"
	LimitUnused    Kind = "limit-unused"
	LimitHit       Kind = "limit-hit"
	FailsAgain     Kind = "fails-again"
)

// Kinds lists every Kind.
var Kinds = []Kind{FailsOpen, Fails, AlwaysApproved, NeverApproved, Shadowed, NeverMatched, TooWide, Slow, LimitUnused, LimitHit, FailsAgain}

// A Hook is one of those in force, of which something may be suggested.
type Hook struct {
	grapnel.Spec
	Policy *policy.Hook // as its file has it; nil = its file does not hold it: it is of a pack, or of another system's file
	Leaves bool         // it is a program or a server
}

// Thresholds say how much is enough to speak of. Zero stands for the default.
type Thresholds struct {
	Asked    int           // questions of a rule: 5
	Answer   time.Duration // between a question and the end of the call, before somebody can have answered: 1s
	Matched  int           // times that a rule matched, before it counts as shadowed: 5
	Seen     int           // events at which a rule had its chance, or at which a hook had nothing to say: 100
	Days     int           // between the first and the last of those, before a rule counts as one that never matches: 21
	Failures int           // of a hook: 3
	Slow     time.Duration // that 5 % of the runs of a hook exceed: 1s
	Runs     int           // of a hook, before its times, limits and tools count: 20
	Repeats  int           // of a command that had just failed: 5
}

func (t *Thresholds) fill() {
	for _, n := range []struct {
		of *int
		or int
	}{{&t.Asked, 5}, {&t.Matched, 5}, {&t.Seen, 100}, {&t.Days, 21}, {&t.Failures, 3}, {&t.Runs, 20}, {&t.Repeats, 5}} {
		*n.of = cmp.Or(*n.of, n.or)
	}
	t.Slow, t.Answer = cmp.Or(t.Slow, time.Second), cmp.Or(t.Answer, time.Second)
}

// SuggestOptions are what [Suggest] works with.
type SuggestOptions struct {
	Hooks      []Hook               // in force, in the order in which they run
	Files      map[string][]byte    // what the files of the hooks hold, by name
	Changed    map[string]time.Time // and when that was changed last
	Policy     string               // the file that new rules belong into
	StandIn    string               // as in Options
	Wants      func(*spool.Entry) bool
	Thresholds Thresholds
	Progress   func(records int)
}

// Advice is what Records suggest.
type Advice struct {
	From        time.Time    `json:"from,omitzero"` // of the first and of the last Record
	To          time.Time    `json:"to,omitzero"`
	Records     int          `json:"records"`
	NoEvents    int          `json:"no_events"` // of which only metadata is known
	Suggestions []Suggestion `json:"suggestions"`
}

// A Suggestion is a change of a policy that Records speak for. It is no proof.
type Suggestion struct {
	Kind     Kind      `json:"kind"`
	Rule     *Rule     `json:"rule,omitempty"` // nil = a rule that there is not yet
	File     string    `json:"file,omitempty"`
	Title    string    `json:"title"`  // what was found
	Advice   string    `json:"advice"` // what to do about it, and what the Records cannot tell
	Count    int       `json:"count"`  // Records that speak for it
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Records  []string  `json:"records"`  // IDs of some
	Evidence []string  `json:"evidence"` // further facts
	Hunk     string    `json:"hunk,omitempty"`
}

// evidence is what speaks for something.
type evidence struct {
	count       int
	first, last time.Time
	ids         []string
}

// maxIDs is how many Records are named as evidence.
const maxIDs = 3

func (e *evidence) add(entry *spool.Entry) {
	e.count++
	if e.first.IsZero() {
		e.first = entry.Time
	}
	e.last = entry.Time
	if len(e.ids) < maxIDs {
		e.ids = append(e.ids, entry.ID)
	}
}

// tally is what was seen of one hook.
type tally struct {
	hook    *Hook
	order   int
	runs    int
	chances evidence // events at which it could have matched, while it never did
	matched evidence
	said    evidence
	asked   evidence
	yes, no int             // questions after which the call went on, and after which it did not
	hasty   int             // after which it went on before anybody could have answered
	about   map[string]int  // what was let through
	lines   map[string]int  // whole command lines of that, as the agent wrote them
	where   map[string]bool // sessions in which it was
	modes   map[string]int  // permission modes of the agent in which it was
	failed  evidence
	open    evidence
	timeout int
	error   string
	times   Times
	tools   map[string]*toolTally
	shadow  map[*tally]bool // that always decided as well; nil = it never decided
	decided evidence
	hit     evidence
	used    *window // of a limit
}

// toolTally is what a hook did at one tool.
type toolTally struct {
	class grapnel.Class
	runs  int
	said  int
	ms    float64
}

// Bounds of what is kept in memory.
const (
	maxAbout   = 256 // of each: what was let through, in which sessions and modes
	maxTools   = 64
	maxOpen    = 4096 // questions, and commands, of which the end is not known yet
	maxRepeats = 4096
)

// adviser looks at Records.
type adviser struct {
	opts    *SuggestOptions
	th      Thresholds
	advice  *Advice
	tallies []*tally
	byName  map[string][]*tally
	waiting []*tally        // of rules that have not matched yet
	ends    map[string]bool // agents that tell how calls of a tool end
	asked   []question      // that are open
	fails   map[string]time.Time
	repeats map[string]*repeated
}

// question is a call that a person was asked about.
type question struct {
	at      time.Time
	session string
	agent   string
	mode    string
	call    string
	tool    string
	input   string
	line    string // the command, where nothing else was run and it is known as it was
	rules   []*tally
	about   string
}

// repeated is a command that failed and was tried again.
type repeated struct {
	evidence
	again int // it failed again
}

// Suggest reads Records in the order of time, and says which rules they speak for. Memory
// does not grow with their number.
func Suggest(ctx context.Context, records iter.Seq2[Record, error], opts SuggestOptions) (*Advice, error) {
	a := &adviser{
		opts: &opts, th: opts.Thresholds, advice: &Advice{}, byName: map[string][]*tally{},
		ends: map[string]bool{}, fails: map[string]time.Time{}, repeats: map[string]*repeated{},
	}
	a.th.fill()
	for i := range opts.Hooks {
		t := &tally{hook: &opts.Hooks[i], order: i, about: map[string]int{}, lines: map[string]int{}, where: map[string]bool{}, modes: map[string]int{}, tools: map[string]*toolTally{}}
		if h := t.hook.Policy; h != nil && h.Limit != nil && h.Limit.Sum == "" {
			t.used = newWindow(h.Limit)
		}
		if t.waits() {
			a.waiting = append(a.waiting, t)
		}
		a.tallies = append(a.tallies, t)
		a.byName[t.hook.Name] = append(a.byName[t.hook.Name], t)
	}
	for batch := range decoded(records, opts.Wants, opts.Progress) {
		if ctx.Err() != nil {
			break
		}
		for i := range batch {
			a.look(&batch[i])
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.advice.Suggestions = a.suggestions()
	return a.advice, nil
}

// find is the hook that a Record speaks of.
func (a *adviser) find(run *grapnel.HookRun) *tally {
	for _, t := range a.byName[run.Name] {
		if standIn(a.opts.StandIn).same(t.hook.Source.Name, run.Source) {
			return t
		}
	}
	return nil
}

func (a *adviser) look(s *scene) {
	e := &s.entry
	if s.unwanted || e.ID == "" {
		return
	}
	if !s.beside {
		a.advice.Records++
		if a.advice.From.IsZero() {
			a.advice.From = e.Time
		}
		a.advice.To = e.Time
		if s.event == nil {
			a.advice.NoEvents++
		}
		a.end(s)
		a.repeat(s)
	}
	if s.beside && !e.Late {
		return
	}
	var asking []*tally
	var decided []*tally
	var decisions []grapnel.Decision
	for i := range e.Hooks {
		run := &e.Hooks[i]
		t := a.find(run)
		if t == nil || strings.HasPrefix(run.Source, "grapnel:") {
			continue
		}
		if !e.Late {
			t.matched.add(e)
		}
		if run.Async && !e.Late && run.Error == "" {
			continue // how it ended is told later
		}
		t.ran(s, run)
		if e.Late || !decides(run) {
			continue
		}
		if run.Decision > grapnel.None && run.Error == "" {
			decided, decisions = append(decided, t), append(decisions, run.Decision)
		}
		if run.Decision == grapnel.Ask && e.Decision == grapnel.Ask && run.Error == "" {
			asking = append(asking, t)
		}
	}
	if !s.beside {
		a.chance(s)
	}
	shade(e, decided, decisions)
	if len(asking) > 0 && e.Event == grapnel.ToolBefore && !slices.ContainsFunc(e.Lost, func(lost string) bool { return strings.Contains(lost, "ask") }) {
		a.ask(s, asking)
	}
}

// ran counts a run.
func (t *tally) ran(s *scene, run *grapnel.HookRun) {
	e := &s.entry
	if run.Error != "" {
		t.failed.add(e)
		t.error = run.Error
		if run.Cause == grapnel.CauseTimeout {
			t.timeout++
		}
	}
	if run.FailOpen {
		t.open.add(e)
	}
	t.runs++
	said := run.Decision > grapnel.None || run.Halt || len(run.Changed) > 0 || t.hook.Leaves && len(e.Context) > 0 // which may be its own
	if said {
		t.said.add(e)
	}
	if t.used != nil && run.Round <= 1 {
		if said && run.Error == "" {
			t.hit.add(e)
		} else if run.Error == "" {
			t.used.take(s)
		}
	}
	if e.Late {
		return
	}
	t.times.add(run.MS)
	tool := t.tools[e.Tool]
	if tool == nil {
		if e.Tool == "" || len(t.tools) >= maxTools {
			return
		}
		tool = &toolTally{}
		t.tools[e.Tool] = tool
	}
	tool.runs++
	tool.ms += run.MS
	if s.event != nil && s.event.Tool != nil {
		tool.class = s.event.Tool.Class
	}
	if said {
		tool.said++
	}
}

// shade notes which rules decided together: what a rule has to do without the others.
func shade(e *spool.Entry, decided []*tally, decisions []grapnel.Decision) {
	for i, t := range decided {
		t.decided.add(e)
		others := map[*tally]bool{}
		for j, o := range decided {
			if o != t && decisions[j] >= decisions[i] && (t.shadow == nil || t.shadow[o]) {
				others[o] = true
			}
		}
		t.shadow = others
	}
}

// waits reports whether a rule is one of the user's own that may match or not: those of a
// pack wait for what is rare.
func (t *tally) waits() bool {
	h := t.hook
	return h.Policy != nil && (h.Match != nil || len(h.Tools) > 0)
}

// chance notes which rules could have matched an event and did not. A rule had no chance
// before its file was as it is, outside of the project whose rule it is, and after others
// had blocked what a program would have been asked about.
func (a *adviser) chance(s *scene) {
	e := &s.entry
	a.waiting = slices.DeleteFunc(a.waiting, func(t *tally) bool { return t.matched.count > 0 })
	for _, t := range a.waiting {
		h := t.hook
		switch {
		case len(h.On) > 0 && !slices.Contains(h.On, e.Event):
		case e.Time.Before(a.opts.Changed[h.Source.File]):
		case h.Source.Scope >= grapnel.ScopeProject && (s.event == nil || !inside(filepath.Dir(h.Source.File), s.event.Session.CWD)):
		case h.Phase == grapnel.PhaseStep && e.Decision == grapnel.Block:
		default:
			t.chances.add(e)
		}
	}
}

// inside reports whether a path is a directory, or below it.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// ask opens a question.
func (a *adviser) ask(s *scene, rules []*tally) {
	for _, t := range rules {
		t.asked.add(&s.entry)
	}
	if s.event == nil || s.event.Tool == nil {
		return // nobody can tell which call's end is its own
	}
	tool := s.event.Tool
	q := question{
		at: s.entry.Time, session: s.entry.Session, agent: s.entry.Agent, mode: s.event.Session.Mode, call: tool.ID, tool: s.entry.Tool,
		input: string(tool.Input), rules: rules, about: about(s.event),
	}
	if q.call == "" && s.reduced {
		return // likewise
	}
	if len(tool.Commands) == 1 && !s.reduced {
		q.line = tool.Commands[0]
	}
	if len(a.asked) >= maxOpen { // of the oldest nobody knows
		a.asked = slices.Delete(a.asked, 0, maxOpen/4)
	}
	a.asked = append(a.asked, q)
}

// end closes the questions of which the end is known now.
func (a *adviser) end(s *scene) {
	e := &s.entry
	ours := func(q *question) bool { return q.session == e.Session && q.agent == e.Agent }
	switch e.Event {
	case grapnel.ToolAfter, grapnel.ToolFailed:
		if len(a.ends) < maxOpen {
			a.ends[e.Agent+"\x00"+e.Tool] = true
		}
	case grapnel.PermissionDenied:
	case grapnel.PromptBefore, grapnel.SessionEnd: // a person has spoken, or left, and the call did not go on
		a.asked = slices.DeleteFunc(a.asked, func(q question) bool {
			if ours(&q) && a.ends[q.agent+"\x00"+q.tool] { // else it would not have told that the call went on
				q.closed(false, 0, &a.th)
			}
			return ours(&q)
		})
		return
	default:
		return
	}
	if s.event == nil || s.event.Tool == nil || s.event.Tool.ID == "" && s.reduced {
		a.asked = slices.DeleteFunc(a.asked, func(q question) bool { return ours(&q) && q.tool == e.Tool }) // it may be any of these
		return
	}
	for i := len(a.asked) - 1; i >= 0; i-- { // of equal calls the youngest is meant
		if q := &a.asked[i]; ours(q) && q.tool == e.Tool && q.is(s.event.Tool) {
			q.closed(e.Event != grapnel.PermissionDenied, e.Time.Sub(q.at), &a.th)
			a.asked = slices.Delete(a.asked, i, i+1)
			return
		}
	}
}

// is reports whether a call is the one that was asked about.
func (q *question) is(tool *grapnel.Tool) bool {
	if q.call != "" && tool.ID != "" {
		return q.call == tool.ID
	}
	return q.input != "" && q.input == string(tool.Input)
}

func (q *question) closed(approved bool, after time.Duration, th *Thresholds) {
	for _, t := range q.rules {
		switch {
		case !approved:
			t.no++
			continue
		case after < th.Answer:
			t.hasty++
			continue
		}
		t.yes++
		tick(t.about, q.about)
		tick(t.lines, q.line)
		if tick(t.modes, q.mode); len(t.where) < maxAbout {
			t.where[q.agent+"\x00"+q.session] = true
		}
	}
}

// tick counts a text, if that is not one too many.
func tick(counts map[string]int, text string) {
	if _, ok := counts[text]; text != "" && (ok || len(counts) < maxAbout) {
		counts[text]++
	}
}

// soon is how long after a failure the same command counts as tried again.
const soon = 10 * time.Minute

// repeat notes commands that failed and come again in the same session.
func (a *adviser) repeat(s *scene) {
	if s.event == nil || s.event.Tool == nil || len(s.event.Tool.Commands) == 0 {
		return
	}
	e := &s.entry
	what := about(s.event)
	key := e.Agent + "\x00" + e.Session + "\x00" + what
	switch {
	case e.Event == grapnel.ToolFailed || e.Event == grapnel.ToolAfter && s.event.Tool.Failed:
		if r := a.repeats[what]; r != nil && a.fails[key+"\x00again"].After(e.Time.Add(-soon)) {
			r.again++
		}
		delete(a.fails, key+"\x00again")
		if len(a.fails) >= maxOpen {
			maps.DeleteFunc(a.fails, func(_ string, at time.Time) bool { return e.Time.Sub(at) > soon })
			if len(a.fails) >= maxOpen {
				clear(a.fails)
			}
		}
		a.fails[key] = e.Time
	case e.Event == grapnel.ToolBefore && e.Decision < grapnel.Block:
		at, failed := a.fails[key]
		if !failed || e.Time.Sub(at) > soon {
			return
		}
		delete(a.fails, key)
		r := a.repeats[what]
		if r == nil {
			if len(a.repeats) >= maxRepeats {
				return
			}
			r = &repeated{}
			a.repeats[what] = r
		}
		r.add(e)
		a.fails[key+"\x00again"] = e.Time
	case e.Event == grapnel.ToolAfter:
		delete(a.fails, key)
		delete(a.fails, key+"\x00again")
	}
}

// suggestions are what was found, the most pressing first.
func (a *adviser) suggestions() []Suggestion {
	list, opts := []Suggestion{}, a.opts
	for _, t := range a.tallies {
		for _, find := range []func(*tally) *Suggestion{a.failing, a.approved, a.shadowed, a.unmatched, a.wide, a.slow, a.limit} {
			s := find(t)
			if s == nil {
				continue
			}
			s.Rule, s.File = &Rule{t.hook.Name, t.hook.Source.Name, t.hook.Line}, t.hook.Source.File
			if at := opts.Changed[s.File]; at.After(s.First) {
				s.Evidence = append(s.Evidence, "its file was changed after the first of these Records, last at "+at.Local().Format("2006-01-02 15:04"))
			}
			list = append(list, *s)
		}
	}
	if s := a.again(); s != nil {
		list = append(list, *s)
	}
	for i := range list {
		if list[i].Records == nil {
			list[i].Records = []string{}
		}
		if list[i].Evidence == nil {
			list[i].Evidence = []string{}
		}
	}
	slices.SortStableFunc(list, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(b.Count, a.Count))
	})
	return list
}

// suggest begins a Suggestion.
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
		s := suggest(FailsOpen, &t.open, fmt.Sprintf("it failed %d times of %d, and %d times the action went on unguarded", t.failed.count, t.runs, t.open.count),
			"Mend the hook. If it is a guard, let a failure stop what it guards, with on_error: closed or ask. That of a hook that only informs may stay open; a Record does not tell which it is.", more...)
		s.Hunk = a.hunk(t.hook, func(e *edit) bool { return e.set("on_error", "closed") })
		return s
	}
	if t.failed.count*10 < t.runs {
		return nil // now and then
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

// shadowed looks at rules of the user's own: those of a pack wait for what is rare.
func (a *adviser) shadowed(t *tally) *Suggestion {
	if t.decided.count < a.th.Matched || t.hook.Policy == nil {
		return nil
	}
	var by []string
	sure := ""
	for o := range t.shadow {
		switch h := o.hook; {
		case h.Source.Scope > t.hook.Source.Scope, h.Leaves, h.Policy != nil && h.Policy.Limit != nil:
			continue // it is not in force wherever this one is, or does not say the same each time
		case h.Policy != nil && o.shadow[t] && o.order > t.order && o.decided.count == t.decided.count:
			continue // each shadows the other, and that one will be named
		}
		by = append(by, o.hook.Name)
		if o.hook.Policy != nil && o.hook.Source.File == t.hook.Source.File && policy.Covers(o.hook.Policy, t.hook.Policy) && (sure == "" || o.hook.Name < sure) {
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

// unmatched looks at rules that had their chance, and for long enough.
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

// guards reports whether a hook may keep something from happening, or from being seen.
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

// stops reports whether a hook at these events may keep something from happening.
func stops(on []grapnel.Kind) bool {
	return len(on) == 0 || slices.ContainsFunc(on, func(kind grapnel.Kind) bool {
		c := grapnel.ContractOf(kind)
		return c == nil || c.Blocks == grapnel.BlockAction
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

// top are the most frequent, with how often each was.
func top(counts map[string]int) []string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var list []string
	for _, name := range names[:min(len(names), 5)] {
		list = append(list, fmt.Sprintf("%d times %s", counts[name], name))
	}
	return list
}

// window counts how much of a limit is used at most, by those whose events are counted
// together.
type window struct {
	limit *policy.Limit
	used  map[string][]time.Time
	most  int
}

// maxWindows is how many of these are known at once.
const maxWindows = 4096

func newWindow(l *policy.Limit) *window { return &window{limit: l, used: map[string][]time.Time{}} }

// take counts an event that was let through.
func (w *window) take(s *scene) {
	e := &s.entry
	var key []string
	for _, by := range w.limit.By {
		switch by {
		case "session":
			key = append(key, e.Session)
		case "tool":
			key = append(key, e.Tool)
		case "agent":
			key = append(key, e.Agent)
		case "user":
			if s.event != nil {
				key = append(key, s.event.Session.User)
			}
		}
	}
	at, _ := json.Marshal(key) // texts
	since := e.Time.Add(-time.Duration(w.limit.Per))
	times := slices.DeleteFunc(w.used[string(at)], func(t time.Time) bool { return !t.After(since) })
	if times = append(times, e.Time); len(times) > w.limit.Count+1 {
		times = times[1:]
	}
	if _, known := w.used[string(at)]; !known && len(w.used) >= maxWindows {
		maps.DeleteFunc(w.used, func(_ string, times []time.Time) bool { return !times[len(times)-1].After(since) })
		if len(w.used) >= maxWindows {
			clear(w.used)
		}
	}
	w.used[string(at)] = times
	w.most = max(w.most, len(times))
}

// simple is a command line that reads the same in YAML, in an expression and in a shell.
var simple = regexp.MustCompile(`^[A-Za-z0-9_./=:@+-]+( [A-Za-z0-9_./=:@+-]+)*$`)
