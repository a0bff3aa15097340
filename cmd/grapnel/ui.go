package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/backend/postgres"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/control"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/machines"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/web"
	"github.com/grapnel-dev/grapnel/local"
)

func newUI(c *console) *cobra.Command {
	var noOpen bool
	var code string
	var db database
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the browser page",
		Long: `Open a page in the browser with the events, sessions, policies and deliveries of this machine.
The command starts the daemon if it does not run. The page is on this computer only. The link is
valid once, for two minutes; the browser stays logged in for 30 days.

With --records, the pages show the Records of all machines that meet in a PostgreSQL database, and
the machines themselves. Then the command runs until it is interrupted, and the pages only read.

A browser can only look, until you confirm it: the page shows a code, and --confirm takes it. That
needs a terminal, and is refused below the process of an agent, because a person should decide.`,
		Example: "  grapnel ui\n  grapnel ui --no-open\n  grapnel ui --records postgres://reader@db.example.com/grapnel\n  grapnel ui --confirm 1234-5678",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("records") {
				o, err := db.options(c)
				if err != nil {
					return err
				}
				ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
				defer stop()
				return c.serveRecords(ctx, o, noOpen)
			}
			if cmd.Flags().Changed("confirm") {
				return c.confirmBrowser(cmd.Context(), place, code)
			}
			return c.openPage(cmd.Context(), place, noOpen)
		},
	}
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "only print the link")
	cmd.Flags().StringVar(&code, "confirm", "", "let the browser that shows this `CODE` approve calls")
	db.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("records", "confirm")
	return cmd
}

// serveRecords serves pages about the Records of a database until ctx is done.
func (c *console) serveRecords(ctx context.Context, o postgres.Options, noOpen bool) error {
	db, err := postgres.OpenReader(ctx, o)
	if err != nil {
		return err
	}
	defer db.Close()
	dir, err := os.MkdirTemp("", "grapnel-ui-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	log := slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	site := web.New(web.Options{Source: machines.Source{DB: db, Silent: silentAfter}, File: filepath.Join(dir, "ui.json"), Stopping: ctx.Done(), Log: log})
	link, err := site.Link()
	if err == nil {
		err = c.showLink(link, noOpen)
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return site.Shutdown(end)
}

// openPage prints a link to the page, and opens it if the machine has a desktop.
func (c *console) openPage(ctx context.Context, place local.Place, noOpen bool) error {
	if _, err := control.Start(ctx, place, c.Root); err != nil {
		return err
	}
	link, err := control.Page(ctx, place)
	if err != nil {
		return err
	}
	return c.showLink(link, noOpen)
}

// showLink prints a link, and opens it.
func (c *console) showLink(link string, noOpen bool) error {
	if _, err := fmt.Fprintln(c.Out, printable.Line(link)); err != nil || noOpen {
		return err
	}
	if err := openLink(link); err != nil {
		_, port, _ := strings.Cut(link, "localhost:")
		port, _, _ = strings.Cut(port, "/")
		fmt.Fprintf(c.Err, "grapnel: hint: no browser was opened (%v); open the link within two minutes, from another computer after: ssh -L %[2]s:localhost:%[2]s HOST\n", err, port)
	}
	return nil
}

// openLink opens a link with the program of the desktop, which may run as long as the browser.
func openLink(link string) error {
	args := []string{"xdg-open", link}
	switch {
	case runtime.GOOS == "darwin":
		args = []string{"open", link}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return errors.New("this terminal has no desktop")
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it outlives this command
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(2 * time.Second):
		return nil
	}
}

// confirmBrowser lets a browser approve calls.
func (c *console) confirmBrowser(ctx context.Context, place local.Place, code string) error {
	if err := c.byPerson("confirm a browser", "", c.In, c.Out); err != nil {
		return err
	}
	if !c.Ask("this browser can then approve calls of agents; does a page in your own browser show this code?") {
		return errors.New("the browser was not confirmed")
	}
	name, err := control.ConfirmBrowser(ctx, place, code)
	if err != nil {
		return cli.WithHint(err, `load the page again for a new code; "grapnel ui" opens it`)
	}
	_, err = fmt.Fprintf(c.Out, "confirmed: %s\n", printable.Line(name))
	return err
}
