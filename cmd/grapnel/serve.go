package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/logfile"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
)

func newServe(c *console) *cobra.Command {
	var logTo string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer events from one warm process, and keep and deliver what they leave",
		Long: `Serve is the daemon of this machine, in the foreground. With it grapnel-hook asks here, so
that policies are loaded once and workers stay running; Records and deliveries are kept in a
database, and deliveries are tried until they succeed. Without it nothing stops working:
grapnel-hook then answers by itself, with the same bytes.

It listens on STATE/daemon/socket, which only this user can reach. "grapnel daemon start"
runs it in the background.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := c.Err
			if logTo != "" {
				if err := server.Prepare(client.Socket(place.State)); err != nil { // mostly it is there
					return fmt.Errorf("cannot listen: %w", err)
				}
				file, err := logfile.New(logTo)
				if err != nil {
					return fmt.Errorf("cannot write the log: %w", err)
				}
				defer func() { _ = file.Close() }()
				out = file
			}
			log, err := telemetry.NewLogger(out, "text", "info")
			if err != nil {
				return err
			}
			return service.Run(ctx, place, log)
		},
	}
	cmd.Flags().StringVar(&logTo, "log", "", "write to this `FILE`, of 1 MiB at most and with one older one, instead of standard error")
	return cmd
}
