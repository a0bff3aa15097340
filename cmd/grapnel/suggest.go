package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/staging"
	"github.com/grapnel-dev/grapnel/internal/replay"
)

func newSuggest(c *console) *cobra.Command {
	wanted := wantedFlags{since: "720h"}
	var th replay.Thresholds
	cmd := &cobra.Command{
		Use:   "suggest [FILE...]",
		Short: "Suggest policy changes from recorded events",
		Long: `Read Records from this machine, or from files that "grapnel log --json" wrote, and find where
the policy does not fit: questions that are always or never answered with yes, rules that never
match or are redundant, hooks that fail, are slow or never have a result, limits that are always
or never reached, and commands that fail again and again. Each suggestion lists its evidence, what
the Records cannot show and, if possible, the change as lines of the file.

Nothing is changed. "grapnel replay --policy" shows the effect that a change would have had.`,
		Example: "  grapnel suggest\n  grapnel suggest --since 168h --asked 10\n  grapnel suggest --json | jq '.suggestions[].title'",
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := checkThresholds(cmd); err != nil {
				return err
			}
			if len(files) > 0 && !cmd.Flags().Changed("since") {
				wanted.since = ""
			}
			filter, err := wanted.filter()
			if err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			opts := replay.SuggestOptions{Policy: place.Policy, Wants: filter.Wants, Thresholds: th}
			if len(files) > 0 {
				opts.StandIn = place.Policy
			}
			if err = staging.InForce(place, &opts); err != nil {
				return err
			}
			from := &records.Source{Console: &c.Console, Place: place, Files: files, Filter: filter}
			records, end, err := from.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer end()
			progress, erase := from.Progress("reading")
			opts.Progress = progress
			advice, err := replay.Suggest(cmd.Context(), records, opts)
			erase()
			if err != nil {
				return err
			}
			if c.JSON {
				return c.PrintJSON(advice)
			}
			return c.printAdvice(advice)
		},
	}
	wanted.add(cmd)
	cmd.Flags().IntVar(&th.Asked, "asked", 5, "minimum number of answers to the questions of a rule")
	cli.DurationVar(cmd.Flags(), &th.Answer, "answer", time.Second, "shortest time in which a user can answer a question")
	cmd.Flags().IntVar(&th.Matched, "matched", 5, "minimum number of decisions to call a rule redundant")
	cmd.Flags().IntVar(&th.Seen, "seen", 100, "minimum number of events for \"never has a result\"")
	cmd.Flags().IntVar(&th.Days, "days", 21, "minimum number of days for \"never matched\"")
	cmd.Flags().IntVar(&th.Failures, "failures", 3, "minimum number of failures of a hook")
	cmd.Flags().IntVar(&th.Runs, "runs", 20, "minimum number of runs to judge a hook by its runs")
	cmd.Flags().IntVar(&th.Repeats, "repeats", 5, "minimum number of repetitions of a command that just failed")
	cli.DurationVar(cmd.Flags(), &th.Slow, "slow", time.Second, "a hook is slow if 5 % of its runs take this long")
	return c.jsonFlag(cmd)
}

// checkThresholds returns an error for invalid flags of "grapnel suggest".
func checkThresholds(cmd *cobra.Command) error {
	for _, name := range []string{"asked", "matched", "seen", "days", "failures", "runs", "repeats"} {
		if n, err := cmd.Flags().GetInt(name); err == nil && n < 1 {
			return cli.Usage(fmt.Errorf("--%s must be at least 1, got %d", name, n))
		}
	}
	for _, name := range []string{"slow", "answer"} {
		if d, err := cmd.Flags().GetDuration(name); err == nil && d <= 0 {
			return cli.Usage(cli.WithHint(fmt.Errorf("--%s must be more than 0, got %v", name, d), "write a time with a unit: 500ms, 2s"))
		}
	}
	for _, name := range []string{"decision", "hook"} { // the omitted Records could contradict a suggestion
		if cmd.Flags().Changed(name) {
			return cli.Usage(cli.WithHint(fmt.Errorf("--%s removes records that suggestions need", name), "use --since, --session or --agent instead"))
		}
	}
	return nil
}

func (c *console) printAdvice(a *replay.Advice) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s Records", c.Paint(typeset.Bold, "read"), printable.Number(a.Records))
	if !a.From.IsZero() {
		fmt.Fprintf(&b, ", %s to %s", a.From.Local().Format(dayFormat), a.To.Local().Format(dayFormat))
	}
	if a.NoEvents > 0 {
		fmt.Fprintf(&b, "; %s have only metadata", printable.Number(a.NoEvents))
	}
	b.WriteByte('\n')
	if len(a.Suggestions) == 0 {
		b.WriteString("nothing to suggest\n")
	}
	for i := range a.Suggestions {
		s := &a.Suggestions[i]
		at := printable.Line(s.File)
		if s.Rule != nil {
			at = ruleAt(*s.Rule)
		}
		fmt.Fprintf(&b, "\n%s %s\n  %s\n", c.Paint(typeset.Bold, className(s.Kind)), at, printable.Line(s.Title))
		for _, line := range s.Evidence {
			fmt.Fprintf(&b, "    %s\n", printable.Line(line))
		}
		fmt.Fprintf(&b, "  %s Records, %s to %s", printable.Number(s.Count), s.First.Local().Format(dayFormat), s.Last.Local().Format(dayFormat))
		if len(s.Records) > 0 {
			fmt.Fprintf(&b, ", such as %s", printable.Line(strings.Join(s.Records, ", ")))
		}
		fmt.Fprintf(&b, "\n  %s\n", printable.Line(s.Advice))
		for line := range strings.Lines(s.Hunk) {
			line = printable.Text(strings.TrimSuffix(line, "\n"))
			switch line[:min(1, len(line))] {
			case "+":
				line = c.Paint(typeset.Green, line)
			case "-":
				line = c.Paint(typeset.Red, line)
			}
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	_, err := c.Out.Write([]byte(b.String()))
	return err
}
