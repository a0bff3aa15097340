package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/doctor"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func newDoctor(c *console) *cobra.Command {
	var noRun bool
	var slow time.Duration
	cmd := &cobra.Command{
		Use:   "doctor [AGENT...]",
		Short: "Find reasons why a guard might not run",
		Long: `Check whether the agents of this machine really call Grapnel: what is installed and whether it
is current, settings of agents that disable it, hooks of other tools and their changes since
the last check, actions that no hook sees, guards that failed in the last days, and the cost of
a reply.

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
			// Without its program, the check compares the installation with itself.
			program, _ := install.HookProgram(install.User)
			looking := check.LookRequest(place, place.Files(nil, place.DirsOf(dir)))
			var programs []policyfile.Command
			looking.Command = func(c policyfile.Command) grapnel.Hook {
				programs = append(programs, c)
				return noop.Hook{}
			}
			damaged := policy.CheckIntegrity(place.Snapshots(), place.Trusts())
			set, needs := policy.Load(looking), install.PolicyNeeds(place)
			report, err := doctor.Look(cmd.Context(), doctor.Request{
				Place: place, Dir: dir, Agents: agents, Root: c.Root, Program: program, NoRun: noRun, Slow: slow,
				Set: set, Programs: programs, Damaged: damaged, Events: needs.Events, Approve: needs.Approve,
			})
			if err != nil {
				return installError(err)
			}
			if c.JSON {
				err = c.PrintJSON(report)
			} else {
				c.printFindings(report)
			}
			if err == nil && report.Worst() >= doctor.Warn {
				err = cli.ErrFailed
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&noRun, "no-run", false, "do not start the agents or grapnel-hook")
	cli.DurationVar(cmd.Flags(), &slow, "slow", 0, "warn if a reply takes longer (default: 60 times an empty program)")
	return c.jsonFlag(cmd)
}

func (c *console) printFindings(r *doctor.Report) {
	colors := map[doctor.Level]string{doctor.OK: cli.Green, doctor.Info: cli.Dim, doctor.Warn: cli.Yellow, doctor.Bad: cli.Red}
	counts := map[doctor.Level]int{}
	agent := "\x00"
	var absent []string
	for _, f := range r.Findings {
		counts[f.Level]++
		if f.ID == "agent.absent" && f.Level < doctor.Warn {
			absent = append(absent, f.Agent)
			continue
		}
		if f.Agent != agent {
			agent = f.Agent
			title := "Grapnel"
			if d, ok := dialect.Find(agent); ok {
				title = d.Title
			}
			fmt.Fprintln(c.Out, c.Paint(cli.Bold, title))
		}
		fmt.Fprintf(c.Out, "  %s %-18s %s\n", c.Paint(colors[f.Level], fmt.Sprintf("%-4s", f.Level)), f.ID, printable.Line(f.What))
		if f.Why != "" {
			fmt.Fprintf(c.Out, "       %s\n", printable.Line(f.Why))
		}
		if f.Hint != "" {
			fmt.Fprintf(c.Out, "       hint: %s\n", printable.Line(f.Hint))
		}
		if f.Fingerprint != "" {
			fmt.Fprintf(c.Out, "       %s\n", c.Paint(cli.Dim, "fingerprint "+f.Fingerprint[:16]))
		}
	}
	for i, name := range absent {
		if i == 0 {
			fmt.Fprint(c.Out, c.Paint(cli.Dim, "not found: "))
		} else {
			fmt.Fprint(c.Out, ", ")
		}
		fmt.Fprint(c.Out, name)
	}
	if len(absent) > 0 {
		fmt.Fprintln(c.Out)
	}
	fmt.Fprintf(c.Out, "%d bad, %d warn\n", counts[doctor.Bad], counts[doctor.Warn])
}
