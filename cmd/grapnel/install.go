package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
)

// installFlags are the common flags of install and uninstall.
type installFlags struct {
	scope       string
	dryRun, yes bool
	asked       bool // the user has seen the plan
	declined    bool // and declined it
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
	var via string
	cmd := &cobra.Command{
		Use:   "install [AGENT...]",
		Short: "Add Grapnel to the settings of agents",
		Long: `Add one entry per event to the settings file of an agent, and show the difference. All other
bytes are kept, and a backup is written. Without arguments, the command finds the agents of
this machine and asks. Installing again changes only what is out of date.`,
		Example: "  grapnel install\n  grapnel install claude-code codex\n  grapnel install gemini-cli --dry-run",
		RunE: func(cmd *cobra.Command, agents []string) error {
			req, err := c.installRequest(&flags, agents)
			if err != nil {
				return err
			}
			if req.Program, err = install.HookProgram(); err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			req.Policy, req.FailClosed, req.Events, req.Via = place.Policy, failClosed, install.PolicyEvents(place), install.Via(via)
			req.Timeout = install.PolicyTimeout(place)
			req.KeepClosed = !cmd.Flags().Changed("fail-closed")
			if req.Programs = install.PolicyPrograms(place); via != "" && req.Via != install.ViaCommand && req.Via != install.ViaHTTP {
				return cli.Usage(fmt.Errorf("unknown --via %q, use %s or %s", via, install.ViaCommand, install.ViaHTTP))
			}
			if len(agents) == 0 && !flags.yes && !flags.dryRun && !cli.Terminal(c.In) {
				return cli.Usage(cli.WithHint(errors.New("no agents given, and asking for them needs a terminal"), "pass the names of agents, or --yes for all detected agents"))
			}
			req.Confirm = c.confirm(&flags, agents)
			res, err := install.Install(cmd.Context(), req)
			if err := c.reportInstall(&flags, res, "installed", err); err != nil {
				return err
			}
			if _, err := os.Stat(place.Policy); errors.Is(err, fs.ErrNotExist) && len(place.ManagedFiles()) == 0 && !c.JSON {
				fmt.Fprintf(c.Out, "no policy exists, so nothing is guarded: grapnel init writes %s\n", place.Policy)
			}
			c.warnWithoutDaemon(cmd.Context(), place, res)
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&failClosed, "fail-closed", false, "let agents block if Grapnel itself fails, if they support it; default: as installed")
	cmd.Flags().StringVar(&via, "via", "", "`WAY` to call Grapnel: command or http (default: as installed, else command)")
	_ = cmd.RegisterFlagCompletionFunc("via", cobra.FixedCompletions([]cobra.Completion{string(install.ViaCommand), string(install.ViaHTTP)}, cobra.ShellCompDirectiveNoFileComp))
	return c.jsonFlag(cmd)
}

func newUninstall(c *console) *cobra.Command {
	var flags installFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "uninstall [AGENT...|--all]",
		Short: "Remove Grapnel from the settings of agents",
		Long: `Remove what install added and nothing else. A settings file that was not edited since then
becomes the same as before, byte for byte.`,
		Example: "  grapnel uninstall claude-code\n  grapnel uninstall --all --dry-run",
		RunE: func(cmd *cobra.Command, agents []string) error {
			if all && !flags.yes && !flags.dryRun && !cli.Terminal(c.In) {
				return cli.Usage(cli.WithHint(errors.New("confirmation needs a terminal"), "pass --yes to remove Grapnel from all agents"))
			}
			if all == (len(agents) > 0) {
				return cli.Usage(cli.WithHint(errors.New("uninstall needs the names of agents, or --all"), "for example: grapnel uninstall claude-code"))
			}
			req, err := c.installRequest(&flags, agents)
			if err != nil {
				return err
			}
			req.All = all
			req.Confirm = c.confirm(&flags, agents)
			res, err := install.Uninstall(cmd.Context(), req)
			return c.reportInstall(&flags, res, "uninstalled", err)
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "uninstall from every agent")
	return c.jsonFlag(cmd)
}

// reportInstall prints the completed changes, even if an error followed.
func (c *console) reportInstall(flags *installFlags, res *install.Result, verb string, err error) error {
	if err == nil || res != nil && len(res.Files) > 0 {
		if err := c.printInstall(flags, res, verb); err != nil {
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

// confirm returns a function that shows the plan and asks for consent. It does not ask if the
// user named the agents and stdin is not a terminal.
func (c *console) confirm(flags *installFlags, agents []string) func(*install.Result) (bool, error) {
	return func(res *install.Result) (bool, error) {
		if flags.yes || len(agents) > 0 && !cli.Terminal(c.In) {
			return true, nil
		}
		flags.asked = true
		if c.JSON {
			c.printDiffs(c.Err, res) // stdout is only for the result
		} else {
			c.printDiffs(c.Out, res)
		}
		flags.declined = !c.Ask("Write this?")
		return !flags.declined, nil
	}
}

func (c *console) printDiffs(w io.Writer, res *install.Result) {
	for _, f := range res.Files {
		if f.Diff != "" {
			fmt.Fprintln(w, f.Diff)
		}
	}
	printCosts(w, res)
}

func (c *console) printInstall(flags *installFlags, res *install.Result, verb string) error {
	if c.JSON {
		if err := c.PrintJSON(res); err != nil || !flags.declined {
			return err
		}
		return cli.ErrFailed
	}
	if flags.declined {
		fmt.Fprintln(c.Out, "nothing was written")
		return cli.ErrFailed
	}
	if !flags.asked {
		c.printDiffs(c.Out, res)
	}
	for _, f := range res.Files {
		switch {
		case !f.Changed:
			fmt.Fprintf(c.Out, "%s: nothing to change in %s\n", f.Agent, f.File)
		case !res.Applied:
			fmt.Fprintf(c.Out, "%s: %s would change\n", f.Agent, f.File)
		default:
			events := ""
			if len(f.Events) > 0 { // helper files next to the hook files have no events
				events = " " + printable.Count(len(f.Events), "event") + ","
			}
			fmt.Fprintf(c.Out, "%s: %s,%s %s\n", f.Agent, c.Paint(cli.Green, verb), events, f.File)
		}
		if f.Backup != "" {
			fmt.Fprintf(c.Out, "  backup: %s\n", f.Backup)
		}
		for _, note := range f.Notes {
			fmt.Fprintf(c.Out, "  %s\n", cli.Indent(note, "  ")[2:])
		}
	}
	for _, note := range res.Notes {
		fmt.Fprintln(c.Out, note)
	}
	return nil
}

func completeAgents(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return install.Names(), cobra.ShellCompDirectiveNoFileComp
}
