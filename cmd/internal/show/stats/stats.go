// Package stats counts Records.
package stats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A Summary is the output of "grapnel stats --json".
type Summary struct {
	Totals
	Agents   []Agent     `json:"agents"`           // by agent and event, most firings first
	Commands []Frequency `json:"blocked_commands"` // most frequent first
	Reasons  []Frequency `json:"blocked_reasons"`  // of hooks that decided, most frequent first

	// WouldSessions is the number of sessions with an event that a hook in observe mode would have
	// decided more strictly.
	WouldSessions int         `json:"would_sessions"`
	WouldCommands []Frequency `json:"would_commands"` // by hook, most frequent first
}

// Totals are the counts of all Records, and of each hook.
type Totals struct {
	Since      time.Time                `json:"since,omitzero"`
	Last       time.Time                `json:"last,omitzero"` // time of the newest firing
	Firings    int                      `json:"firings"`
	Decisions  map[grapnel.Decision]int `json:"decisions"`
	Would      map[grapnel.Decision]int `json:"would"`           // firings that hooks in observe mode would have decided more strictly
	Errors     int                      `json:"errors"`          // firings whose event could not be read, or whose observing hooks could not be started
	FailOpen   int                      `json:"fail_open"`       // firings in which a hook failed and the action continued
	Unreadable int                      `json:"unreadable"`      // unreadable lines
	Again      int                      `json:"again,omitempty"` // second replies to a firing; only the Record of the first is stored
	Hooks      []Hook                   `json:"hooks"`           // slowest first, by P95
	Days       []Day                    `json:"-"`               // oldest first, in the time zone of Since
}

// A Hook has the counts of one hook. Times are in milliseconds.
type Hook struct {
	Name      string                   `json:"name"`
	Source    string                   `json:"source"`
	Runs      int                      `json:"runs"`
	Decisions map[grapnel.Decision]int `json:"decisions"`
	Would     map[grapnel.Decision]int `json:"would"`  // decisions in observe mode, which were not applied
	Errors    int                      `json:"errors"` // including timeouts
	Timeouts  int                      `json:"timeouts"`
	FailOpen  int                      `json:"fail_open"`
	LastError string                   `json:"last_error,omitempty"`
	P50       float64                  `json:"p50_ms"`
	P95       float64                  `json:"p95_ms"`
	Max       float64                  `json:"max_ms"`

	times durations
}

// An Agent has the counts of one kind of event of one agent. Times are in milliseconds and cover
// the whole reply.
type Agent struct {
	Agent     string                   `json:"agent"`
	Event     grapnel.Kind             `json:"event"`
	Firings   int                      `json:"firings"`
	Decisions map[grapnel.Decision]int `json:"decisions"`
	Would     int                      `json:"would"` // firings that hooks in observe mode would have blocked or asked about
	Errors    int                      `json:"errors"`
	FailOpen  int                      `json:"fail_open"`
	P50       float64                  `json:"p50_ms"`
	P95       float64                  `json:"p95_ms"`
	Max       float64                  `json:"max_ms"`

	times durations
}

// Frequency is how often a text occurred.
type Frequency struct {
	Times int    `json:"times"`
	Hook  string `json:"hook,omitempty"`
	Text  string `json:"text"`
}

const (
	maxTop     = 10     // number of texts in a Summary
	maxTopText = 200    // bytes of a text
	maxTexts   = 20_000 // number of different texts that are counted
	maxStored  = 500    // number of texts in a stored Counter
)

// A Counter counts Records. It can be stored as JSON and added to another Counter later.
type Counter struct {
	totals   Totals // without Hooks and Days
	quarters Quarters
	hooks    map[hookKey]*Hook
	agents   map[agentKey]*Agent
	commands map[Frequency]int
	reasons  map[Frequency]int
	would    map[Frequency]int // commands that hooks in observe mode would have stopped
	sessions map[string]bool   // of these commands
}

type hookKey struct{ name, source string }

type agentKey struct {
	agent string
	event grapnel.Kind
}

// NewCounter returns an empty Counter for Records since a time; zero means all Records.
func NewCounter(since time.Time) *Counter {
	return &Counter{
		totals:   Totals{Since: since, Decisions: map[grapnel.Decision]int{}, Would: map[grapnel.Decision]int{}},
		quarters: Quarters{}, hooks: map[hookKey]*Hook{}, agents: map[agentKey]*Agent{}, commands: map[Frequency]int{}, reasons: map[Frequency]int{},
		would: map[Frequency]int{}, sessions: map[string]bool{},
	}
}

// Unreadable counts an unreadable line.
func (c *Counter) Unreadable() { c.totals.Unreadable++ }

// Again counts replies to firings that have a Record already.
func (c *Counter) Again(n int) { c.totals.Again += n }

