package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/local"
)

// installFlags are the common flags of install and uninstall.
type installFlags struct {
	scope       string
	dryRun, yes bool
	remove      bool // uninstall
	digest      string
	asked       bool // the user has seen the plan
}

func (f *installFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.scope, "scope", "user", "`SCOPE` of the agent settings: user, project or managed")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the changes without writing them")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	cmd.ValidArgsFunction = completeAgents
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]cobra.Completion{string(install.User), string(install.Project), string(install.Managed)}, cobra.ShellCompDirectiveNoFileComp))
}

func newInstall(c *console) *cobra.Command {
	var flags installFlags
	var failClosed bool
	cmd := &cobra.Command{
		Use:   "install [AGENT...]",
		Short: "Add Grapnel to the settings of agents",
		Long: `Add one entry per event to the settings file of an agent. All other bytes are kept, and a
backup is written. Without arguments, the command finds the agents of this machine. For each
agent it asks first: yes, no (the default), or d for a diff, after which it asks again. --yes does
not ask. Installing again changes only what is out of date.

The entries name grapnel-hook by the path of this program as you typed it, or by a link on PATH
that stays the same when a package manager upgrades Grapnel.`,
		Example: "  grapnel install\n  grapnel install claude-code codex\n  grapnel install gemini-cli --dry-run",
		RunE: func(cmd *cobra.Command, agents []string) error {
			req, err := c.installRequest(&flags, agents)
			if err != nil {
				return err
			}
			if req.Program, err = install.HookProgram(req.Scope); err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			needs := install.PolicyNeeds(place)
			req.Events, req.Timeout, req.Approve = needs.Events, needs.Timeout, needs.Approve
			req.Policy, req.FailClosed = place.Policy, failClosed
			req.KeepClosed = !cmd.Flags().Changed("fail-closed")
			if len(agents) == 0 && !flags.yes && !flags.dryRun && !cli.Terminal(c.In) {
				return cli.Usage(cli.WithHint(errors.New("no agents given, and asking for them needs a terminal"), "pass the names of agents, or --yes for all detected agents"))
			}
			req.Confirm = c.confirm(&flags, agents)
			res, err := install.Install(cmd.Context(), req)
			if err := c.reportInstall(&flags, res, err); err != nil {
				return err
			}
			c.nextStep(&flags, place, res)
			c.unguarded(res)
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&failClosed, "fail-closed", false, "let agents block if Grapnel itself fails, if they support it; default: as installed")
	return c.jsonFlag(cmd)
}

func newUninstall(c *console) *cobra.Command {
	flags := installFlags{remove: true}
	var all bool
	cmd := &cobra.Command{
		Use:   "uninstall [AGENT...|--all]",
		Short: "Remove Grapnel from the settings of agents",
		Long: `Remove what install added and nothing else. A settings file that was not edited since then
becomes the same as before, byte for byte.

Without a terminal, the command needs the digest that it prints with --dry-run. Below the process of
an agent, it only shows the changes, because a person should decide.`,
		Example: `  grapnel uninstall claude-code
  grapnel uninstall --all --dry-run
  grapnel uninstall --all --digest sha256:3d1f...`,
		RunE: func(cmd *cobra.Command, agents []string) error {
			if all == (len(agents) > 0) {
				return cli.Usage(cli.WithHint(errors.New("uninstall needs the names of agents, or --all"), "for example: grapnel uninstall claude-code"))
			}
			req, err := c.installRequest(&flags, agents)
			if err != nil {
				return err
			}
			req.All = all
			if !flags.dryRun {
				if err := c.mayUninstall(cmd.Context(), req, flags.digest); err != nil {
					return err
				}
			}
			req.Confirm = c.confirm(&flags, agents)
			res, err := install.Uninstall(cmd.Context(), req)
			return c.reportInstall(&flags, res, err)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "uninstall from every agent")
	cmd.Flags().StringVar(&flags.digest, "digest", "", "uninstall without a terminal if the changes have this `DIGEST`")
	return c.jsonFlag(cmd)
}

// mayUninstall returns an error if an agent runs the command, or if no person has seen the changes:
// there is no terminal, and the changes have another digest.
func (c *console) mayUninstall(ctx context.Context, req install.Request, digest string) error {
	if err := c.notByAgent("uninstall Grapnel"); err != nil {
		return err
	}
	if digest == "" && cli.Terminal(c.In) {
		return nil
	}
	req.DryRun = true
	plan, err := install.Uninstall(ctx, req)
	switch {
	case plan == nil:
		return installError(err)
	case digest == plan.Digest: // both are empty if there is nothing to change
		return nil
	case digest != "":
		return cli.WithHint(errors.New("cannot uninstall: the changes have another digest"), "review them again with --dry-run")
	}
	return cli.WithHint(errors.New("cannot uninstall: confirmation needs a terminal"), "run it in a terminal, or pass the --digest that it prints with --dry-run")
}

// reportInstall prints the completed changes, even if an error followed.
func (c *console) reportInstall(flags *installFlags, res *install.Result, err error) error {
	if err == nil || res != nil && len(res.Files) > 0 {
		if err := c.printInstall(flags, res); err != nil {
			return err
		}
	}
	return installError(err)
}

func installError(err error) error {
	if errors.Is(err, install.ErrUsage) {
		return cli.Usage(err)
	}
	return err
}

func (c *console) installRequest(flags *installFlags, agents []string) (install.Request, error) {
	dir, err := cli.WorkDir()
	if err != nil {
		return install.Request{}, err
	}
	return install.Request{
		Agents: agents, Scope: install.Scope(flags.scope), Root: c.Root, ProjectDir: dir, DryRun: flags.dryRun, Version: hookcmd.Version,
	}, nil
}

// confirm returns a function that asks about the changes of one agent. It is nil if the user wants
// no questions, or named the agents and stdin is not a terminal.
func (c *console) confirm(flags *installFlags, agents []string) func(*install.Result, []install.FileResult) (bool, error) {
	if flags.yes || flags.digest != "" || len(agents) > 0 && !cli.Terminal(c.In) {
		return nil
	}
	return func(plan *install.Result, files []install.FileResult) (bool, error) {
		out := c.Dialog()
		if !flags.asked {
			c.printSkipped(out, plan)
			flags.asked = true
		}
		fmt.Fprintln(out, flags.summary(files, false))
		question := "  write it?"
		if flags.remove {
			question = "  remove them?"
		}
		for {
			switch c.Prompt(question + " [y/N/d] ") {
			case "y", "yes":
				return true, nil
			case "n", "no", "":
				return false, nil
			case "d", "diff":
				c.printEdits(out, files)
			}
		}
	}
}

// printSkipped names the agents that are not changed, and why.
func (c *console) printSkipped(w io.Writer, res *install.Result) {
	for _, s := range res.Skipped {
		c.WrapTo(w, fmt.Sprintf("%s: skipped: %s", s.Agent, cli.Indent(s.Reason, "  ")[2:]), "  ")
	}
}

// summary describes the changes of one agent in one line. done means that they are written.
func (f *installFlags) summary(files []install.FileResult, done bool) string {
	agent := files[0].Agent
	if v := files[0].Version; v != "" {
		agent += " " + v
	}
	hooks := 0
	for i := range files {
		hooks += len(files[i].Events)
	}
	text := " in "
	switch {
	case f.remove && done:
		text = " removed from "
	case f.remove:
		text = " to remove from "
	}
	text = printable.Line(agent) + ": " + printable.Count(hooks, "hook") + text + placeOf(files)
	if f.dryRun {
		text += ", not written (--dry-run)"
	}
	return text
}

// placeOf names the file with the hooks of an agent, or the directory if there is a file per event.
func placeOf(files []install.FileResult) string {
	var paths []string
	for i := range files {
		if len(files[i].Events) > 0 {
			paths = append(paths, cli.Path(files[i].File))
		}
	}
	switch len(paths) {
	case 0:
		return cli.Path(files[len(files)-1].File)
	case 1, 2:
		return strings.Join(paths, " and ")
	}
	return filepath.Dir(paths[0])
}

// printEdits shows the changes of one agent.
func (c *console) printEdits(w io.Writer, files []install.FileResult) {
	for i := range files {
		for line := range strings.Lines(printable.Text(install.Brief(files[i].Diff, files[i].Events))) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "+"):
				line = c.Paint(typeset.Green, line)
			case strings.HasPrefix(line, "-"):
				line = c.Paint(typeset.Red, line)
			}
			fmt.Fprintln(w, line)
		}
	}
}

