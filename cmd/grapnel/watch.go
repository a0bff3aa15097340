package main

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/watch"
	"github.com/grapnel-dev/grapnel/cmd/internal/watch/screen"
)

func newWatch(c *console) *cobra.Command {
	var asked logQuery
	var opts watch.Options
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Watch what all agents do, as it happens",
		Long: "Shows the sessions of all agents, their events as they come, and all that is known\nof the one that is selected: who answered what, how long it took, what was changed.\n" +
			"Needs no daemon, and loses nothing while one starts or stops. ? shows the keys.\n\n" +
			"It begins now; --since begins earlier. The flags that \"grapnel log\" has too say what\nis taken in at all; / filters what is shown of it.",
		Example: "  grapnel watch\n  grapnel watch --since 1h --agent codex\n  grapnel watch --decision block --decision ask --slow 20ms",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := asked.query(cmd)
			if err != nil {
				return err
			}
			switch {
			case opts.Slow <= 0:
				return cli.Usage(cli.WithHint(errors.New("--slow has to be more than nothing"), "100ms is what counts when nothing is said"))
			case opts.Keep <= 0:
				return cli.Usage(cli.WithHint(errors.New("--keep has to be more than nothing"), "5000 is what counts when nothing is said"))
			case !cli.Terminal(c.In) || !cli.Terminal(c.Out) || os.Getenv("TERM") == "dumb":
				return cli.WithHint(errors.New("there is no terminal that could be drawn on"), `run "grapnel log -f": it prints a line for each event`)
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
	cmd.Flags().DurationVar(&opts.Slow, "slow", 100*time.Millisecond, "mark hooks that take this long")
	cmd.Flags().IntVar(&opts.Keep, "keep", 5000, "how many events to keep in sight; older ones fall out")
	return cmd
}
