package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/remote"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// newDeliver returns the command that grapnel-hook starts, because grapnel-hook has no HTTP
// client.
func newDeliver(c *console) *cobra.Command {
	return &cobra.Command{
		Use:    "deliver",
		Short:  "Send an event to a webhook or an HTTP hook (JSON on standard input)",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The event of a question for a server stays raw JSON, so it is sent byte by byte.
			var both struct {
				HTTP *policyfile.HTTP `json:"http"`
				ask.Question
				Webhook policyfile.Webhook `json:"webhook"`
				Check   bool               `json:"check"`
			}
			if err := json.NewDecoder(c.In).Decode(&both); err != nil {
				return fmt.Errorf("cannot read the event: %w", err)
			}
			if both.HTTP != nil {
				both.Question.HTTP = *both.HTTP
				ctx, cancel := hookcmd.WithParent(cmd.Context())
				defer cancel()
				return c.PrintLine(remote.Ask(ctx, both.Question))
			}
			w, err := remote.NewWebhook(both.Webhook, both.Reach)
			switch {
			case both.Check && err == nil:
				return c.PrintLine(ask.Reply{})
			case both.Check:
				return c.PrintLine(ask.Reply{Error: err.Error()})
			case len(both.Event) == 0:
				return errors.New("cannot read the event: the input contains no event")
			case err != nil:
				return err
			}
			ev, err := wire.Read(both.Event)
			origin, noOrigin := wire.ReadOrigin(both.Event)
			if err := errors.Join(err, noOrigin); err != nil {
				return fmt.Errorf("cannot read the event: %w", err)
			}
			if err := w.Deliver(wire.WithOrigin(cmd.Context(), origin), ev); err != nil {
				return fmt.Errorf("webhook %q: %w", both.Webhook.Name, err)
			}
			return nil
		},
	}
}
