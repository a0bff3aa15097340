package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/policy"
)

// checkFormats maps each value of --format to the function that writes the findings.
var checkFormats = map[string]func(*console, []check.Result) error{
	"text":   printChecked,
	"json":   func(c *console, all []check.Result) error { return c.PrintJSON(check.Findings(all)) },
	"github": func(c *console, all []check.Result) error { return check.WriteGitHub(c.Out, all) },
	"sarif":  func(c *console, all []check.Result) error { return c.PrintJSON(check.SARIF(check.Findings(all))) },
}

func newCheck(c *console) *cobra.Command {
	var schema bool
	var format string
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Find errors in policies",
		Long: `Check policy files and report errors with line and column. Without arguments, the command checks
your own policies and the policies of the current project. It also reports hooks on events that no
agent is set up to send.

--format github prints annotations that GitHub shows next to the lines of a change. --format
sarif prints a log for code scanners and editors (SARIF 2.1.0).

Exit code 0: no errors; 1: there is an error.`,
		Example: "  grapnel check\n  grapnel check --format sarif grapnel.yaml >grapnel.sarif",
		RunE: func(cmd *cobra.Command, files []string) error {
			if schema {
				_, err := fmt.Fprint(c.Out, policy.Schema())
				return err
			}
			write, ok := checkFormats[format]
			switch {
			case !ok:
				return cli.Usage(fmt.Errorf("unknown format %q (want text, json, github or sarif)", format))
			case c.JSON && format != "json" && cmd.Flags().Changed("format"):
				return cli.Usage(fmt.Errorf("--json and --format %s cannot be used together", format))
			case c.JSON:
				write = checkFormats["json"]
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			installed := true
			if len(files) == 0 {
				if files, err = check.OwnFiles(place); err != nil {
					return err
				}
			} else {
				installed = slices.ContainsFunc(files, func(file string) bool {
					abs, err := filepath.Abs(file)
					return err == nil && abs == place.Policy
				})
			}
			var all []check.Result
			for _, file := range files {
				all = append(all, check.File(file, place, installed)...)
			}
			if err := write(c, all); err != nil {
				return err
			}
			if slices.ContainsFunc(all, check.Result.Bad) {
				return cli.ErrFailed
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&schema, "schema", false, "the same as \"grapnel schema policy\"")
	cmd.Flags().StringVar(&format, "format", "text", "output `FORMAT`: text, json, github or sarif")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"text", "json", "github", "sarif"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = completeYAML
	return c.jsonFlag(cmd)
}

// printChecked writes the findings as text for people.
func printChecked(c *console, all []check.Result) error {
	for _, f := range all {
		c.printFile(f)
	}
	return nil
}

func (c *console) printFile(f check.Result) {
	for _, found := range f.Findings {
		color := typeset.Red
		if found.Severity == "warning" {
			color = typeset.Yellow
		}
		fmt.Fprintln(c.Out, c.located(found, color))
	}
	if !f.Bad() {
		state := c.Paint(typeset.Green, "good")
		if n := len(f.Findings); n > 0 {
			state = c.Paint(typeset.Yellow, "valid, with "+printable.Count(n, "warning"))
		}
		fmt.Fprintf(c.Out, "%s: %s, %s\n", printable.Line(f.File), state, f.Size)
		for _, text := range f.Sandboxes {
			fmt.Fprintf(c.Out, "  %s\n", printable.Line(text))
		}
	}
}

// located formats a finding as FILE:LINE:COL: severity: message, which editors can parse.
func (c *console) located(f check.Finding, color typeset.Style) string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Col)
	}
	text := fmt.Sprintf("%s: %s: %s", printable.Line(at), c.Paint(color, f.Severity), printable.Line(f.Msg))
	if f.Hint != "" {
		text += " (" + printable.Line(f.Hint) + ")"
	}
	if f.Severity == "warning" {
		text += " [" + f.Rule + "]" // for a comment that silences it
	}
	return text
}
