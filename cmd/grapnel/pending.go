package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/local"
)

func newPending(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pending",
		Short: "List the calls that wait for a person",
		Long: `List the calls about which a hook asks a person (see approve: in the documentation of policies):
the agent waits, or its model was told to retry the call later. "grapnel allow ID" shows one of
them and lets it pass or denies it; "grapnel ui" does the same in a browser.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			return c.pending(place)
		},
	}
	return c.jsonFlag(cmd)
}

// pending lists the open requests, the newest first.
func (c *console) pending(place local.Place) error {
	open, err := place.Approvals().Pending(time.Now())
	if c.JSON {
		if err == nil {
			err = c.PrintJSON(append([]approval.Request{}, open...))
		}
		return err
	}
	if len(open) == 0 && err == nil {
		fmt.Fprintln(c.Out, "no call waits for a person")
	}
	now := time.Now()
	for i := range open {
		r, about := &open[i], ""
		if call, err := allow.Asked(place, r); err == nil {
			about = recordview.About(call.Entry, maxAllowedText)
		}
		state := "the agent waits"
		if !r.Waiting(now) {
			state = "the agent must retry the call"
		}
		fmt.Fprintf(c.Out, "%s  %s\n", c.Paint(typeset.Bold, r.ID), printable.Line(strings.TrimSpace(r.Scope.Agent+" "+r.Scope.Tool+" "+about)))
		fmt.Fprintf(c.Out, "  in %s; %s; %v left\n", printable.Line(r.Scope.Dir), state, r.Until.Sub(now).Round(time.Second))
		if r.Question != "" {
			fmt.Fprintln(c.Out, cli.Indent(printable.Dense(r.Question), "  "))
		}
	}
	if len(open) > 0 {
		fmt.Fprintf(c.Out, "\"grapnel allow %s\" shows the newest and lets it pass\n", open[0].ID)
	}
	return err
}
