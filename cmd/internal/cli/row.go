package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
)

// Columns returns the width of the terminal on stdout, or 0 if stdout is not a terminal. Other
// output is never cut, so that programs get each line completely.
func (c *Console) Columns() int { return columnsOf(c.Out) }

func columnsOf(stream any) int {
	if !Terminal(stream) {
		return 0
	}
	return Width(stream)
}

// Row prints spans on one line. It cuts the line at the right edge of a terminal.
func (c *Console) Row(spans ...typeset.Span) error {
	row := typeset.Row(spans).TrimRight()
	if room := c.Columns(); room > 0 {
		row = row.Cut(room)
	}
	_, err := fmt.Fprintln(c.Out, row.In(c.Colors()))
	return err
}

// Rows prints rows unchanged, without the spaces at their ends.
func (c *Console) Rows(rows []typeset.Row) {
	for _, row := range rows {
		fmt.Fprintln(c.Out, row.TrimRight().In(c.Colors()))
	}
}

// Tree prints a tree. It breaks lines at the right edge of a terminal.
func (c *Console) Tree(t *typeset.Tree) { c.Rows(t.Rows(c.Columns())) }

// Wrap prints a text. On a terminal it breaks long lines between words, and begins further lines
// with by. A first word "warning:" is colored.
func (c *Console) Wrap(text, by string) { c.WrapTo(c.Out, text, by) }

// WrapTo is like Wrap for another stream of the console.
func (c *Console) WrapTo(w io.Writer, text, by string) {
	const warning = "warning:"
	for part := range strings.SplitSeq(text, "\n") {
		for _, line := range printable.Wrap(part, columnsOf(w), by) {
			if rest, ok := strings.CutPrefix(line, warning); ok {
				line = c.Paint(typeset.Yellow, warning) + rest
			}
			fmt.Fprintln(w, line)
		}
	}
}

// PrintFile prints a line with a path, whose end stays visible on a narrow terminal.
func (c *Console) PrintFile(before, path, after string) {
	path = Path(path)
	if room := c.Columns(); room > 0 {
		path = printable.CutLeft(path, max(minPath, room-printable.Columns(before+after)))
	}
	fmt.Fprintln(c.Out, before+path+after)
}

// minPath is the width to which PrintFile cuts a path at most.
const minPath = 16
