package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/hooks"
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
	since, long := "7d", false
	cmd := &cobra.Command{
		Use:   "list [TEXT]",
		Short: "List the hooks in force",
		Long: `List the hooks that are in force in this directory, in the order in which they run, one per
line: state, name, effect, how often the hook matched an event, and events. A hook in observe
mode runs, and its decision has no effect. Hooks of packs that never matched are only counted,
unless a flag or a TEXT selects them.

With a TEXT, list only hooks that contain it: "grapnel hooks cron" finds the rules about cron.
--long adds the reason, the incident and the conditions, as for a single hook. In a pipe, lines
have the width of $COLUMNS, or 80. Programs should use --json, which has all.

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
			switch all := long || len(args) > 0 || selected != (hooks.Selection{}); {
			case long || len(list) == 1:
				c.printHooks(list, since)
			default:
				c.printShort(list, since, all)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&selected.Pack, "pack", "", "only hooks of this `PACK`")
	cmd.Flags().StringVar(&selected.Source, "source", "", "only hooks of this `SOURCE`: a file, or a scope such as user or project")
	cmd.Flags().BoolVar(&long, "long", false, "also print reasons, incidents and conditions")
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

// printShort prints a line for each hook. Without all, it only counts hooks of packs that never matched.
func (c *console) printShort(list []hooks.Hook, since string, all bool) {
	packOf := func(h *hooks.Hook) string {
		_, pack, _ := strings.Cut(h.Source, "#")
		return pack
	}
	shown := func(h *hooks.Hook) bool {
		return all || packOf(h) == "" || h.State == hooks.Off || h.Matched != nil && h.Matched.Times > 0
	}
	c.printHead(list, since)
	list = bySource(list)
	column := 0
	for i := range list {
		if shown(&list[i]) {
			column = max(column, min(printable.Columns(list[i].Name), maxName))
		}
	}
	width, counted := cli.Width(c.Out), 0
	for i := range list {
		h := &list[i]
		if i == 0 || h.Source != list[i-1].Source {
			c.printSource(h)
		}
		if shown(h) {
			name := printable.Line(h.Name)
			line := fmt.Sprintf("  %-9s%s%s  %s", h.State, name, strings.Repeat(" ", max(0, column-printable.Columns(name))), printable.Line(strings.Join(hookFacts(h), ", ")))
			c.printLines([]string{printable.Cut(line, width)})
		} else {
			counted++
		}
		if last := i == len(list)-1 || h.Source != list[i+1].Source; last && counted > 0 {
			what := printable.Count(counted, "hook")
			if h.Matched != nil {
				what += " without a match"
			}
			c.printLines(printable.Wrap("  "+what+": grapnel hooks --pack "+packOf(h), width, "  "))
			counted = 0
		}
	}
}

// bySource returns the hooks with all hooks of one source together. Priorities can separate them.
func bySource(list []hooks.Hook) []hooks.Hook {
	first := map[string]int{}
	for i := range slices.Backward(list) {
		first[list[i].Source] = i
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b hooks.Hook) int { return cmp.Compare(first[a.Source], first[b.Source]) })
}

// maxName is the maximum width of the column of names.
const maxName = 34

func (c *console) printHead(list []hooks.Hook, since string) {
	head := "matches are of the last " + since
	if len(list) > 0 && list[0].Matched == nil {
		head = "no Records of the last " + since + ", so it is not known how often hooks matched"
	}
	if len(list) == 0 {
		head = "no hooks"
	}
	c.printLines(printable.Wrap(head, cli.Width(c.Out), ""))
}

// printSource prints where a hook and the hooks after it are from.
func (c *console) printSource(h *hooks.Hook) {
	path, scope := cli.Path(h.Source), " ("+h.Scope.String()+")"
	if room := c.Columns(); room > 0 { // a reader of a pipe needs the whole path
		path = printable.CutLeft(path, room-len(scope))
	}
	fmt.Fprintln(c.Out, c.Paint(typeset.Bold, path)+scope)
}

// printHooks prints all about each hook.
func (c *console) printHooks(list []hooks.Hook, since string) {
	width := cli.Width(c.Out)
	wrap := func(text, by string) []string { return printable.Wrap(by+printable.Line(text), width, by) }
	c.printHead(list, since)
	for i := range list {
		h := &list[i]
		if i == 0 || h.Source != list[i-1].Source {
			c.printSource(h)
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
