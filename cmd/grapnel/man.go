package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/manpage"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

func newMan(c *console) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages",
		Long: `Write manual pages below DIR, in the layout that man expects: one page for each command and
for grapnel-hook in DIR/man1, and grapnel-policy, the keys of a policy, in DIR/man5.`,
		Example: "  grapnel man ~/.local/share/man\n  man grapnel-check",
		Args:    usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := manpage.Pages(cmd.Root(), hookHelp())
			for _, p := range pages {
				dir := filepath.Join(args[0], fmt.Sprintf("man%d", p.Section))
				if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:security // every user may read manuals
					return fmt.Errorf("cannot write manual pages: %w", err)
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.%d", p.Name, p.Section)), []byte(p.Text()), 0o644); err != nil { //nolint:security // as above
					return fmt.Errorf("cannot write manual pages: %w", err)
				}
			}
			_, err := fmt.Fprintf(c.Out, "wrote %d manual pages to %s\n", len(pages), printable.Line(args[0]))
			return err
		},
	}
}

// hookHelp returns the help text of grapnel-hook.
func hookHelp() string {
	var help bytes.Buffer
	hook([]string{"--help"}, strings.NewReader(""), &help, &help)
	return help.String()
}