// Add counts an Entry, except for a heartbeat. It calls load if it needs the event of the Entry, which load must set.
func (c *Counter) Add(e *spool.Entry, load func() error) {
	if e.Event == spool.Alive {
		return
	}
	failed, open := e.Error != "", false
	for i := range e.Hooks {
		run := &e.Hooks[i]
		failed = failed || run.Error != ""
		open = open || run.FailOpen
		if !run.Async || e.Late || run.Error != "" { // otherwise it was only queued
			c.hook(hookKey{run.Name, run.Source}).add(run)
		}
	}
	if e.Error != "" {
		c.totals.Errors++
	}
	if open {
		c.totals.FailOpen++
	}
	if e.Late {
		return
	}
	c.totals.Firings++
	c.totals.Decisions[e.Decision]++
	c.quarters.Add(e.Time, e.Decision, 1)
	if e.Would > e.Decision {
		c.addWould(e, load)
	}
	if e.Time.After(c.totals.Last) {
		c.totals.Last = e.Time
	}
	c.agent(agentKey{e.Agent, e.Event}).add(e, failed, open)
	if e.Decision == grapnel.Block {
		c.addTexts(e, load)
	}
}

func (h *Hook) add(run *grapnel.HookRun) {
	h.Runs++
	if run.Observed && run.Decision > grapnel.None {
		h.Would[run.Decision]++
	} else {
		h.Decisions[run.Decision]++
	}
	if run.Error != "" {
		h.Errors++
		h.LastError = run.Error
	}
	if run.Cause == grapnel.CauseTimeout {
		h.Timeouts++
	}
	if run.FailOpen {
		h.FailOpen++
	}
	h.times.add(run.MS)
}

func (a *Agent) add(e *spool.Entry, failed, open bool) {
	a.Firings++
	a.Decisions[e.Decision]++
	if e.Would > e.Decision && e.Would >= grapnel.Ask {
		a.Would++
	}
	if failed {
		a.Errors++
	}
	if open {
		a.FailOpen++
	}
	a.times.add(e.MS)
}

// addTexts counts the reasons and the shell commands of a blocked event.
func (c *Counter) addTexts(e *spool.Entry, load func() error) {
	for _, r := range e.Reasons {
		countText(c.reasons, r.Hook, r.Text)
	}
	if t := toolOf(e, load); t != nil {
		for _, command := range t.Commands {
			countText(c.commands, "", command)
		}
	}
}

// addWould counts an event that hooks in observe mode would have decided more strictly. It keeps
// the commands and sessions that they would have stopped.
func (c *Counter) addWould(e *spool.Entry, load func() error) {
	c.totals.Would[e.Would]++
	if e.Would < grapnel.Ask {
		return
	}
	if len(c.sessions) < maxTexts {
		c.sessions[e.Agent+"\x00"+e.Session] = true
	}
	texts := []string{string(e.Event)}
	if t := toolOf(e, load); t != nil {
		var paths []string
		for _, p := range t.Paths {
			paths = append(paths, p.Path)
		}
		for _, texts = range [][]string{t.Commands, paths, t.URLs, {t.Name}} {
			if len(texts) > 0 {
				break
			}
		}
	}
	for i := range e.Hooks {
		run := &e.Hooks[i]
		for _, text := range texts {
			if run.Observed && run.Decision >= grapnel.Ask && run.Decision > e.Decision {
				countText(c.would, run.Source+"::"+run.Name, text)
			}
		}
	}
}

// toolOf returns the tool call of an event. It is nil for other events, and if the Record has no
// event.
func toolOf(e *spool.Entry, load func() error) *grapnel.Tool {
	if load() != nil {
		return nil
	}
	ev, err := replay.Event(e)
	if err != nil {
		return nil
	}
	return ev.Tool
}

func countText(counts map[Frequency]int, hook, text string) {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxTopText {
		text = strings.ToValidUTF8(text[:maxTopText], "") + "…"
	}
	if text != "" {
		addTimes(counts, Frequency{Times: 1, Hook: hook, Text: text})
	}
}

func addTimes(counts map[Frequency]int, f Frequency) {
	times := f.Times
	f.Times = 0
	if _, ok := counts[f]; ok || len(counts) < maxTexts {
		counts[f] += times
	}
}

func (c *Counter) hook(k hookKey) *Hook {
	h := c.hooks[k]
	if h == nil {
		h = &Hook{Name: k.name, Source: k.source, Decisions: map[grapnel.Decision]int{}, Would: map[grapnel.Decision]int{}}
		c.hooks[k] = h
	}
	return h
}

func (c *Counter) agent(k agentKey) *Agent {
	a := c.agents[k]
	if a == nil {
		a = &Agent{Agent: k.agent, Event: k.event, Decisions: map[grapnel.Decision]int{}}
		c.agents[k] = a
	}
	return a
}