func (c *console) printInstall(flags *installFlags, res *install.Result) error {
	agents := res.Agents()
	declined := slices.ContainsFunc(res.Files, func(f install.FileResult) bool { return f.Declined }) && !res.Applied
	if c.JSON {
		if err := c.PrintJSON(res); err != nil || !declined {
			return err
		}
		return cli.ErrFailed
	}
	if !flags.asked {
		c.printSkipped(c.Out, res)
	}
	for _, files := range agents {
		c.printAgent(flags, res, files)
	}
	for _, note := range res.Notes {
		fmt.Fprintln(c.Out, note)
	}
	if res.Digest != "" {
		fmt.Fprintf(c.Out, "digest %s\n", res.Digest)
	}
	if declined {
		return cli.ErrFailed
	}
	return nil
}

// printAgent prints the result for one agent, and the steps that are left for the user.
func (c *console) printAgent(flags *installFlags, res *install.Result, files []install.FileResult) {
	changed := slices.ContainsFunc(files, func(f install.FileResult) bool { return f.Changed })
	declined := slices.ContainsFunc(files, func(f install.FileResult) bool { return f.Declined })
	switch {
	case declined:
		fmt.Fprintf(c.Out, "%s: nothing was written\n", files[0].Agent)
		return
	case !changed:
		fmt.Fprintf(c.Out, "%s: nothing to change in %s\n", files[0].Agent, placeOf(files))
	case !res.Applied && !flags.dryRun: // the others were declined
		return
	case !flags.asked:
		fmt.Fprintln(c.Out, flags.summary(files, !flags.dryRun))
	case flags.remove:
		fmt.Fprintf(c.Out, "%s: %s\n", files[0].Agent, c.Paint(typeset.Green, "uninstalled"))
	default:
		fmt.Fprintf(c.Out, "%s: %s\n", files[0].Agent, c.Paint(typeset.Green, "installed"))
	}
	if flags.dryRun {
		c.printEdits(c.Out, files)
	}
	for i := range files {
		if files[i].Backup != "" && !flags.yes {
			fmt.Fprintf(c.Out, "  backup: %s\n", cli.Path(files[i].Backup))
		}
		for _, note := range files[i].Notes {
			c.Wrap(cli.Indent(note, "  "), "    ")
		}
	}
}

