package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/logfile"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/service"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/shared"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/telemetry"
)

func newServe(c *console) *cobra.Command {
	var logTo, metrics, as string
	var allUsers bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon in the foreground",
		Long: `Run the daemon of this machine in the foreground. grapnel-hook then sends events to it, so
policies are loaded once and workers stay running. The daemon retries deliveries until they
succeed, and keeps an index of the log. It is optional: without it, grapnel-hook gives the same
replies itself.

It listens on STATE/daemon/socket, which only this user can access. "grapnel daemon start" runs
it in the background.

With --all-users, root runs one daemon for all users of the machine. It listens on
` + client.All + `, and starts a process with the rights of each user that sends an event.
It needs Linux. "grapnel daemon unit --all-users" prints a unit for systemd.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			opts := service.Options{Metrics: metrics}
			if as != "" { // before anything reads a file
				if opts.Passed, err = shared.Become(as); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if allUsers {
				return c.serveAll(ctx, logTo, metrics)
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if as != "" {
				logTo = service.File(place, "log")
			}
			if logTo != "" {
				if err := server.Prepare(client.Socket(place.State)); err != nil { // in most cases the directory exists
					return fmt.Errorf("cannot listen: %w", err)
				}
			}
			log, done, err := c.daemonLog(logTo)
			if err != nil {
				return err
			}
			defer done()
			return service.Run(ctx, place, log, opts)
		},
	}
	cmd.Flags().BoolVar(&allUsers, "all-users", false, "run the daemon for all users, as root")
	cmd.Flags().StringVar(&as, "as", "", "become this user (only for --all-users)")
	_ = cmd.Flags().MarkHidden("as")
	cmd.Flags().StringVar(&logTo, "log", "", "log to this `FILE` instead of standard error; rotated at 1 MiB")
	metricsFlag(cmd, &metrics, "also serve metrics for Prometheus on this TCP `ADDR`: a port of loopback, or a host and a port")
	return cmd
}

// serveAll runs the daemon for all users.
func (c *console) serveAll(ctx context.Context, logTo, metrics string) error {
	if c.Root != "" {
		return cli.Usage(errors.New("--all-users and --root cannot be used together"))
	}
	log, done, err := c.daemonLog(logTo)
	if err != nil {
		return err
	}
	defer done()
	return shared.Run(ctx, log, shared.Options{Metrics: metrics})
}

// daemonLog returns the log of a daemon: a file, or standard error if the name is empty.
func (c *console) daemonLog(name string) (log *slog.Logger, done func(), err error) {
	if name == "" {
		log, err = telemetry.NewLogger(c.Err, "text", "info")
		return log, func() {}, err
	}
	file, err := logfile.New(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write the log: %w", err)
	}
	log, err = telemetry.NewLogger(file, "text", "info")
	return log, func() { _ = file.Close() }, err
}

// metricsFlag adds the flag --metrics.
func metricsFlag(cmd *cobra.Command, address *string, usage string) {
	cmd.Flags().Func("metrics", usage, func(text string) (err error) {
		*address, err = service.MetricsAddress(text)
		return err
	})
}
