package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func newUntrust(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "untrust FILE",
		Short: "Stop enforcing a trusted or deleted policy",
		Long: `Stop enforcing a trusted policy of a project, or your own policy after its file was deleted.

Both stay active when their file changes or disappears, because an agent could have changed
or deleted the file through a tool. The command needs a terminal and refuses below the process of an
agent, because a person should decide.`,
		Example: "  grapnel untrust grapnel.yaml",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			if err := c.byPerson("end the trust in a policy", "", c.In); err != nil {
				return err
			}
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			ofProject, err := local.ProjectFile(file)
			if err != nil {
				return err
			}
			untrusted, err := place.Trusts().Forget(ofProject, place.Snapshots())
			if err != nil {
				return err
			}
			forgot, err := load.Forget(place.Snapshots(), file)
			if err != nil {
				return err
			}
			if !forgot && !untrusted {
				return cli.WithHint(fmt.Errorf("no policy of %s is stored", file), "\"grapnel status\" lists the policies in force")
			}
			fmt.Fprintf(c.Out, "stopped enforcing %s\n", file)
			return nil
		},
	}
}