// Totals returns the totals so far.
func (c *Counter) Totals() Totals {
	t := c.totals
	t.Decisions, t.Would = maps.Clone(t.Decisions), maps.Clone(t.Would)
	t.Days = c.quarters.Days(t.Since.Location())
	t.Hooks = make([]Hook, 0, len(c.hooks))
	for _, counted := range c.hooks {
		h := *counted
		h.Decisions, h.Would = maps.Clone(h.Decisions), maps.Clone(h.Would)
		h.P50, h.P95, h.Max = h.times.percentiles()
		t.Hooks = append(t.Hooks, h)
	}
	slices.SortFunc(t.Hooks, func(a, b Hook) int {
		return cmp.Or(cmp.Compare(b.P95, a.P95), cmp.Compare(b.Max, a.Max), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
	})
	return t
}

// Summary returns the counts so far.
func (c *Counter) Summary() *Summary {
	s := &Summary{
		Totals: c.Totals(), Agents: make([]Agent, 0, len(c.agents)), Commands: top(c.commands, maxTop), Reasons: top(c.reasons, maxTop),
		WouldSessions: len(c.sessions), WouldCommands: top(c.would, maxTop),
	}
	for _, counted := range c.agents {
		a := *counted
		a.Decisions = maps.Clone(a.Decisions)
		a.P50, a.P95, a.Max = a.times.percentiles()
		s.Agents = append(s.Agents, a)
	}
	slices.SortFunc(s.Agents, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(b.Firings, a.Firings), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Event, b.Event))
	})
	return s
}

// top returns the most frequent texts with their counts.
func top(counts map[Frequency]int, n int) []Frequency {
	list := make([]Frequency, 0, len(counts))
	for f, times := range counts {
		f.Times = times
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Frequency) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Hook, b.Hook))
	})
	return list[:min(len(list), n):min(len(list), n)]
}

// stored is the JSON form of a Counter.
type stored struct {
	Summary
	Quarters   Quarters
	HookTimes  []buckets // of Hooks
	AgentTimes []buckets // of Agents
	Sessions   []string  // of WouldSessions
}

// MarshalJSON returns a form that [Counter.AddStored] accepts. It rounds times to about 1 %, and
// has only the most frequent texts.
func (c *Counter) MarshalJSON() ([]byte, error) {
	s := stored{Summary: *c.Summary(), Quarters: c.quarters}
	s.Commands, s.Reasons, s.WouldCommands = top(c.commands, maxStored), top(c.reasons, maxStored), top(c.would, maxStored)
	s.Sessions = slices.Sorted(maps.Keys(c.sessions))
	for i := range s.Hooks {
		s.HookTimes = append(s.HookTimes, s.Hooks[i].times.rounded())
	}
	for i := range s.Agents {
		s.AgentTimes = append(s.AgentTimes, s.Agents[i].times.rounded())
	}
	return json.Marshal(s)
}

// AddStored adds the counts of a stored Counter, whose Records are newer than all Records so far.
func (c *Counter) AddStored(raw []byte) error {
	var s stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("cannot read stored counts: %w", err)
	}
	if len(s.HookTimes) != len(s.Hooks) || len(s.AgentTimes) != len(s.Agents) {
		return fmt.Errorf("cannot read stored counts: %d hooks with %d times, %d agents with %d", len(s.Hooks), len(s.HookTimes), len(s.Agents), len(s.AgentTimes))
	}
	t := &c.totals
	if s.Last.After(t.Last) {
		t.Last = s.Last
	}
	t.Firings += s.Firings
	t.Errors += s.Errors
	t.FailOpen += s.FailOpen
	t.Unreadable += s.Unreadable
	addCounts(t.Decisions, s.Decisions)
	addCounts(t.Would, s.Would)
	for at, counts := range s.Quarters {
		for d, n := range counts {
			c.quarters.Add(time.Unix(at, 0), d, n)
		}
	}
	for i := range s.Hooks {
		from := &s.Hooks[i]
		h := c.hook(hookKey{from.Name, from.Source})
		h.Runs += from.Runs
		h.Errors += from.Errors
		h.Timeouts += from.Timeouts
		h.FailOpen += from.FailOpen
		h.LastError = cmp.Or(from.LastError, h.LastError)
		addCounts(h.Decisions, from.Decisions)
		addCounts(h.Would, from.Would)
		h.times.addRounded(s.HookTimes[i], from.Max)
	}
	for i := range s.Agents {
		from := &s.Agents[i]
		a := c.agent(agentKey{from.Agent, from.Event})
		a.Firings += from.Firings
		a.Would += from.Would
		a.Errors += from.Errors
		a.FailOpen += from.FailOpen
		addCounts(a.Decisions, from.Decisions)
		a.times.addRounded(s.AgentTimes[i], from.Max)
	}
	for _, f := range s.Commands {
		addTimes(c.commands, f)
	}
	for _, f := range s.Reasons {
		addTimes(c.reasons, f)
	}
	for _, f := range s.WouldCommands {
		addTimes(c.would, f)
	}
	for _, session := range s.Sessions {
		if len(c.sessions) < maxTexts {
			c.sessions[session] = true
		}
	}
	return nil
}

func addCounts(to, from map[grapnel.Decision]int) {
	for d, n := range from {
		to[d] += n
	}
}
