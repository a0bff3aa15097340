package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/watch"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/watch/screen"
)

func newWatch(c *console) *cobra.Command {
	var asked logQuery
	var opts watch.Options
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch the events of all agents live",
		Long: `Show the sessions of all agents, their events as they arrive, and the details of the selected
event: which hooks decided, how long they took, and what they changed. No daemon is needed, and
no event is missed while one starts or stops. Press ? for the keys.

The display starts with new events; --since starts earlier. The flags of "grapnel log" select
which events are read, and / filters what is shown.`,
		Example: "  grapnel watch\n  grapnel watch --since 1h --agent codex\n  grapnel watch --decision block --decision ask --slow 20ms",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := asked.query(cmd)
			if err != nil {
				return err
			}
			switch {
			case opts.Slow <= 0:
				return cli.Usage(cli.WithHint(errors.New("--slow must be more than 0"), "the default is 100ms"))
			case opts.Keep <= 0:
				return cli.Usage(cli.WithHint(errors.New("--keep must be more than 0"), "the default is 5000"))
			case !cli.Terminal(c.In) || !cli.Terminal(c.Out) || os.Getenv("TERM") == "dumb":
				return cli.WithHint(errors.New("standard input and output must be a terminal"), `run "grapnel log -f": it prints a line for each event`)
			}
			if asked.since == "" {
				query.Since = time.Now()
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			opts.Home, _ = os.UserHomeDir()
			return screen.Run(cmd.Context(), place, query, opts, c.In, cli.FileOf(c.Out))
		},
	}
	asked.flags(cmd)
	cli.DurationVar(cmd.Flags(), &opts.Slow, "slow", 100*time.Millisecond, "mark hooks that take longer than this")
	cmd.Flags().IntVar(&opts.Keep, "keep", 5000, "number of events to keep; older ones are dropped")
	return cmd
}
