package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hooks"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/shorten"
)

func newHooks(c *console) *cobra.Command {
	cmd := newHooksList(c)
	cmd.Use = "hooks"
	cmd.Short = "List hooks, and switch single hooks off and on"
	cmd.Example = "  grapnel hooks list --pack secrets\n  grapnel hooks disable no-force-push --reason 'we rewrite history today'\n  grapnel hooks enable no-force-push"
	cmd.AddCommand(newHooksList(c), newHooksDisable(c), newHooksEnable(c))
	return cmd
}

func newHooksList(c *console) *cobra.Command {
	var selected hooks.Selection
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the hooks in force",
		Long: `List the hooks that are in force in this directory, in the order in which they run: source,
state, name, events, priority, timeout and conditions. A rule has no timeout. A hook in observe
mode runs, and its decision has no effect.`,
		Example: "  grapnel hooks list\n  grapnel hooks list --pack secrets --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			list, err := c.hooksHere()
			if err != nil {
				return err
			}
			list = selected.Of(list)
			if c.JSON {
				return c.PrintJSON(append([]hooks.Hook{}, list...))
			}
			c.printHooks(list)
			return nil
		},
	}
	cmd.Flags().StringVar(&selected.Pack, "pack", "", "only hooks of this `PACK`")
	cmd.Flags().StringVar(&selected.Source, "source", "", "only hooks of this `SOURCE`: a file, or a scope such as user or project")
	return c.jsonFlag(cmd)
}

// hooksHere lists the hooks in force in the working directory.
func (c *console) hooksHere() ([]hooks.Hook, error) {
	place, err := c.Place()
	if err != nil {
		return nil, err
	}
	dir, err := cli.WorkDir()
	if err != nil {
		return nil, err
	}
	list, err := hooks.List(place, dir)
	if err != nil && list != nil {
		c.Warn(err)
		err = nil
	}
	return list, err
}

func (c *console) printHooks(list []hooks.Hook) {
	if len(list) == 0 {
		fmt.Fprintln(c.Out, "no hooks")
		return
	}
	widest := 0
	for i := range list {
		widest = min(max(widest, len(list[i].Name)), 32)
	}
	source := ""
	for i := range list {
		h := &list[i]
		if h.Source != source {
			source = h.Source
			fmt.Fprintf(c.Out, "%s (%s)\n", c.Paint(cli.Bold, printable.Line(h.Source)), h.Scope)
		}
		events := "all events"
		if len(h.On) > 0 {
			events = string(h.On[0])
			if more := len(h.On) - 1; more > 0 {
				events += fmt.Sprintf(" +%d", more)
			}
		}
		parts := []string{}
		if h.State == hooks.Off {
			parts = append(parts, "off since "+h.Since.Local().Format("2006-01-02 15:04")+": "+h.Reason)
		}
		order := fmt.Sprintf("priority %d", h.Priority)
		if h.Timeout > 0 {
			order += fmt.Sprintf(", timeout %gs", h.Timeout)
		}
		parts = append(parts, order)
		parts = append(parts, h.Matches...)
		line := fmt.Sprintf("  %-7s  %-*s  %-18s  %s", h.State, widest, printable.Line(h.Name), events, printable.Line(strings.Join(parts, "; ")))
		if cli.Terminal(c.Out) {
			line = shorten.To(line, cli.Width(c.Out)-1)
		}
		fmt.Fprintln(c.Out, strings.TrimRight(line, " "))
	}
}

func newHooksDisable(c *console) *cobra.Command {
	var selected hooks.Selection
	var reason string
	cmd := &cobra.Command{
		Use:   "disable NAME --reason TEXT",
		Short: "Switch a hook off",
		Long: `Switch a hook off for you, in all agents, until "grapnel hooks enable". Its policy file stays as
it is. At each session start, a message names the hooks that are off. Managed hooks stay on. The
command needs a terminal, because a person and not an agent should decide about it.`,
		Example: "  grapnel hooks disable no-force-push --reason 'we rewrite history today'",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return cli.Usage(cli.WithHint(errors.New("no reason given"), "--reason 'why the hook is off'"))
			}
			list, err := c.hooksHere()
			if err != nil {
				return err
			}
			selected.Name = args[0]
			h, err := selected.One(list)
			if err != nil {
				return err
			}
			if err := h.MayDisable(); err != nil {
				return err
			}
			if !cli.Terminal(c.In) || !cli.Terminal(c.Out) {
				return cli.WithHint(errors.New("only a user at a terminal can switch a hook off"), "run it in a terminal, without pipes; to stop a hook from blocking for everyone, set mode: observe in its policy")
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if err := recordPause(cmd.Context(), place, "HookOff", fmt.Sprintf("%s was switched off: %s", h.Hook, reason)); err != nil {
				return err
			}
			if err := hooks.Disable(place, h, reason); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "%s is off; \"grapnel hooks enable %[1]s\" switches it on\n", printable.Line(h.Name))
			return nil
		},
	}
	cmd.Flags().StringVar(&selected.Pack, "pack", "", "the hook of this `PACK`")
	cmd.Flags().StringVar(&selected.Source, "source", "", "the hook of this `SOURCE`: a file, or a scope such as user or project")
	cmd.Flags().StringVar(&reason, "reason", "", "why the hook is off: a `TEXT` for the log")
	return cmd
}

func newHooksEnable(c *console) *cobra.Command {
	return &cobra.Command{
		Use:     "enable NAME",
		Short:   "Switch a hook on again",
		Example: "  grapnel hooks enable no-force-push",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			on, err := hooks.Enable(place, args[0])
			if err != nil {
				return err
			}
			for _, name := range on {
				fmt.Fprintf(c.Out, "%s is on\n", printable.Line(name))
				err = errors.Join(err, recordPause(cmd.Context(), place, "HookOn", name+" was switched on"))
			}
			return err
		},
	}
}
