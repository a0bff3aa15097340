package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/local"
)

func newDaemon(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Manage the background daemon",
		Long: `The daemon is "grapnel serve" in the background. It replies to grapnel-hook with policies that
stay loaded and workers that stay running, sends deliveries, and keeps an index of the log. It is
optional: without it, or if it dies, grapnel-hook gives the same replies itself.`,
		Example: "  grapnel daemon start\n  grapnel daemon status\n  grapnel daemon logs -f",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDaemonStart(c), newDaemonStop(c), newDaemonRestart(c), newDaemonStatus(c), newDaemonLogs(c), newDaemonUnit(c))
	return cmd
}

func newDaemonStart(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "start",
		Short: "Start the daemon if it does not run",
		Long: `Start "grapnel serve" in a separate session and wait until it replies. Its log is
STATE/daemon/log. If a daemon already runs, the command says so and succeeds.

The daemon does not start again after a reboot: "grapnel daemon unit" prints what systemd and
launchd need for that.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			return c.startDaemon(cmd.Context(), place)
		},
	}
}

func newDaemonStop(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon",
		Long: `Ask the daemon to end (SIGTERM), and wait. It finishes its current replies and ends its workers.
After that, grapnel-hook replies itself. The command refuses below the process of an agent.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.notByAgent("stop the daemon"); err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			return c.stopDaemon(cmd.Context(), place)
		},
	}
}

func newDaemonRestart(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "restart",
		Short: "Restart the daemon",
		Long: `Stop the daemon if it runs, and start it. Use it after an update. The command refuses below the
process of an agent.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.notByAgent("restart the daemon"); err != nil {
				return err
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if err := c.stopDaemon(cmd.Context(), place); err != nil {
				return err
			}
			return c.startDaemon(cmd.Context(), place)
		},
	}
}

func newDaemonStatus(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "status",
		Short: "Show the state of the daemon",
		Long: `Show the process, version, memory and CPU time of the daemon, and its own report.

Exit code 0: it runs; 1: it does not run, or does not reply.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			r := control.Status(cmd.Context(), place)
			if c.JSON {
				err = c.PrintJSON(r)
			} else {
				c.printDaemon(r)
			}
			if err == nil && !r.Running {
				err = cli.ErrFailed
			}
			return err
		},
	})
}

// startDaemon starts the daemon and prints its state.
func (c *console) startDaemon(ctx context.Context, place local.Place) error {
	d, err := control.Start(ctx, place, c.Root)
	if err != nil {
		return err
	}
	what, version := "runs", d.Text("version")
	if d.Already {
		what = "already runs"
	}
	_, err = fmt.Fprintf(c.Out, "the daemon %s: version %s, process %d, on %s\n", what, printable.Line(version), d.PID, printable.Line(d.Socket))
	if version != hookcmd.Version {
		fmt.Fprintf(c.Err, "grapnel: hint: this program has version %s, and its hooks do not use this daemon: run \"grapnel daemon restart\"\n", hookcmd.Version)
	}
	return err
}

// stopDaemon stops the daemon and prints the result.
func (c *console) stopDaemon(ctx context.Context, place local.Place) error {
	text, err := control.Stop(ctx, place)
	if err == nil {
		_, err = fmt.Fprintln(c.Out, text)
	}
	return err
}

func (c *console) printDaemon(r *control.Report) {
	line := func(name, text string) { fmt.Fprintf(c.Out, "%-10s %s\n", printable.Line(name), printable.Line(text)) }
	state := map[string]string{
		"running": c.Paint(typeset.Green, "running"), "silent": c.Paint(typeset.Red, "does not answer"), "dead": c.Paint(typeset.Yellow, "not running, it has died"), "absent": "not running",
		"unknown": c.Paint(typeset.Red, "unknown"),
	}[r.State]
	if r.PID != 0 {
		state += fmt.Sprintf(", process %d", r.PID)
	}
	fmt.Fprintf(c.Out, "%-10s %s\n", "daemon", state)
	if r.Version != "" {
		line("version", r.Version)
	}
	if !r.Since.IsZero() {
		line("since", fmt.Sprintf("%s (%v)", minute(r.Since), max(0, time.Since(r.Since)).Round(time.Second)))
	}
	line("socket", r.Socket)
	if r.Memory > 0 {
		line("cost", fmt.Sprintf("%s of memory, %.2f s of CPU time", size(r.Memory), r.CPU))
	}
	if r.Log > 0 {
		line("log", size(r.Log))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Health)) {
		if !slices.Contains([]string{"version", "pid", "since"}, name) {
			line(name, string(r.Health[name]))
		}
	}
	if r.Problem != "" && r.State != "absent" && r.State != "dead" {
		fmt.Fprintf(c.Out, "%s %s\n", c.Paint(typeset.Yellow, "warning:"), printable.Line(r.Problem))
	}
	switch r.State {
	case "dead":
		fmt.Fprintln(c.Out, `hint: "grapnel daemon start" starts it, "grapnel daemon stop" removes leftover files; "grapnel daemon logs" may show the cause`)
	case "absent":
		fmt.Fprintln(c.Out, `hint: grapnel-hook answers itself; "grapnel daemon start" starts it`)
	case "silent":
		fmt.Fprintln(c.Out, `hint: grapnel-hook answers itself; "grapnel daemon restart" may help`)
	}
}

func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// size formats a number of bytes with a decimal unit: B, kB, MB or GB.
func size(n int64) string {
	unit := 0
	f := float64(n)
	for f >= 1000 && unit < 3 {
		f, unit = f/1000, unit+1
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', cmp.Or(min(unit, 1), 0), 64), ".0") + []string{" B", " kB", " MB", " GB"}[unit]
}
