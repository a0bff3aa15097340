package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/answer"
	"github.com/grapnel-dev/grapnel/daemon/deliver"
)

// newDrain is what happens by itself after an event, for people and timers on machines
// without a daemon: a delivery whose time has come waits there for the next event.
func newDrain(c *console) *cobra.Command {
	return c.jsonFlag(&cobra.Command{
		Use:   "drain",
		Short: "Run the hooks that wait, and try the deliveries that are due",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := c.place()
			if err != nil {
				return err
			}
			box := &outbox{place: place, mine: true}
			if err := answer.Drain(cmd.Context(), place, box); err != nil {
				return fmt.Errorf("drain: %w", err)
			}
			if c.json {
				return c.printJSON(box.tried)
			}
			if box.busy {
				_, err = fmt.Fprintln(c.out, "another process has the store, and delivers")
				return err
			}
			_, err = fmt.Fprintln(c.out, counted(box.tried))
			return err
		},
	})
}

// counted is how tries ended, in words.
func counted(s deliver.Summary) string {
	return fmt.Sprintf("%d delivered, %d failed and are tried again, %d given up, %d of targets that want no more", s.Delivered, s.Failed, s.Dead, s.Off)
}

// addTries adds up tries.
func addTries(all *deliver.Summary, s deliver.Summary) {
	all.Delivered += s.Delivered
	all.Failed += s.Failed
	all.Dead += s.Dead
	all.Off += s.Off
}
