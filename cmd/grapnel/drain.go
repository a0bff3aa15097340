package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/delivery"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/local"
)

func newDrain(c *console) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "Run pending hooks and deliveries now (not needed with a daemon)",
		Long: `Run the hooks that were put off, then send each due delivery once. With --wait, also send
deliveries that become due within that time, such as a second attempt.

Without a daemon, agents start this in the background after events that left work behind.
A daemon does this work itself.`,
		Example: "  grapnel drain --wait 1m",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait < 0 {
				return cli.Usage(cli.WithHint(fmt.Errorf("--wait %v: the time must not be negative", wait), "write a number with a unit: 10s, 1m"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return c.drain(ctx, place, wait)
		},
	}
	cli.DurationVar(cmd.Flags(), &wait, "wait", 0, "also send deliveries that become due within this `DURATION`")
	return c.jsonFlag(cmd)
}

func (c *console) drain(ctx context.Context, place local.Place, wait time.Duration) error {
	done, err := service.Drain(ctx, place, wait)
	shown := c.printDrained(done)
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted: the rest stays pending")
	case err != nil:
		return fmt.Errorf("drain: %w", err)
	default:
		return shown
	}
}

// printDrained prints the result of a drain. It fails if a server has not received all
// deliveries.
func (c *console) printDrained(d *service.Drained) error {
	missed := d.Missed()
	for _, warning := range d.Warnings {
		fmt.Fprintf(c.Err, "grapnel: warning: %s\n", printable.Text(warning))
	}
	if c.JSON {
		if err := c.PrintJSON(d); err != nil {
			return err
		}
	} else if err := c.printSummary(d, missed); err != nil {
		return err
	}
	if len(missed) > 0 {
		return cli.ErrFailed
	}
	return nil
}

func (c *console) printSummary(d *service.Drained, missed []service.Try) error {
	for _, t := range missed {
		what := "again " + t.Result.Next.Local().Format("01-02 15:04:05")
		switch {
		case t.Result.Off:
			what = "its target is disabled"
		case t.Result.State == delivery.Dead:
			what = "given up"
		}
		if _, err := fmt.Fprintf(c.Out, "%s  %s  %s (%s)\n", printable.Text(t.Job.Target), printable.Text(t.Job.ID), oneLine(t.Result.Error), what); err != nil {
			return err
		}
	}
	if d.Busy {
		_, err := fmt.Fprintln(c.Out, "Pending hooks have run. A daemon or another drain sends the deliveries.")
		return err
	}
	_, err := fmt.Fprintf(c.Out, "Pending hooks have run. Deliveries: %d delivered, %d failed, %d dead, %d waiting.\n", d.Delivered, d.Failed+d.Off, d.Dead, d.Waiting)
	return err
}
