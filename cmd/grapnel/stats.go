package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/stats"
)

func newStats(c *console) *cobra.Command {
	since := "24h"
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Summarize decisions, failures and durations of hooks",
		Long: `Summarize the last 24 hours, or --since: for each hook its runs, decisions, failures, how
often the action continued after a failure, and its duration; for each agent and event the
number and duration of replies; the commands that were blocked most often, and the reasons.
The figures come from the store of the daemon and from the spool. No daemon is needed.`,
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
			count, err := records.Log(place).Count(cmd.Context(), begin)
			if err != nil {
				c.Warn(fmt.Errorf("the figures are incomplete: %w", err))
			}
			s := count.Summary()
			if c.JSON {
				return c.PrintJSON(s)
			}
			c.printStats(s, since)
			return nil
		},
	}
	cmd.Flags().StringVar(&since, "since", since, "only events of the last `DURATION`, such as 1h")
	return c.jsonFlag(cmd)
}

func (c *console) printStats(s *stats.Summary, since string) {
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
	if s.Again > 0 {
		fmt.Fprintf(c.Out, ", %d with a second reply", s.Again)
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
		times []stats.Frequency
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
