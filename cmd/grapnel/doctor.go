package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/doctor"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/dialect"
)

func newDoctor(c *console) *cobra.Command {
	var noRun, all bool
	var slow time.Duration
	cmd := &cobra.Command{
		Use:   "doctor [AGENT...]",
		Short: "Find reasons why a guard might not run",
		Long: `Check whether the agents of this machine really call Grapnel: what is installed and whether it
is current, settings of agents that disable it, hooks of other tools and their changes since
the last check, actions that no hook sees, guards that failed in the last days, and the cost of
a reply.

It prints what needs an action, and with --all also what is as it should be. --json has everything.

The command repairs nothing, and writes only fingerprints of the hooks of other tools. It starts
the agents to read their versions, and grapnel-hook to measure it.

Exit code 0: nothing to do; 1: there is a warning or an error.`,
		Example:           "  grapnel doctor\n  grapnel doctor codex --json\n  grapnel doctor --slow 50ms",
		ValidArgsFunction: completeAgents,
		RunE: func(cmd *cobra.Command, agents []string) error {
			if slow < 0 {
				return cli.Usage(fmt.Errorf("--slow %s: the duration must be more than 0", slow))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			dir, err := cli.WorkDir()
			if err != nil {
				return err
			}
			req := doctor.NewRequest(place, dir, c.Root)
			req.Agents, req.NoRun, req.Slow = agents, noRun, slow
			report, err := doctor.Look(cmd.Context(), req)
			if err != nil {
				return installError(err)
			}
			if c.JSON {
				err = c.PrintJSON(report)
			} else {
				c.printFindings(report, all)
			}
			if err == nil && report.Worst() >= doctor.Warn {
				err = cli.ErrFailed
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also print what is as it should be")
	cmd.Flags().BoolVar(&noRun, "no-run", false, "do not start the agents or grapnel-hook")
	cli.DurationVar(cmd.Flags(), &slow, "slow", 0, "warn if a reply takes longer (default: 60 times an empty program)")
	return c.jsonFlag(cmd)
}

// printFindings prints the findings that need an action, by agent and the worst first, and with all also the others.
func (c *console) printFindings(r *doctor.Report, all bool) {
	var problems, facts []doctor.Finding
	var absent []string
	counts := map[doctor.Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
		switch {
		case f.Level >= doctor.Warn:
			problems = append(problems, f)
		case f.ID == "agent.absent":
			absent = append(absent, f.Agent)
		default:
			facts = append(facts, f)
		}
	}
	c.printSection(problems)
	if all {
		c.printSection(facts)
		if len(absent) > 0 {
			c.Wrap("not found: "+strings.Join(absent, ", "), "  ")
		}
	}
	others := ""
	if n := len(r.Findings) - len(problems); n > 0 && !all {
		others = fmt.Sprintf("; %s needs nothing (--all shows it)", printable.Count(n, "other finding"))
		if n > 1 {
			others = fmt.Sprintf("; %s need nothing (--all shows them)", printable.Count(n, "other finding"))
		}
	}
	c.Wrap(fmt.Sprintf("%d bad, %d warn%s", counts[doctor.Bad], counts[doctor.Warn], others), "  ")
}

// printSection prints findings below the names of their agents.
func (c *console) printSection(findings []doctor.Finding) {
	colors := map[doctor.Level]typeset.Style{doctor.OK: typeset.Green, doctor.Info: typeset.Dim, doctor.Warn: typeset.Yellow, doctor.Bad: typeset.Red}
	var agents []string
	byAgent := map[string][]doctor.Finding{}
	for _, f := range findings {
		if byAgent[f.Agent] == nil {
			agents = append(agents, f.Agent)
		}
		byAgent[f.Agent] = append(byAgent[f.Agent], f)
	}
	for _, agent := range agents {
		title := "Grapnel"
		if d, ok := dialect.Find(agent); ok {
			title = d.Title
		}
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, title))
		slices.SortStableFunc(byAgent[agent], func(a, b doctor.Finding) int { return cmp.Compare(b.Level, a.Level) })
		for _, f := range byAgent[agent] {
			const indent = "       "
			first := fmt.Sprintf("  %-4s %-18s %s", f.Level, f.ID, printable.Line(f.What))
			for i, line := range printable.Wrap(first, c.Columns(), indent) {
				if i == 0 {
					line = "  " + c.Paint(colors[f.Level], fmt.Sprintf("%-4s", f.Level)) + line[6:]
				}
				fmt.Fprintln(c.Out, line)
			}
			if f.Why != "" {
				c.Wrap(indent+printable.Line(f.Why), indent)
			}
			if f.Hint != "" {
				c.Wrap(indent+"hint: "+printable.Line(f.Hint), indent)
			}
			if f.Fingerprint != "" {
				fmt.Fprintf(c.Out, "%s%s\n", indent, c.Paint(typeset.Dim, "fingerprint "+f.Fingerprint[:16]))
			}
		}
	}
}
