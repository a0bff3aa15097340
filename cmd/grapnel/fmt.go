package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/check"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/install"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/yaml"
	"github.com/grapnel-dev/grapnel/internal/yaml/layout"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// stdinFile is what a command calls its standard input, and how it is named.
const stdinFile = "-"

// A formatted file is a row of "grapnel fmt --json".
type formatted struct {
	File    string        `json:"file"`
	Changed bool          `json:"changed"`
	Error   *policy.Error `json:"error,omitempty"`
}

type fmtFlags struct{ check, diff, stdin bool }

func newFmt(c *console) *cobra.Command {
	var flags fmtFlags
	cmd := &cobra.Command{
		Use:   "fmt [FILE...|-]",
		Short: "Lay policies and their tests out in one way",
		Long: "Rewrites policy files and files of tests in place, yours and those of the project you\n" +
			"are in when none is named: two spaces, the keys of a hook in one order, short lists in\n" +
			"one line, no quotes that do nothing. Comments and blank lines stay, and what a file\n" +
			"says stays the same. A file that cannot be read stays as it is.\n\n" +
			"FILE may be -, which reads standard input and writes standard output.\n\n" +
			"Exit code 0: all is well; 1: a file cannot be read or, with --check, would change.",
		Example: "  grapnel fmt\n  grapnel fmt --check --diff grapnel.yaml\n  grapnel fmt - <grapnel.yaml",
		RunE: func(_ *cobra.Command, files []string) error {
			if flags.stdin {
				files = append(files, stdinFile)
			}
			if len(files) > 1 && strings.Contains("\n"+strings.Join(files, "\n")+"\n", "\n"+stdinFile+"\n") {
				return cli.Usage(errors.New("standard input is formatted alone: name - or files"))
			}
			place, err := c.Place()
			if err != nil {
				return err
			}
			if len(files) == 0 {
				if files, err = withTests(place); err != nil {
					return err
				}
			}
			return c.formatAll(files, place, flags)
		},
	}
	cmd.Flags().BoolVar(&flags.check, "check", false, "write nothing, name what would change and exit with 1 if there is any")
	cmd.Flags().BoolVar(&flags.diff, "diff", false, "write nothing, show what would change")
	cmd.Flags().BoolVar(&flags.stdin, "stdin", false, "the same as FILE -")
	cmd.ValidArgsFunction = completeYAML
	return c.jsonFlag(cmd)
}

// withTests lists the policies that count here and the files of tests beside them.
func withTests(place local.Place) ([]string, error) {
	policies, err := check.OwnFiles(place)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, file := range policies {
		tests, _ := filepath.Glob(escapeGlob(filepath.Dir(file)) + string(filepath.Separator) + "*" + policytest.Suffix) // such a pattern is never bad
		files = append(append(files, file), tests...)
	}
	return files, nil
}

// escapeGlob makes a pattern of a name that matches nothing else.
func escapeGlob(name string) string {
	if filepath.Separator == '\\' {
		return name // nothing escapes there, and hardly a directory has such a name
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

func (c *console) formatAll(files []string, place local.Place, flags fmtFlags) error {
	order := keyOrder()
	rows := []formatted{}
	failed := false
	for _, file := range files {
		row := c.formatOne(file, place, flags, order)
		rows = append(rows, row)
		failed = failed || row.Error != nil || row.Changed && flags.check
	}
	if c.JSON && (len(files) != 1 || files[0] != stdinFile) {
		if err := c.PrintJSON(rows); err != nil {
			return err
		}
	}
	if failed {
		return cli.ErrFailed
	}
	return nil
}

// formatOne lays one file out, and says what became of it.
func (c *console) formatOne(file string, place local.Place, flags fmtFlags, order map[string][]string) formatted {
	row := formatted{File: file}
	data, err := c.readPolicy(file)
	var out []byte
	if err == nil {
		out, err = layout.Format(data, order)
	}
	row.Changed = err == nil && !bytes.Equal(data, out)
	filter := file == stdinFile
	if err == nil && row.Changed && !filter && !flags.check && !flags.diff {
		_, err = install.Apply(&install.Change{File: file, Before: data, After: out}, "", time.Time{})
	}
	switch {
	case err != nil:
		row.Error = &policy.Error{File: file, Msg: err.Error()}
		if at, ok := errors.AsType[*yaml.Error](err); ok {
			row.Error = &policy.Error{File: file, Line: at.Line, Col: at.Col, Msg: at.Msg}
		}
		if !c.JSON {
			fmt.Fprintln(c.Err, c.located(check.BadPolicy(row.Error), cli.Red))
		}
		return row
	case c.JSON && !filter:
	case flags.diff && row.Changed:
		_, lines, _ := strings.Cut(string(diff.Diff(file, data, file+" (formatted)", out)), "\n") // the first is of the program diff
		fmt.Fprint(c.Out, printable.Text(lines))
	case filter && !flags.check && !flags.diff:
		_, _ = c.Out.Write(out)
	case row.Changed:
		fmt.Fprintln(c.Out, printable.Line(file))
	}
	if row.Changed && !filter && !flags.check && !flags.diff && !c.JSON {
		if abs, err := filepath.Abs(file); err == nil {
			if trust, err := place.Trusts().Of(abs); err == nil && trust != nil {
				fmt.Fprintf(c.Out, "  what was trusted is its old text: run \"grapnel trust %s\"\n", printable.Line(file))
			}
		}
	}
	return row
}

// readPolicy reads a file, or standard input, up to the size that a policy may have.
func (c *console) readPolicy(file string) ([]byte, error) {
	in := c.In
	if file != stdinFile {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return nil, errors.New(cause(err))
		case !info.Mode().IsRegular(): // a pipe would be waited for
			return nil, errors.New("is not a regular file")
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, errors.New(cause(err))
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, yaml.MaxSize+1)) // what is larger is refused when it is read
}

// cause is an error of the system without the name of the file.
func cause(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// keyOrder returns the order of keys: that of a hook is the one in which the schema
// describes them.
func keyOrder() map[string][]string {
	order := map[string][]string{"tests[]": {"name", "*", "want"}}
	schema, err := yaml.Parse([]byte(policy.Schema())) // JSON is YAML
	if err != nil {
		return order
	}
	for _, p := range schema.Get("$defs").Get("hook").Get("properties").Pairs {
		order["hooks[]"] = append(order["hooks[]"], p.Key.Text)
	}
	return order
}

// completeYAML offers the files that can be policies.
func completeYAML(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
