package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/logfile"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
)

func newDaemonLogs(c *console) *cobra.Command {
	var follow bool
	var n int
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of the daemon",
		Long: `Print the end of STATE/daemon/log, the log of a daemon that "grapnel daemon start" started.
At 1 MiB the file becomes STATE/daemon/log.old and replaces the previous one.

A daemon that systemd runs logs to the journal: journalctl --user -u grapnel`,
		Example: "  grapnel daemon logs -n 200\n  grapnel daemon logs -f",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 0 {
				return cli.Usage(cli.WithHint(fmt.Errorf("-n %d: the number of lines must not be negative", n), "grapnel daemon logs -n 200"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			name := service.File(place, "log")
			t := logfile.NewTail(name, c.Out)
			defer t.Close()
			err = t.Last(n)
			if errors.Is(err, fs.ErrNotExist) && !follow {
				return cli.WithHint(fmt.Errorf("no log %s", name), `"grapnel daemon start" writes one; a daemon of systemd writes to the journal: journalctl --user -u grapnel`)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot read the log: %w", err)
			}
			if follow {
				return t.Follow(ctx)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines")
	cmd.Flags().IntVarP(&n, "lines", "n", 50, "print the last `N` lines")
	return cmd
}
