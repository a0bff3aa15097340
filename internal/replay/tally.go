package replay

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

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
	if len(asking) > 0 && e.Event == grapnel.ToolBefore && !slices.ContainsFunc(e.Unsupported, func(lost string) bool { return strings.Contains(lost, "ask") }) {
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

// window counts how much of a limit is used at most, by those whose events are counted
// together.
type window struct {
	limit *policyfile.Limit
	used  map[string][]time.Time
	most  int
}

// maxWindows is how many of these are known at once.
const maxWindows = 4096

func newWindow(l *policyfile.Limit) *window { return &window{limit: l, used: map[string][]time.Time{}} }

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
