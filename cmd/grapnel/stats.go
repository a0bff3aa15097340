package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/stats"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
)

func newStats(c *console) *cobra.Command {
	since, would := "24h", false
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Summarize decisions, failures and durations of hooks",
		Long: `Summarize the last 24 hours, or --since: for each hook its runs, decisions, failures, how
often the action continued after a failure, and its duration; for each agent and event the
number and duration of replies; the commands that were blocked most often, and the reasons.
No daemon is needed.

Hooks in observe mode stop nothing: their results are "would" and not "block". --would shows
only these: how many calls they would have stopped, by hook, with the most frequent commands.
On a narrow terminal, tables have fewer columns.`,
		Example: "  grapnel stats\n  grapnel stats --since 168h --json\n  grapnel stats --would --since 7d",
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
			count, err := records.Log(place).Count(cmd.Context(), begin)
			if err != nil {
				c.Warn(fmt.Errorf("the figures are incomplete: %w", err))
			}
			switch {
			case would && c.JSON:
				return c.PrintJSON(count.Would())
			case would:
				c.printWould(count.Would())
			case c.JSON:
				return c.PrintJSON(count.Summary())
			default:
				c.printStats(count.Summary(), since)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&would, "would", false, "show only what hooks in observe mode would have stopped")
	cmd.Flags().StringVar(&since, "since", since, "only events of the last `DURATION`, such as 1h")
	return c.jsonFlag(cmd)
}

// counts describes the results of events in one line.
func counts(t *stats.Totals) string {
	parts := []string{printable.Count(t.Firings, "event")}
	for _, n := range []struct {
		times int
		what  string
	}{
		{t.Decisions[grapnel.Block], "block"},
		{t.Decisions[grapnel.Ask], "ask"},
		{t.Decisions[grapnel.Allow], "allow"},
		{t.Would[grapnel.Block], "would block"},
		{t.Would[grapnel.Ask], "would ask"},
	} {
		if n.times > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.times, n.what))
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("%d failed open", t.FailOpen)), ", ")
}

func (c *console) printStats(s *stats.Summary, since string) {
	head := "last " + since + ": " + counts(&s.Totals)
	if s.Errors > 0 {
		head += fmt.Sprintf(", %d with errors", s.Errors)
	}
	if s.Unreadable > 0 {
		head += fmt.Sprintf(", %d lines that cannot be read", s.Unreadable)
	}
	if s.Again > 0 {
		head += fmt.Sprintf(", %d with a second reply", s.Again)
	}
	c.Wrap(head, "  ")
	ms := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	columns := func(first string, more ...typeset.Column) []typeset.Column {
		return append([]typeset.Column{
			{Head: first, Left: true},
			{Head: "times"},
			{Head: "block"},
			{Head: "would"},
			{Head: "ask", Rank: 4},
			{Head: "allow", Rank: 6},
			{Head: "errors", Rank: 2},
			{Head: "open", Rank: 1},
			{Head: "p50 ms", Rank: 5},
			{Head: "p95 ms", Rank: 3},
			{Head: "max ms", Rank: 5},
		}, more...)
	}
	var hooks, answers [][]string
	for i, name := range hookLabels(s.Hooks) {
		h := &s.Hooks[i]
		hooks = append(hooks, []string{
			name, fmt.Sprint(h.Runs), number(h.Decisions, grapnel.Block), fmt.Sprint(h.Would[grapnel.Block] + h.Would[grapnel.Ask]),
			number(h.Decisions, grapnel.Ask), number(h.Decisions, grapnel.Allow), fmt.Sprint(h.Errors), fmt.Sprint(h.FailOpen), ms(h.P50), ms(h.P95), ms(h.Max), cli.Path(h.Source),
		})
	}
	for i := range s.Agents {
		k := &s.Agents[i]
		answers = append(answers, []string{
			printable.Line(k.Agent + ", " + string(k.Event)), fmt.Sprint(k.Firings), number(k.Decisions, grapnel.Block), fmt.Sprint(k.Would),
			number(k.Decisions, grapnel.Ask), number(k.Decisions, grapnel.Allow), fmt.Sprint(k.Errors), fmt.Sprint(k.FailOpen), ms(k.P50), ms(k.P95), ms(k.Max),
		})
	}
	c.printTable("hooks", columns("name", typeset.Column{Head: "source", Left: true, Rank: 7}), hooks)
	c.printTable("answers", columns("agent, event"), answers)
	c.printFrequencies("blocked most", s.Commands)
	c.printFrequencies("why", s.Reasons)
}

func hookLabels(hooks []stats.Hook) []string {
	return cli.Labels(hooks, func(h *stats.Hook) (string, string) { return h.Name, h.Source })
}

func number(counts map[grapnel.Decision]int, d grapnel.Decision) string { return fmt.Sprint(counts[d]) }

// printTable prints a table with a title, unless it has no rows.
func (c *console) printTable(title string, columns []typeset.Column, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(c.Out, c.Paint(typeset.Bold, title))
	c.printLines(typeset.Table(c.Columns(), columns, rows))
}

// printFrequencies lists texts with their number, one per line.
func (c *console) printFrequencies(title string, list []stats.Frequency) {
	if len(list) > 0 && title != "" {
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, title))
	}
	for _, f := range list {
		text := f.Text
		if f.Hook != "" {
			text = f.Hook[strings.LastIndex(f.Hook, "::")+len("::"):] + ": " + text // --json has the source, too
		}
		_ = c.Row(typeset.Normal.Span(fmt.Sprintf("  %5d  ", f.Times)), typeset.Normal.Span(printable.Line(text)))
	}
}

// printWould prints the events that hooks in observe mode would have stopped.
func (c *console) printWould(w *stats.Would) {
	since := w.Since.Local().Format("2006-01-02 15:04")
	if w.Calls+w.Questions == 0 {
		c.Wrap("would have stopped nothing since "+since, "  ")
		return
	}
	asked := ""
	if w.Questions > 0 {
		asked = fmt.Sprintf(" and asked about %d", w.Questions)
	}
	c.Wrap(fmt.Sprintf("would have stopped %s%s in %s since %s", printable.Count(w.Calls, "call"), asked, printable.Count(w.Sessions, "session"), since), "  ")
	labels := cli.Labels(w.Hooks, func(h *stats.WouldHook) (string, string) { return h.Name, h.Source })
	for i, name := range labels {
		h := &w.Hooks[i]
		times := fmt.Sprintf("  %d block, %d ask", h.Would[grapnel.Block], h.Would[grapnel.Ask])
		_ = c.Row(typeset.Bold.Span(name), typeset.Normal.Span(times), typeset.Dim.Span("  "+cli.Path(h.Source)))
		c.printFrequencies("", h.Commands)
	}
}
