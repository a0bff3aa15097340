package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/local"
)

//go:embed starter.yaml
var starter []byte

//go:embed project.yaml
var projectStarter []byte

func newInit(c *console) *cobra.Command {
	var scope string
	var force, observe bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a starter policy",
		Long: `Write a policy that blocks a few dangerous actions and explains its own format. An existing
file is kept unless you pass --force.

With --observe, the policy stops nothing at first: "grapnel stats --would" shows what it would have
stopped, and "grapnel enforce" puts it into force.`,
		Example: "  grapnel init\n  grapnel init --observe\n  grapnel init --scope project",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			place, err := c.Place()
			if err != nil {
				return err
			}
			file, content, perm := place.Policy, starter, fs.FileMode(0o600)
			switch scope {
			case "user":
			case "project":
				if file, err = filepath.Abs(local.ProjectPolicy); err != nil {
					return err
				}
				content, perm = projectStarter, 0o644 // other users of the project need to read it
			default:
				return cli.Usage(fmt.Errorf("unknown scope %q (want user or project)", scope))
			}
			if observe {
				content = bytes.Replace(content, []byte("version: 1\n"), []byte(observing), 1)
			}
			if err := writeStarter(file, content, perm, force); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "wrote %s\n", file)
			if scope == "project" {
				fmt.Fprintf(c.Out, "it takes effect after you trust it: grapnel trust %s\n", local.ProjectPolicy)
			} else {
				fmt.Fprintf(c.Out, "next: grapnel install\nrecipes: %s\n", recipes)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "user", "`SCOPE` of the policy: user, or project (./grapnel.yaml)")
	cmd.Flags().BoolVar(&observe, "observe", false, "let the policy only observe at first")
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing policy")
	return cmd
}

// recipes is the page with policies for everyday jobs.
const recipes = "https://github.com/grapnel-dev/grapnel/blob/main/docs/recipes.md"

// observing is the beginning of a policy that stops nothing yet.
const observing = `version: 1

# Observe first: "grapnel stats --would" shows what this policy would have stopped, and "grapnel enforce"
# changes the mode to enforce.
defaults: {mode: observe}
`

func writeStarter(file string, content []byte, perm fs.FileMode, force bool) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("cannot write the starter policy: %w", err)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(file, flags, perm)
	if errors.Is(err, fs.ErrExist) {
		return cli.WithHint(fmt.Errorf("%s already exists", file), "edit it, or replace it with --force")
	}
	if err != nil {
		return fmt.Errorf("cannot write the starter policy: %w", err)
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
