package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/replay"
)

func newEnforce(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "enforce",
		Short: "Put a policy that only observes into force",
		Long: `Change defaults: {mode: observe} in your policy to enforce. From the next event on, its hooks and
packs decide. Hooks and packs with a mode of their own keep it. You see the change before it is
written. The command needs a terminal and refuses below the process of an agent.`,
		Example: "  grapnel init --observe\n  grapnel stats --would\n  grapnel enforce",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			content, err := os.ReadFile(place.Policy)
			if err != nil {
				return cli.WithHint(fmt.Errorf("cannot read your policy: %w", err), "grapnel init")
			}
			changed, hunk, err := replay.Enforce(place.Policy, content)
			if err != nil {
				return cli.WithHint(fmt.Errorf("cannot put %s into force: %w", place.Policy, err), "grapnel hooks shows the mode of each hook")
			}
			fmt.Fprintln(c.Out, printable.Dense(hunk))
			if err := c.byPerson("put a policy into force", "", c.In, c.Out); err != nil {
				return err
			}
			if !c.Ask("enforce this policy?") {
				return errors.New("the policy still only observes")
			}
			info, err := os.Stat(place.Policy)
			if err != nil {
				return err
			}
			if err := files.WriteSync(place.Policy, changed, info.Mode().Perm()); err != nil {
				return fmt.Errorf("cannot write your policy: %w", err)
			}
			_, err = fmt.Fprintf(c.Out, "%s is in force from the next event on\n", printable.Line(cli.Path(place.Policy)))
			return err
		},
	}
}
