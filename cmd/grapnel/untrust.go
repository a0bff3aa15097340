package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

func newUntrust(c *console) *cobra.Command {
	return &cobra.Command{
		Use:     "untrust FILE",
		Short:   "Let go of a policy that was trusted, or is gone",
		Long:    "What was trusted of a project's policy stays in force whatever becomes of the file,\nand the last valid content of your own stays when the file is gone, since it could\nhave been changed or deleted through a tool. This lets go of it.",
		Example: "  grapnel untrust grapnel.yaml",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			place, err := c.Place()
			if err != nil {
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
			forgot, err := policy.Forget(place.Snapshots(), file)
			if err != nil {
				return err
			}
			if !forgot && !untrusted {
				return cli.WithHint(fmt.Errorf("nothing is kept of %s", file), "\"grapnel status\" lists the policies in force")
			}
			fmt.Fprintf(c.Out, "let go of %s\n", file)
			return nil
		},
	}
}
