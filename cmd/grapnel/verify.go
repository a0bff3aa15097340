package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/dialect"
)

func newVerify(c *console) *cobra.Command {
	var program string
	cmd := &cobra.Command{
		Use:   "verify [AGENT...]",
		Short: "Test which verdicts the installed agents honor",
		Long: `Install Grapnel into a private copy of an agent's environment, let a scripted model work there
under a policy that blocks, changes, adds context, fails and hangs, and report how this
installation of the agent handled each event and verdict. Your own settings are neither read nor
changed, no account is needed, and nothing leaves the machine: the model listens on loopback.
Without arguments, the command tests the agents on PATH. A run takes ten seconds to two minutes.

Exit code 0: all agents behave as Grapnel's tables promise; 1: one does not.`,
		Example: "  grapnel verify claude-code\n  grapnel verify codex --program ~/bin/codex-next --json",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return verifiable(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			programs, err := programsOf(names, program)
			if err != nil {
				return err
			}
			hook, err := install.HookProgram(install.User)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			reports, errs, interrupted := c.verifyAll(ctx, programs, hook, program != "")
			if interrupted != nil {
				return interrupted
			}
			if c.JSON {
				if err := c.PrintJSON(reports); err != nil {
					return err
				}
			}
			if len(errs) == 0 && slices.ContainsFunc(reports, func(r *verify.Report) bool { return !r.OK() }) {
				return cli.ErrFailed
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&program, "program", "", "program `FILE` of the agent, instead of the one on PATH; for one AGENT")
	return c.jsonFlag(cmd)
}

// verifyAll runs agents, one after the other. If an agent cannot run, verifyAll continues with
// the next one. interrupted is the error of the agent that was running when ctx was done.
func (c *console) verifyAll(ctx context.Context, programs []verify.Program, hook string, named bool) (reports []*verify.Report, errs []error, interrupted error) {
	reports = []*verify.Report{}
	for _, p := range programs {
		report, err := verify.Check(ctx, p, verify.Options{Hook: hook, Progress: func(what string) {
			if cli.Terminal(c.Err) {
				fmt.Fprintf(c.Err, "%s: %s\n", p.Agent, what)
			}
		}})
		if err != nil {
			err = fmt.Errorf("cannot verify %s: %w", p.Agent, err)
			if ctx.Err() != nil {
				return reports, errs, err
			}
			if named {
				err = cli.WithHint(err, "--program needs the agent's own program")
			}
			errs = append(errs, err)
			continue
		}
		reports = append(reports, report)
		if !c.JSON {
			c.printReport(report)
		}
	}
	return reports, errs, nil
}

// verifiable lists the agents that Grapnel can run.
func verifiable() []string {
	var names []string
	for _, a := range verify.All {
		if a.Variant == "" {
			names = append(names, a.ID)
		}
	}
	return names
}

// programsOf finds the programs of the named agents, or of all installed agents.
func programsOf(names []string, program string) ([]verify.Program, error) {
	if program != "" && len(names) != 1 {
		return nil, cli.Usage(cli.WithHint(errors.New("--program needs exactly one agent"), "name the agent: grapnel verify AGENT --program FILE"))
	}
	var found []verify.Program
	if len(names) == 0 {
		for _, name := range verifiable() {
			if a, err := verify.Lookup(name); err == nil {
				if p, err := verify.Find(a); err == nil {
					found = append(found, p)
				}
			}
		}
		if len(found) == 0 {
			return nil, cli.WithHint(errors.New("no supported agent is on PATH"), fmt.Sprintf("supported agents: %v", verifiable()))
		}
		return found, nil
	}
	for _, name := range names {
		if d, ok := dialect.FindAgent(name); ok {
			name = d.Name // accept an alias
		}
		a, err := verify.Lookup(name)
		if err != nil {
			return nil, cli.Usage(err)
		}
		p, err := verify.Find(a)
		if program != "" {
			var abs string
			abs, err = filepath.Abs(program)
			p = verify.Program{Agent: a, Command: []string{abs}}
		}
		if err != nil {
			return nil, cli.WithHint(err, "pass its program with --program FILE")
		}
		found = append(found, p)
	}
	return found, nil
}

func (c *console) printReport(r *verify.Report) {
	fmt.Fprintf(c.Out, "%s %s on %s\n", c.Paint(typeset.Bold, r.Agent), printable.Text(r.Version), r.System)
	var quiet []string
	var rows [][]string
	for _, row := range r.Rows {
		switch {
		case row.What == "fires" && row.Seen != "yes":
			quiet = append(quiet, row.Event)
		case row.What == "fires":
		case row.OK:
			rows = append(rows, []string{"ok", row.Event, row.What, row.Seen})
		default:
			rows = append(rows, []string{"NOT", row.Event, row.What, row.Seen + ", promised: " + row.Claim})
		}
	}
	c.printLines(typeset.Table(0, []typeset.Column{{Left: true}, {Left: true}, {Left: true}, {Left: true}}, rows))
	if len(quiet) > 0 {
		slices.Sort(quiet)
		fmt.Fprintf(c.Out, "  %s\n", c.Paint(typeset.Dim, fmt.Sprintf("did not fire in these runs: %v", quiet)))
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(c.Out, "  %s %s\n", c.Paint(typeset.Red, "problem:"), cli.Indent(problem, "  ")[2:])
	}
}
