package cli

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// A Span is a part of a line with one color; see Paint. Its text is safe for a terminal.
type Span struct{ Text, Code string }

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
func (c *Console) Row(spans ...Span) error {
	room := c.Columns()
	if room == 0 {
		room = math.MaxInt32
	}
	var b strings.Builder
	for i, s := range spans {
		if i == len(spans)-1 {
			s.Text = strings.TrimRight(s.Text, " ")
		}
		text := printable.Cut(s.Text, room)
		room -= printable.Columns(text)
		if text != "" {
			b.WriteString(c.Paint(s.Code, text))
		}
	}
	_, err := fmt.Fprintln(c.Out, strings.TrimRight(b.String(), " "))
	return err
}

// Wrap prints a text. On a terminal it breaks long lines between words, and begins further lines
// with by. A first word "warning:" is colored.
func (c *Console) Wrap(text, by string) { c.WrapTo(c.Out, text, by) }

// WrapTo is like Wrap for another stream of the console.
func (c *Console) WrapTo(w io.Writer, text, by string) {
	const warning = "warning:"
	for part := range strings.SplitSeq(text, "\n") {
		for _, line := range printable.Wrap(part, columnsOf(w), by) {
			if rest, ok := strings.CutPrefix(line, warning); ok {
				line = c.Paint(Yellow, warning) + rest
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
