package records

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// Stats is the output of "grapnel stats --json".
type Stats struct {
	spool.Stats
	Agents   []AgentStats `json:"agents"`           // by agent and event, most firings first
	Commands []Frequency  `json:"blocked_commands"` // most frequent first
	Reasons  []Frequency  `json:"blocked_reasons"`  // of hooks that decided, most frequent first
}

// AgentStats are the counts for one kind of event of one agent. Times are in milliseconds and
// cover the whole reply.
type AgentStats struct {
	Agent     string                   `json:"agent"`
	Event     grapnel.Kind             `json:"event"`
	Firings   int                      `json:"firings"`
	Decisions map[grapnel.Decision]int `json:"decisions"`
	Errors    int                      `json:"errors"`
	FailOpen  int                      `json:"fail_open"`
	P50       float64                  `json:"p50_ms"`
	P95       float64                  `json:"p95_ms"`
	Max       float64                  `json:"max_ms"`

	times []float64
}

// Frequency is how often a text occurred.
type Frequency struct {
	Times int    `json:"times"`
	Hook  string `json:"hook,omitempty"`
	Text  string `json:"text"`
}

const (
	maxTop     = 10     // number of entries in a list
	maxTopText = 200    // bytes of a text
	maxTexts   = 20_000 // number of different texts that are counted
)

// A Counter counts Entries into Stats.
type Counter struct {
	tally    *spool.Tally
	agents   map[[2]string]*AgentStats
	commands map[Frequency]int
	reasons  map[Frequency]int
}

// NewCounter returns a Counter for Entries since a time.
func NewCounter(since time.Time) *Counter {
	return &Counter{tally: spool.NewTally(since), agents: map[[2]string]*AgentStats{}, commands: map[Frequency]int{}, reasons: map[Frequency]int{}}
}

// Add counts an Entry or an unreadable line. It returns errors that the user should see.
func (c *Counter) Add(k *store.Kept, err error) error {
	if errors.Is(err, spool.ErrTorn) {
		c.tally.Unreadable(1)
		return nil
	}
	if err != nil {
		return err
	}
	c.tally.Add(&k.Entry)
	if k.Late {
		return nil
	}
	at := [2]string{k.Agent, string(k.Entry.Event)}
	s := c.agents[at]
	if s == nil {
		s = &AgentStats{Agent: k.Agent, Event: k.Entry.Event, Decisions: map[grapnel.Decision]int{}}
		c.agents[at] = s
	}
	s.Firings++
	s.Decisions[k.Decision]++
	if k.Entry.Error != "" || slices.ContainsFunc(k.Hooks, func(h grapnel.HookRun) bool { return h.Error != "" }) {
		s.Errors++
	}
	if slices.ContainsFunc(k.Hooks, func(h grapnel.HookRun) bool { return h.FailOpen }) {
		s.FailOpen++
	}
	s.times = append(s.times, k.MS)
	if k.Decision != grapnel.Block {
		return nil
	}
	for _, r := range k.Reasons {
		countText(c.reasons, r.Hook, r.Text)
	}
	if err := k.Event(); err != nil {
		return nil //nolint:nilerr // only the command is unknown
	}
	for _, command := range commandsOf(&k.Entry) {
		countText(c.commands, "", command)
	}
	return nil
}

func countText(counts map[Frequency]int, hook, text string) {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxTopText {
		text = strings.ToValidUTF8(text[:maxTopText], "") + "…"
	}
	key := Frequency{Hook: hook, Text: text}
	if _, ok := counts[key]; text != "" && (ok || len(counts) < maxTexts) {
		counts[key]++
	}
}

// commandsOf returns the shell commands of an event.
func commandsOf(e *spool.Entry) []string {
	ev, err := replay.Event(e)
	if err != nil || ev.Tool == nil {
		return nil
	}
	return ev.Tool.Commands
}

// Report returns the counts so far.
func (c *Counter) Report() *Stats {
	s := &Stats{Stats: c.tally.Stats(), Agents: []AgentStats{}, Commands: top(c.commands), Reasons: top(c.reasons)}
	for _, k := range c.agents {
		slices.Sort(k.times)
		k.P50, k.P95, k.Max = share(k.times, 0.50), share(k.times, 0.95), share(k.times, 1)
		s.Agents = append(s.Agents, *k)
	}
	slices.SortFunc(s.Agents, func(a, b AgentStats) int {
		return cmp.Or(cmp.Compare(b.Firings, a.Firings), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Event, b.Event))
	})
	return s
}

// share returns the smallest of the sorted values that at least this share of them does not
// exceed.
func share(sorted []float64, part float64) float64 {
	return sorted[max(0, int(math.Ceil(float64(len(sorted))*part))-1)]
}

// top returns the most frequent texts with their counts.
func top(counts map[Frequency]int) []Frequency {
	list := slices.Collect(maps.Keys(counts))
	for i := range list {
		list[i].Times = counts[list[i]]
	}
	slices.SortFunc(list, func(a, b Frequency) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Hook, b.Hook))
	})
	return append([]Frequency{}, list[:min(len(list), maxTop)]...)
}
