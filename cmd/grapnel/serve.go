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
	var logTo, metrics string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon of this machine in the foreground. grapnel-hook then sends events to it, so
policies are loaded once and workers stay running. The daemon stores records and deliveries in a
database, and retries deliveries until they succeed. It is optional: without it, grapnel-hook
gives the same replies itself.

It listens on STATE/daemon/socket, which only this user can access. "grapnel daemon start" runs
it in the background.`,
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
				if err := server.Prepare(client.Socket(place.State)); err != nil { // in most cases the directory exists
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
			return service.Run(ctx, place, log, metrics)
		},
	}
	cmd.Flags().StringVar(&logTo, "log", "", "log to this `FILE` instead of standard error; rotated at 1 MiB")
	metricsFlag(cmd, &metrics, "also serve metrics for Prometheus on this TCP `ADDR`: a port of loopback, or a host and a port")
	return cmd
}

// metricsFlag adds the flag --metrics.
func metricsFlag(cmd *cobra.Command, address *string, usage string) {
	cmd.Flags().Func("metrics", usage, func(text string) (err error) {
		*address, err = service.MetricsAddress(text)
		return err
	})
}
