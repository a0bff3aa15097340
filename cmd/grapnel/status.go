package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/doctor"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

func newStatus(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "status",
		Short: "Show active policies, installed agents and recent problems",
		Long: `Show your active policies, the active policies of the current project, the agents that are set
up, and for the last 24 hours: decisions, hooks that failed open, and slow hooks.

Exit code 0: success, also with warnings; 1: an agent cannot start grapnel-hook.`,
		Example: "  grapnel status\n  grapnel status --json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			s, err := doctor.Glance(cmd.Context(), place, c.Root)
			if err != nil {
				return err
			}
			if c.JSON {
				err = c.PrintJSON(s)
			} else {
				c.printStatus(s)
			}
			if err == nil && s.Dead() {
				err = cli.ErrFailed
			}
			return err
		},
	})
}

func (c *console) printStatus(s *doctor.Status) {
	fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "policies"))
	c.PrintPolicies(s.Policies)
	if s.OnlyManaged != "" {
		c.Wrap("  "+printable.Text(strings.TrimPrefix(s.OnlyManaged, "grapnel: ")), "    ")
	}
	fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "agents"))
	if len(s.Installs) == 0 {
		fmt.Fprintln(c.Out, "  none")
	}
	for _, i := range s.Installs {
		c.PrintFile(fmt.Sprintf("  %-13s %-7s %2d events  ", i.Agent, i.Scope, i.Events), i.File, "")
		for _, note := range i.Notes {
			c.Wrap("    "+printable.Text(note), "      ")
		}
	}
	if len(s.Grants) > 0 {
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "allowed calls"))
	}
	for i := range s.Grants {
		c.printGrant(&s.Grants[i], "  ")
	}
	if d := s.Daemon; d.PID != 0 { // a daemon is optional
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "daemon"))
		fmt.Fprintf(c.Out, "  %-13s process %d, version %s\n", d.State, d.PID, printable.Line(cmp.Or(d.Version, "unknown")))
	}
	if len(s.Forward) > 0 {
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "forwarded Records"))
	}
	for i := range s.Forward {
		c.Wrap("  "+printable.Text(s.Forward[i].To+": "+s.Forward[i].String()), "    ")
	}
	if s.Daemon.PID != 0 || s.Keep != journal.DefaultLimits {
		fmt.Fprintf(c.Out, "%s\n  %v\n", c.Paint(typeset.Bold, "retention"), s.Keep)
	}
	if len(s.Sandbox) > 0 {
		fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "sandboxed programs"))
	}
	for _, h := range s.Sandbox {
		c.Wrap(fmt.Sprintf("  %-24s %s", printable.Line(h.Hook), printable.Line(h.Sandbox)), "    ")
	}
	fmt.Fprintln(c.Out, c.Paint(typeset.Bold, "last 24 hours"))
	c.Wrap("  "+counts(&s.Day), "    ")
	slow := s.Day.Hooks[:min(5, len(s.Day.Hooks))]
	labels := hookLabels(slow)
	width := 24
	for _, name := range labels {
		width = max(width, printable.Columns(name))
	}
	if room := c.Columns(); room > 0 {
		width = min(width, max(12, room-40))
	}
	for i, h := range slow {
		fmt.Fprintf(c.Out, "  %s %4d runs  %3d errors  p95 %.1f ms\n", typeset.Left(labels[i], width), h.Runs, h.Errors, h.P95)
	}
	if s.Elsewhere != "" {
		c.Wrap("note: "+printable.Text(s.Elsewhere), "  ")
	}
	for _, w := range s.Warnings {
		if w.Agent != "" {
			w.What = w.Agent + ": " + w.What
		}
		c.Wrap("warning: "+printable.Line(w.What), "  ")
		if w.Why != "" {
			c.Wrap("  "+printable.Line(w.Why), "  ")
		}
		if w.Hint != "" {
			c.Wrap("  hint: "+printable.Line(w.Hint), "  ")
		}
	}
}
