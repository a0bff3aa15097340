package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/hooks"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/records"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func newHooks(c *console) *cobra.Command {
	cmd := newHooksList(c)
	cmd.Use = "hooks [TEXT]"
	cmd.Short = "List hooks, and switch single hooks off and on"
	cmd.Example = "  grapnel hooks list --pack secrets\n  grapnel hooks disable no-force-push --reason 'we rewrite history today'\n  grapnel hooks enable no-force-push"
	cmd.AddCommand(newHooksList(c), newHooksDisable(c), newHooksEnable(c))
	return cmd
}

func newHooksList(c *console) *cobra.Command {
	var selected hooks.Selection
	since := "7d"
	cmd := &cobra.Command{
		Use:   "list [TEXT]",
		Short: "List the hooks in force",
		Long: `List the hooks that are in force in this directory, in the order in which they run: state,
name, effect, how often the hook matched an event, events, reason, incident and conditions. A
hook in observe mode runs, and its decision has no effect.

With a TEXT, list only hooks that contain it: "grapnel hooks cron" finds the rules about cron.
Conditions are cut at the right edge of the terminal, unless only one hook is listed. In a
pipe, lines have the width of $COLUMNS, or 80. Programs should use --json, which has all.

The numbers of matches come from the Records of the last 7 days, or --since.`,
		Example: "  grapnel hooks list\n  grapnel hooks list crontab\n  grapnel hooks list --pack secrets --json",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			begin, err := ago(since)
			if err != nil {
				return err
			}
			list, err := c.hooksHere()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				selected.Text = args[0]
			}
			list = selected.Of(list)
			if len(list) > 0 {
				if err := c.countMatches(cmd.Context(), list, begin); err != nil {
					return err
				}
			}
			if c.JSON {
				return c.PrintJSON(append([]hooks.Hook{}, list...))
			}
			c.printHooks(list, since)
			return nil
		},
	}
	cmd.Flags().StringVar(&selected.Pack, "pack", "", "only hooks of this `PACK`")
	cmd.Flags().StringVar(&selected.Source, "source", "", "only hooks of this `SOURCE`: a file, or a scope such as user or project")
	cmd.Flags().StringVar(&since, "since", since, "count matches of the last `DURATION`, such as 1h")
	return c.jsonFlag(cmd)
}

// countMatches sets how often hooks matched since a time.
func (c *console) countMatches(ctx context.Context, list []hooks.Hook, begin time.Time) error {
	place, err := c.Place()
	if err != nil {
		return err
	}
	count, err := records.Log(place).Count(ctx, begin)
	if err != nil {
		c.Warn(fmt.Errorf("the numbers of matches are incomplete: %w", err))
	}
	totals := count.Totals()
	hooks.Count(list, &totals)
	return nil
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

func (c *console) printHooks(list []hooks.Hook, since string) {
	if len(list) == 0 {
		fmt.Fprintln(c.Out, "no hooks")
		return
	}
	width := cli.Width(c.Out)
	wrap := func(text, by string) []string { return printable.Wrap(by+printable.Line(text), width, by) }
	head := "matches are of the last " + since
	if list[0].Matched == nil {
		head = "no Records of the last " + since + ", so it is not known how often hooks matched"
	}
	c.printLines(wrap(head, ""))
	source := ""
	for i := range list {
		h := &list[i]
		if h.Source != source {
			source = h.Source
			path, scope := cli.Path(h.Source), " ("+h.Scope.String()+")"
			if room := c.Columns(); room > 0 { // a reader of a pipe needs the whole path
				path = printable.CutLeft(path, room-len(scope))
			}
			fmt.Fprintln(c.Out, c.Paint(cli.Bold, path)+scope)
		}
		lines := wrap(h.Name+": "+strings.Join(hookFacts(h), ", "), hookIndent)
		lines[0] = fmt.Sprintf("  %-9s", h.State) + lines[0][len(hookIndent):]
		c.printLines(lines)
		if h.State == hooks.Off {
			c.printLines(wrap("off since "+minute(h.Since)+": "+h.OffReason, hookIndent))
		}
		if h.Reason != "" {
			c.printLines(wrap(h.Reason, hookIndent))
		}
		if h.Incident != "" {
			c.printLines(wrap("incident: "+h.Incident, hookIndent))
		}
		for _, condition := range h.Matches {
			lines := wrap(condition, hookIndent)
			if len(list) > 1 {
				lines = []string{printable.Cut(hookIndent+printable.Line(condition), width)}
			}
			c.printLines(lines)
		}
	}
}

// hookIndent is in front of the lines of a hook. It has the width of the longest state.
const hookIndent = "           "

// hookFacts describes a hook in a few words each.
func hookFacts(h *hooks.Hook) []string {
	var facts []string
	if h.Does != "" {
		facts = append(facts, h.Does)
	}
	if m := h.Matched; m != nil {
		times := "matched " + printable.Count(m.Times, "time")
		if m.Would > 0 {
			times += fmt.Sprintf(" (%d would block or ask)", m.Would)
		}
		facts = append(facts, times)
	}
	events := "all events"
	if len(h.On) > 0 {
		events = string(h.On[0])
		if more := len(h.On) - 1; more > 0 {
			events += fmt.Sprintf(" +%d", more)
		}
	}
	facts = append(facts, events)
	if h.State == hooks.Observe {
		by := "set by its policy"
		if h.By == "pause" {
			by = "set by \"grapnel pause\" until " + minute(h.Until)
		}
		facts = append(facts, by)
	}
	if h.Priority != policyfile.DefaultPriority {
		facts = append(facts, fmt.Sprintf("priority %d", h.Priority))
	}
	if h.Timeout > 0 {
		facts = append(facts, fmt.Sprintf("timeout %gs", h.Timeout))
	}
	return facts
}

func (c *console) printLines(lines []string) {
	for _, line := range lines {
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
command needs a terminal and refuses below the process of an agent, because a person should decide.`,
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
			if err := c.byPerson("switch a hook off", "; to stop a hook from blocking for everyone, set mode: observe in its policy", c.In, c.Out); err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if err := records.Note(place, "HookOff", fmt.Sprintf("%s was switched off: %s", h.Hook, reason)); err != nil {
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
				err = errors.Join(err, records.Note(place, "HookOn", name+" was switched on"))
			}
			return err
		},
	}
}
