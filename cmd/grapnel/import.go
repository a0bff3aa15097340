package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/systems"
)

func newImport(c *console) *cobra.Command {
	var to string
	var formats []string
	for _, f := range systems.Formats() {
		formats = append(formats, f.Name)
	}
	cmd := &cobra.Command{
		Use:   "import FORMAT FILE...",
		Short: "Convert the hooks of another system into a policy",
		Long: `Read hook files of another system, print them as a Grapnel policy, and list what a policy cannot
express. The files are not changed. Hooks that cannot be converted still work with load:, which
runs such files as they are.

Formats: ` + strings.Join(formats, ", "),
		Example: "  grapnel import claude-code ~/.claude/settings.json\n  grapnel import ironclaw hooks/hooks.json --to grapnel.yaml",
		Args:    usageArgs(cobra.MinimumNArgs(2)),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return formats, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			im, err := systems.Import(args[0], args[1:], policy.Parse)
			if err != nil {
				var at *policyfile.Error
				if errors.As(err, &at) && at.File == args[0] {
					return cli.Usage(err)
				}
				return err
			}
			if to != "" {
				if err := writeNew(to, im.Policy); err != nil {
					return err
				}
			}
			if c.JSON {
				unconverted := im.Unconverted
				if unconverted == nil {
					unconverted = []*policyfile.Error{}
				}
				return c.PrintJSON(map[string]any{"policy": string(im.Policy), "hooks": im.Hooks, "lost": unconverted})
			}
			if to == "" {
				if _, err := c.Out.Write(im.Policy); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(c.Out, "wrote %s to %s\n", printable.Count(im.Hooks, "hook"), to)
			}
			for _, unconverted := range im.Unconverted {
				fmt.Fprintf(c.Err, "grapnel: not kept: %v\n", unconverted)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "write the policy to this new `FILE`")
	return c.jsonFlag(cmd)
}

// writeNew writes a new file. It is an error if the file exists.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return cli.WithHint(fmt.Errorf("%s already exists", name), "omit --to to print the policy, then copy its hooks")
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
