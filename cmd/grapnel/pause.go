package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func newPause(c *console) *cobra.Command {
	var off bool
	cmd := &cobra.Command{
		Use:   "pause DURATION | --off",
		Short: "Temporarily switch hooks to log-only",
		Long: `Until the time is over, hooks still run and the log shows what they would have decided, but
their decisions have no effect. Managed policies stay enforced. The maximum is 24h. The command
needs a terminal and refuses below the process of an agent, because a person should decide.`,
		Example: "  grapnel pause 10m\n  grapnel pause --off",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if off == (len(args) > 0) {
				return cli.Usage(cli.WithHint(errors.New("pass a duration or --off"), "grapnel pause 10m"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if off {
				return c.unpause(cmd.Context(), place)
			}
			length, err := policyfile.ParseDuration(args[0])
			if err != nil {
				return cli.Usage(cli.WithHint(fmt.Errorf("%q is not a duration", args[0]), "write a number with a unit: 30s, 10m, 1h"))
			}
			pause, err := pause.New(time.Now(), length)
			if err != nil {
				return cli.Usage(err)
			}
			if err := c.byPerson("pause", "; to stop a single hook from blocking, set mode: observe in its policy", c.In, c.Out); err != nil {
				return err
			}
			return c.pause(cmd.Context(), place, pause)
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "end the pause now")
	return cmd
}

// pause records the pause and then starts it. If the Record cannot be written, the pause does
// not start.
func (c *console) pause(ctx context.Context, place local.Place, pause pause.Pause) error {
	if err := records.Note(place, "Pause", pause.String()); err != nil {
		return err
	}
	if err := pause.Write(place.Pause()); err != nil {
		return fmt.Errorf("cannot pause: %w", err)
	}
	fmt.Fprintf(c.Out, "%v: all hooks except managed ones and self-protection are in observe mode; \"grapnel pause --off\" ends it\n", pause)
	return nil
}

// unpause ends the pause and then records that. Ending a pause must work even if the Record
// cannot be written.
func (c *console) unpause(ctx context.Context, place local.Place) error {
	_, paused := pause.Read(place.Pause(), time.Now())
	err := os.Remove(place.Pause())
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot end the pause: %w", err)
	case !paused:
		fmt.Fprintln(c.Out, "no pause is active: hooks decide")
		return nil
	}
	fmt.Fprintln(c.Out, "the pause is over: hooks decide")
	return records.Note(place, "PauseOff", "the pause was ended")
}
