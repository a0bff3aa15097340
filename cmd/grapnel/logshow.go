package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

func newLogShow(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID | last",
		Short: "Show one record completely",
		Long: `Show one Record: the decision with its reasons, each hook with its result and its place in a
policy, the changes line by line, results that came after the reply, and the event as it was
recorded. ID is the beginning of the ID of the Record, as "grapnel log" prints it, and last is
the newest Record. --json prints the Record itself, as one line.

Exit code 1: no Record has this ID, or several have it.`,
		Example: "  grapnel log show last\n  grapnel log show 019f8d2b1c\n  grapnel log show 019f8d2b1c --json",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			log := records.Log(place)
			id, err := records.FindID(cmd.Context(), log, args[0])
			if err != nil {
				return err
			}
			var found *spool.Entry
			var late []spool.Entry
			for k, err := range log.Read(cmd.Context(), index.Query{ID: id}) {
				if err != nil {
					c.Warn(err)
					continue
				}
				if err := k.Event(); err != nil {
					c.Warn(err)
				}
				switch {
				case k.Late:
					late = append(late, k.Entry)
				default:
					found = &k.Entry
				}
			}
			if found == nil && len(late) > 0 { // retention may have removed the Record itself
				found, late = &late[0], late[1:]
			}
			if found == nil {
				return fmt.Errorf("cannot read the record %s", id)
			}
			if c.JSON {
				return c.printRecord(found)
			}
			c.Rows(recordview.Form{Width: c.Columns(), Home: place.Home}.Record(found, late))
			return nil
		},
	}
	return c.jsonFlag(cmd)
}
