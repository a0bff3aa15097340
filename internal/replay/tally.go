package replay

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// evidence counts the Records that support a suggestion.
type evidence struct {
	count       int
	first, last time.Time
	ids         []string
}

// maxIDs is the maximum number of Records named as evidence.
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

// A tally collects statistics of one hook.
type tally struct {
	hook    *Hook
	order   int
	runs    int
	chances evidence // events that it could have matched, as long as it never matched
	matched evidence
	effects evidence
	asked   evidence
	yes, no int             // questions after which the call ran, and after which it did not
	hasty   int             // questions after which the call ran too soon for a user's answer
	about   map[string]int  // the approved calls, by description
	lines   map[string]int  // their complete command lines, as the agent wrote them
	where   map[string]bool // the sessions of these calls
	modes   map[string]int  // the agent's permission modes at these calls
	failed  evidence
	open    evidence
	timeout int
	error   string
	times   Times
	tools   map[string]*toolTally
	shadow  map[*tally]bool // rules that always made the same or a stricter decision; nil = it never decided
	decided evidence
	hit     evidence
	used    *window // of its limit
}

// A toolTally is the statistics of a hook for one tool.
type toolTally struct {
	class   grapnel.Class
	runs    int
	effects int
	ms      float64
}

// Limits of the memory.
const (
	maxAbout   = 256 // of each: approved calls, their sessions and modes
	maxTools   = 64
	maxOpen    = 4096 // questions and commands without a known end
	maxRepeats = 4096
)

// An adviser collects the statistics of Records.
type adviser struct {
	opts    *SuggestOptions
	th      Thresholds
	advice  *Advice
	tallies []*tally
	byName  map[string][]*tally
	waiting []*tally        // rules that have not matched yet
	ends    map[string]bool // pairs of agent and tool for which the end of calls is reported
	asked   []question      // open questions
	fails   map[string]time.Time
	repeats map[string]*repeated
}

// A question is a tool call that a rule asked the user about.
type question struct {
	at      time.Time
	session string
	agent   string
	mode    string
	call    string
	tool    string
	input   string
	line    string // the command line, if it is the only one of the call and complete
	rules   []*tally
	about   string
}

// repeated is a command that failed and was tried again.
type repeated struct {
	evidence
	again int // number of retries that failed too
}

// find returns the tally of the hook of a recorded run, or nil.
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
			continue // a later Record has its result
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
	if len(asking) > 0 && e.Event == grapnel.ToolBefore && !slices.ContainsFunc(e.Unsupported, func(part string) bool { return strings.Contains(part, "ask") }) {
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
	effective := run.Decision > grapnel.None || run.Halt || len(run.Changed) > 0 || t.hook.Leaves && len(e.Context) > 0 // the context may come from this hook
	if effective {
		t.effects.add(e)
	}
	if t.used != nil && run.Round <= 1 {
		if effective && run.Error == "" {
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
	if effective {
		tool.effects++
	}
}

// shade records which rules decided together, to find rules that have no effect without the
// others.
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

// waits reports whether a rule is a user's rule with a condition. Rules of packs are left out,
// because they may be for rare events.
func (t *tally) waits() bool {
	h := t.hook
	return h.Policy != nil && (h.Match != nil || len(h.Tools) > 0)
}

// chance counts the events that a rule could have matched but did not. An event is not counted if
// it is older than the last change of the rule's file, if it is outside the rule's project, or if
// another rule blocked it before a program would have run.
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

// inside reports whether path is dir or below it.
func inside(dir, path string) bool {
	_, ok := files.Below(dir, path)
	return ok
}

// ask records an open question.
func (a *adviser) ask(s *scene, rules []*tally) {
	for _, t := range rules {
		t.asked.add(&s.entry)
	}
	if s.event == nil || s.event.Tool == nil {
		return // the end of the call cannot be identified
	}
	tool := s.event.Tool
	q := question{
		at: s.entry.Time, session: s.entry.Session, agent: s.entry.Agent, mode: s.event.Session.Mode, call: tool.ID, tool: s.entry.Tool,
		input: string(tool.Input), rules: rules, about: about(s.event),
	}
	if q.call == "" && s.reduced {
		return // the end of the call cannot be identified
	}
	if len(tool.Commands) == 1 && !s.reduced {
		q.line = tool.Commands[0]
	}
	if len(a.asked) >= maxOpen { // drop the oldest; their end is not known
		a.asked = slices.Delete(a.asked, 0, maxOpen/4)
	}
	a.asked = append(a.asked, q)
}

// end closes the questions that now have a result.
func (a *adviser) end(s *scene) {
	e := &s.entry
	ours := func(q *question) bool { return q.session == e.Session && q.agent == e.Agent }
	switch e.Event {
	case grapnel.ToolAfter, grapnel.ToolFailed:
		if len(a.ends) < maxOpen {
			a.ends[e.Agent+"\x00"+e.Tool] = true
		}
	case grapnel.PermissionDenied:
	case grapnel.PromptBefore, grapnel.SessionEnd: // the user wrote a prompt or left, so the call did not run
		a.asked = slices.DeleteFunc(a.asked, func(q question) bool {
			if ours(&q) && a.ends[q.agent+"\x00"+q.tool] { // otherwise the agent would not have reported the call
				q.closed(false, 0, &a.th)
			}
			return ours(&q)
		})
		return
	default:
		return
	}
	if s.event == nil || s.event.Tool == nil || s.event.Tool.ID == "" && s.reduced {
		a.asked = slices.DeleteFunc(a.asked, func(q question) bool { return ours(&q) && q.tool == e.Tool }) // it may be any of these calls
		return
	}
	for i := len(a.asked) - 1; i >= 0; i-- { // of several equal calls the latest one is meant
		if q := &a.asked[i]; ours(q) && q.tool == e.Tool && q.is(s.event.Tool) {
			q.closed(e.Event != grapnel.PermissionDenied, e.Time.Sub(q.at), &a.th)
			a.asked = slices.Delete(a.asked, i, i+1)
			return
		}
	}
}

// is reports whether a call is the call of the question.
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

// tick counts a text, unless there are too many.
func tick(counts map[string]int, text string) {
	if _, ok := counts[text]; text != "" && (ok || len(counts) < maxAbout) {
		counts[text]++
	}
}

// soon is the maximum time between a failure and a retry of the same command.
const soon = 10 * time.Minute

// repeat records commands that failed and that are retried in the same session.
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

// A window records the maximum use of a limit, over all groups of events that the limit counts
// together.
type window struct {
	limit *policyfile.Limit
	used  map[string][]time.Time
	most  int
}

// maxWindows is the maximum number of these groups.
const maxWindows = 4096

func newWindow(l *policyfile.Limit) *window { return &window{limit: l, used: map[string][]time.Time{}} }

// take counts an event that the limit allowed.
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
	at, _ := json.Marshal(key) // marshaling texts cannot fail
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
