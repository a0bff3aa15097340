package main

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/review"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// listTrusted lists all trusted policies, including changed and deleted ones.
func (c *console) listTrusted(place local.Place) error {
	files := review.Trusted(place)
	var err error
	for _, f := range files {
		if f.State != load.Trusted {
			err = cli.ErrFailed
		}
	}
	if c.JSON {
		if e := c.PrintJSON(map[string]any{"files": files}); e != nil {
			return e
		}
		return err
	}
	if len(files) == 0 {
		fmt.Fprintln(c.Out, "no trusted policies of projects")
	}
	for _, f := range files {
		color := typeset.Yellow
		if f.State == load.Trusted {
			color = typeset.Green
		}
		fmt.Fprintf(c.Out, "%s %s\n", c.Paint(color, fmt.Sprintf("%-9s", f.State)), printable.Line(f.File))
		if f.Digest != "" {
			since := ", since " + f.Since.Local().Format("2006-01-02 15:04")
			if f.Vouched {
				since += ", trusted by a policy"
			}
			fmt.Fprintf(c.Out, "  %s%s\n", f.Digest, since)
		}
		for _, text := range f.Runs {
			fmt.Fprintf(c.Out, "  runs %s\n", cli.Indent(text, "    ")[4:])
		}
		for _, text := range f.Wrong {
			fmt.Fprintf(c.Out, "  %s %s\n", c.Paint(typeset.Yellow, "warning:"), printable.Line(text))
		}
		if f.Hint != "" {
			fmt.Fprintf(c.Out, "  hint: %s\n", printable.Line(f.Hint))
		}
	}
	return err
}
