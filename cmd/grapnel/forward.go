package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/backend/nats"
	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/forwarding"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/machines"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/local"
)

func newForward(c *console) *cobra.Command {
	wait := time.Minute
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Send Records to the databases and streams of records.forward now",
		Long: `Send all Records that the targets of records.forward do not have yet, for example as the
last step of a CI job. A daemon sends new Records by itself; then this command waits for it.

Exit code 0: each target has all Records; 1: a target does not.`,
		Example: "  grapnel forward\n  grapnel forward setup postgres://db.example.com/grapnel --days 365",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return c.forward(ctx, place, wait)
		},
	}
	cli.DurationVar(cmd.Flags(), &wait, "wait", wait, "give up after this `DURATION`")
	cmd.AddCommand(newForwardSetup(c))
	return c.jsonFlag(cmd)
}

func (c *console) forward(ctx context.Context, place local.Place, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not all Records were sent within %v", wait))
	defer cancel()
	var beat string
	if targets, err := forwarding.Targets(place); err == nil && len(targets) > 0 {
		if beat, err = machines.Beat(ctx, place); err != nil {
			c.Warn(fmt.Errorf("the heartbeat of this machine is incomplete: %w", err))
		}
	}
	failed := forwarding.Once(ctx, place, beat, slog.New(slog.DiscardHandler)) // errors are returned
	reports, err := forwarding.Reports(context.WithoutCancel(ctx), place)
	switch {
	case failed == nil && err != nil:
		return err
	case len(reports) == 0 && failed == nil:
		return cli.WithHint(errors.New("no policy lists a target"), "add to your policy, for example: records: {forward: [{to: \"postgres://db.example.com/grapnel\"}]}")
	case c.JSON:
		if err := c.PrintJSON(reports); err != nil {
			return err
		}
	default:
		for i := range reports {
			c.Wrap(printable.Text(reports[i].To+": "+reports[i].String()), "  ")
		}
	}
	return failed
}

// checkTyped returns a usage error for the URL of a server that should not be an argument.
func checkTyped(to string) error {
	if err := forwarding.CheckTyped(to); err != nil {
		return cli.Usage(cli.WithHint(err, "write the password into a file, such as ~/.pgpass, or name the file: --credentials FILE"))
	}
	return nil
}

func newForwardSetup(c *console) *cobra.Command {
	var days int
	var credentials, ca string
	cmd := &cobra.Command{
		Use:   "setup URL",
		Short: "Prepare a PostgreSQL database or a JetStream stream for the Records of many machines",
		Long: `Create or update what the Records of many machines need, with the login of an administrator.

In PostgreSQL: the schema grapnel, with the roles grapnel_writer, which can only add Records, and
grapnel_reader. Give them to logins: GRANT grapnel_writer TO laptops.
In NATS: the stream of the URL, GRAPNEL if it names none.

The command can run at any time again. It keeps all Records.`,
		Example: "  grapnel forward setup postgres://db.example.com/grapnel --days 365\n  grapnel forward setup nats://nats.example.com --credentials admin.creds",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if days < 0 {
				return cli.Usage(cli.WithHint(fmt.Errorf("--days %d: the number must not be negative", days), "leave the flag out to keep the number as it is"))
			}
			if err := checkTyped(args[0]); err != nil {
				return err
			}
			if forwarding.IsPostgres(args[0]) {
				before, after, err := postgres.Setup(cmd.Context(), postgres.Options{URL: args[0], Credentials: credentials, CA: ca}, days)
				if err != nil {
					return err
				}
				fmt.Fprintf(c.Out, "The database is ready: schema grapnel, version %d (before: %d).\n", after, before)
				return nil
			}
			if !forwarding.IsNATS(args[0]) {
				return cli.Usage(cli.WithHint(fmt.Errorf("%q is not the address of a database or a stream", args[0]), "write postgres://HOST/DATABASE or nats://HOST/STREAM"))
			}
			created, err := nats.Setup(cmd.Context(), nats.Options{URL: args[0], Credentials: credentials, CA: ca}, days)
			if err != nil {
				return err
			}
			what := "was there before"
			if created {
				what = "is new"
			}
			fmt.Fprintf(c.Out, "The stream is ready (it %s).\n", what)
			return nil
		},
	}
	cmd.Flags().IntVar(&days, "days", 0, "keep Records for this `NUMBER` of days; without the flag as before, at first 90")
	cmd.Flags().StringVar(&credentials, "credentials", "", "a password `FILE` of PostgreSQL, or a credentials file of NATS")
	cmd.Flags().StringVar(&ca, "ca", "", "a PEM `FILE` with the certificate authorities of the server")
	return cmd
}
