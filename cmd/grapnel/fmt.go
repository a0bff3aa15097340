package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/check"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/format"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml/layout"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A formatted is a row of "grapnel fmt --json".
type formatted struct {
	File    string            `json:"file"`
	Changed bool              `json:"changed"`
	Error   *policyfile.Error `json:"error,omitempty"`
}

type fmtFlags struct{ check, diff, stdin bool }

func newFmt(c *console) *cobra.Command {
	var flags fmtFlags
	cmd := &cobra.Command{
		Use:   "fmt [FILE...|-]",
		Short: "Format policies and their tests",
		Long: `Format policy files and files of tests in place; without arguments, your own files and the files
of the current project. The format has two spaces of indentation, the keys of a hook in a fixed
order, short lists in one line, and no unneeded quotes. Comments, blank lines and the meaning of
a file do not change. A file that cannot be parsed is not changed.

FILE may be -, which reads standard input and writes standard output.

Exit code 0: success; 1: a file cannot be parsed or, with --check, would change.`,
		Example: "  grapnel fmt\n  grapnel fmt --check --diff grapnel.yaml\n  grapnel fmt - <grapnel.yaml",
		RunE: func(_ *cobra.Command, files []string) error {
			if flags.stdin {
				files = append(files, format.Stdin)
			}
			if len(files) > 1 && strings.Contains("\n"+strings.Join(files, "\n")+"\n", "\n"+format.Stdin+"\n") {
				return cli.Usage(errors.New("cannot format standard input together with files: pass - or files"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if len(files) == 0 {
				if files, err = format.WithTests(place); err != nil {
					return err
				}
			}
			return c.formatAll(files, place, flags)
		},
	}
	cmd.Flags().BoolVar(&flags.check, "check", false, "write nothing; list the files that would change and exit with 1 if there are any")
	cmd.Flags().BoolVar(&flags.diff, "diff", false, "write nothing; show the changes")
	cmd.Flags().BoolVar(&flags.stdin, "stdin", false, "read standard input and write standard output, like FILE -")
	cmd.ValidArgsFunction = completeYAML
	return c.jsonFlag(cmd)
}

func (c *console) formatAll(files []string, place local.Place, flags fmtFlags) error {
	order := format.KeyOrder()
	rows := []formatted{}
	failed := false
	for _, file := range files {
		row := c.formatOne(file, place, flags, order)
		rows = append(rows, row)
		failed = failed || row.Error != nil || row.Changed && flags.check
	}
	if c.JSON && (len(files) != 1 || files[0] != format.Stdin) {
		if err := c.PrintJSON(rows); err != nil {
			return err
		}
	}
	if failed {
		return cli.ErrFailed
	}
	return nil
}

// formatOne formats one file and returns the result.
func (c *console) formatOne(file string, place local.Place, flags fmtFlags, order map[string][]string) formatted {
	row := formatted{File: file}
	data, err := format.Read(file, c.In)
	var out []byte
	if err == nil {
		out, err = layout.Format(data, order)
	}
	row.Changed = err == nil && !bytes.Equal(data, out)
	filter := file == format.Stdin
	if err == nil && row.Changed && !filter && !flags.check && !flags.diff {
		_, err = install.Apply(&install.Change{File: file, Before: data, After: out}, "", time.Time{})
	}
	switch {
	case err != nil:
		row.Error = &policyfile.Error{File: file, Msg: err.Error()}
		if at, ok := errors.AsType[*yaml.Error](err); ok {
			row.Error = &policyfile.Error{File: file, Line: at.Line, Col: at.Col, Msg: at.Msg}
		}
		if !c.JSON {
			fmt.Fprintln(c.Err, c.located(check.BadPolicy(row.Error), typeset.Red))
		}
		return row
	case c.JSON && !filter:
	case flags.diff && row.Changed:
		_, lines, _ := strings.Cut(string(diff.Diff(file, data, file+" (formatted)", out)), "\n") // skip the first line, which names the diff program
		fmt.Fprint(c.Out, printable.Text(lines))
	case filter && !flags.check && !flags.diff:
		_, _ = c.Out.Write(out)
	case row.Changed:
		fmt.Fprintln(c.Out, printable.Line(file))
	}
	if row.Changed && !filter && !flags.check && !flags.diff && !c.JSON {
		if abs, err := filepath.Abs(file); err == nil {
			if trust, err := place.Trusts().Of(abs); err == nil && trust != nil {
				fmt.Fprintf(c.Out, "  the trust applies to the old text: run \"grapnel trust %s\"\n", printable.Line(file))
			}
		}
	}
	return row
}

// completeYAML completes the names of YAML files.
func completeYAML(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