// nextStep names the next command of a user who has installed Grapnel.
func (c *console) nextStep(flags *installFlags, place local.Place, res *install.Result) {
	_, err := os.Stat(place.Policy)
	switch {
	case c.JSON:
	case errors.Is(err, fs.ErrNotExist) && len(place.ManagedFiles()) == 0:
		fmt.Fprintf(c.Out, "next: \"grapnel init\" writes a policy to %s; without a policy, nothing is guarded\n", cli.Path(place.Policy))
	case res.Applied && !flags.dryRun:
		fmt.Fprintln(c.Out, "next: \"grapnel doctor\" checks that the agents use the hooks")
	}
}

// unguarded says last which agents do not run the hooks yet.
func (c *console) unguarded(res *install.Result) {
	if c.JSON || !res.Applied {
		return
	}
	const title = "not guarded yet:"
	for _, f := range res.Files {
		if f.Unguarded == "" || f.Declined || !f.Changed {
			continue
		}
		for i, line := range printable.Wrap(title+" "+f.Agent+": "+f.Unguarded, c.Columns(), "  ") {
			if i == 0 {
				line = c.Paint(typeset.Red, title) + strings.TrimPrefix(line, title)
			}
			fmt.Fprintln(c.Out, line)
		}
	}
}

func completeAgents(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return install.Names(), cobra.ShellCompDirectiveNoFileComp
}
