package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/store"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// statsReport is what "grapnel stats --json" prints.
type statsReport struct {
	spool.Stats
	Agents   []kindStats  `json:"agents"`           // by agent and event, most firings first
	Commands []timesCount `json:"blocked_commands"` // most first
	Reasons  []timesCount `json:"blocked_reasons"`  // of hooks that decided, most first
}

// kindStats count the firings of one agent's events. Times are in milliseconds, and of the
// whole answer.
type kindStats struct {
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

// timesCount says how often something was.
type timesCount struct {
	Times int    `json:"times"`
	Hook  string `json:"hook,omitempty"`
	Text  string `json:"text"`
}

const (
	maxTop     = 10     // of what is most frequent
	maxTopText = 200    // bytes of one
	maxTexts   = 20_000 // different ones that are counted
)

func newStats(c *console) *cobra.Command {
	since := "24h"
	cmd := &cobra.Command{
		Use:     "stats",
		Short:   "Count what hooks did, how long they took, and what was blocked",
		Long:    "Counts, of the last 24 hours or of --since: for each hook how often it ran, what it\ndecided, how often it failed and whether the action went on then, and how long it\ntook; for each agent and event how many were answered, and how long that took; which\ncommands were blocked most, and why. Of what is in the daemon's store and in the\nspool; no daemon is needed.",
		Example: "  grapnel stats\n  grapnel stats --since 168h --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin, err := ago(since)
			if err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			count := newCounter(begin)
			for k, err := range logOf(place).Read(cmd.Context(), store.Query{Filter: spool.Filter{Since: begin}}) {
				if problem := count.add(&k, err); problem != nil {
					c.Warn(problem)
				}
			}
			s := count.report()
			if c.JSON {
				return c.PrintJSON(s)
			}
			c.printStats(s, since)
			return nil
		},
	}
	cmd.Flags().StringVar(&since, "since", since, "only the last `DURATION`, such as 1h")
	return c.jsonFlag(cmd)
}

// A counter makes a statsReport of Entries.
type counter struct {
	tally    *spool.Tally
	agents   map[[2]string]*kindStats
	commands map[timesCount]int
	reasons  map[timesCount]int
}

func newCounter(since time.Time) *counter {
	return &counter{tally: spool.NewTally(since), agents: map[[2]string]*kindStats{}, commands: map[timesCount]int{}, reasons: map[timesCount]int{}}
}

// add counts an Entry, or what could not be read. It returns what a person should be told.
func (c *counter) add(k *store.Kept, err error) error {
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
		s = &kindStats{Agent: k.Agent, Event: k.Entry.Event, Decisions: map[grapnel.Decision]int{}}
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
		return nil //nolint:nilerr // its command is not known, and all else is
	}
	for _, command := range commandsOf(&k.Entry) {
		countText(c.commands, "", command)
	}
	return nil
}

func countText(counts map[timesCount]int, hook, text string) {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxTopText {
		text = strings.ToValidUTF8(text[:maxTopText], "") + "…"
	}
	key := timesCount{Hook: hook, Text: text}
	if _, ok := counts[key]; text != "" && (ok || len(counts) < maxTexts) {
		counts[key]++
	}
}

// commandsOf are the shell lines of an event.
func commandsOf(e *spool.Entry) []string {
	ev, err := replay.Event(e)
	if err != nil || ev.Tool == nil {
		return nil
	}
	return ev.Tool.Commands
}

func (c *counter) report() *statsReport {
	s := &statsReport{Stats: c.tally.Stats(), Agents: []kindStats{}, Commands: top(c.commands), Reasons: top(c.reasons)}
	for _, k := range c.agents {
		slices.Sort(k.times)
		k.P50, k.P95, k.Max = share(k.times, 0.50), share(k.times, 0.95), share(k.times, 1)
		s.Agents = append(s.Agents, *k)
	}
	slices.SortFunc(s.Agents, func(a, b kindStats) int {
		return cmp.Or(cmp.Compare(b.Firings, a.Firings), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Event, b.Event))
	})
	return s
}

// share is the smallest of the sorted values that this share of them does not exceed.
func share(sorted []float64, part float64) float64 {
	return sorted[max(0, int(math.Ceil(float64(len(sorted))*part))-1)]
}

// top are the most frequent, with how often each was.
func top(counts map[timesCount]int) []timesCount {
	list := slices.Collect(maps.Keys(counts))
	for i := range list {
		list[i].Times = counts[list[i]]
	}
	slices.SortFunc(list, func(a, b timesCount) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Hook, b.Hook))
	})
	return append([]timesCount{}, list[:min(len(list), maxTop)]...)
}

func (c *console) printStats(s *statsReport, since string) {
	fmt.Fprintf(c.Out, "%s %s", c.Paint(cli.Bold, "last "+since+":"), printable.Count(s.Firings, "event"))
	for _, d := range []grapnel.Decision{grapnel.Block, grapnel.Ask, grapnel.Allow} {
		if n := s.Decisions[d]; n > 0 {
			fmt.Fprintf(c.Out, ", %d %s", n, c.Decision(d.String()))
		}
	}
	fmt.Fprintf(c.Out, ", %d failed open", s.FailOpen)
	if s.Errors > 0 {
		fmt.Fprintf(c.Out, ", %d with errors", s.Errors)
	}
	if s.Unreadable > 0 {
		fmt.Fprintf(c.Out, ", %d lines that cannot be read", s.Unreadable)
	}
	fmt.Fprintln(c.Out)
	row := func(cells ...any) {
		line := fmt.Sprintf("  %-40v %7v %6v %6v %6v %7v %6v %9v %9v %9v  %v", cells...)
		fmt.Fprintln(c.Out, strings.TrimRight(line, " "))
	}
	head := func(title, first, last string) {
		fmt.Fprintln(c.Out, c.Paint(cli.Bold, title))
		row(first, "times", "block", "ask", "allow", "errors", "open", "p50 ms", "p95 ms", "max ms", last)
	}
	ms := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	if len(s.Hooks) > 0 {
		head("hooks", "name", "source")
	}
	for _, h := range s.Hooks {
		row(printable.Line(h.Name), h.Runs, h.Decisions[grapnel.Block], h.Decisions[grapnel.Ask], h.Decisions[grapnel.Allow], h.Errors, h.FailOpen, ms(h.P50), ms(h.P95), ms(h.Max), printable.Line(h.Source))
	}
	if len(s.Agents) > 0 {
		head("answers", "agent, event", "")
	}
	for _, k := range s.Agents {
		row(printable.Line(k.Agent+", "+string(k.Event)), k.Firings, k.Decisions[grapnel.Block], k.Decisions[grapnel.Ask], k.Decisions[grapnel.Allow], k.Errors, k.FailOpen, ms(k.P50), ms(k.P95), ms(k.Max), "")
	}
	for _, list := range []struct {
		name  string
		times []timesCount
	}{{"blocked most", s.Commands}, {"why", s.Reasons}} {
		if len(list.times) > 0 {
			fmt.Fprintln(c.Out, c.Paint(cli.Bold, list.name))
		}
		for _, t := range list.times {
			text := t.Text
			if t.Hook != "" {
				text = t.Hook + ": " + text
			}
			fmt.Fprintf(c.Out, "  %5d  %s\n", t.Times, printable.Line(text))
		}
	}
}
