// Package typeset arranges texts in lines: rows of styled spans, tables, and trees. It knows nothing
// about the meaning of the texts. All texts are safe for a terminal already; package printable makes them so
// and measures them.
package typeset

import (
	"math"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// A Style is the appearance of a text: the number of a terminal's escape sequence, or nothing. No
// information depends on a style alone, because some terminals have no colors.
type Style string

// The styles.
const (
	Normal Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Marked Style = "7" // the cursor
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint returns a text in the style.
func (s Style) Paint(text string) string {
	if s == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// A Span is a part of a line with one style.
type Span struct {
	Text  string
	Style Style
}

// Span returns a Span with the style.
func (s Style) Span(text string) Span { return Span{text, s} }

// A Row is a line of any length.
type Row []Span

// Row returns a Row of one Span.
func (s Style) Row(text string) Row { return Row{{text, s}} }

// NoLimit is a width that cuts nothing.
const NoLimit = math.MaxInt32

// Cut returns the row cut to a width in columns.
func (r Row) Cut(width int) Row {
	out := make(Row, 0, len(r)+1)
	for _, s := range r {
		if width <= 0 {
			break
		}
		text := printable.Cut(s.Text, width)
		width -= printable.Columns(text)
		out = append(out, Span{text, s.Style})
	}
	return out
}

// Fill returns the row cut or padded to exactly width columns.
func (r Row) Fill(width int) Row {
	out := r.Cut(width)
	if gap := width - out.Columns(); gap > 0 {
		out = append(out, Span{strings.Repeat(" ", gap), Normal})
	}
	return out
}

// TrimRight returns the row without the spaces at its end.
func (r Row) TrimRight() Row {
	out := append(Row(nil), r...)
	for n := len(out); n > 0; n-- {
		if out[n-1].Text = strings.TrimRight(out[n-1].Text, " "); out[n-1].Text != "" {
			break
		}
		out = out[:n-1]
	}
	return out
}

// Columns returns the width of the row.
func (r Row) Columns() int { return printable.Columns(r.Plain()) }

// Plain returns the text of the row without styles.
func (r Row) Plain() string {
	var b strings.Builder
	for _, s := range r {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Painted returns the text of the row with its styles.
func (r Row) Painted() string {
	var b strings.Builder
	for _, s := range r {
		b.WriteString(s.Style.Paint(s.Text))
	}
	return b.String()
}

// In returns the text, with its styles if color is set.
func (r Row) In(color bool) string {
	if color {
		return r.Painted()
	}
	return r.Plain()
}

// Wrap breaks the row into rows, between words if possible. The first one has at most first columns,
// the others have others.
func (r Row) Wrap(first, others int) []Row {
	whole := r.Plain()
	rest, room := whole, first
	var rows []Row
	for {
		at := len(whole) - len(rest)
		fits, after := printable.Break(rest, room, true)
		rows = append(rows, r.part(at, at+len(fits)))
		if after == "" {
			return rows
		}
		rest, room = after, others
	}
}

// part returns the bytes of a row from begin to end.
func (r Row) part(begin, end int) Row {
	var out Row
	for _, s := range r {
		from, to := min(max(begin, 0), len(s.Text)), min(max(end, 0), len(s.Text))
		if from < to {
			out = append(out, Span{s.Text[from:to], s.Style})
		}
		begin, end = begin-len(s.Text), end-len(s.Text)
	}
	return out
}

// Left pads or cuts a text to a width.
func Left(text string, width int) string {
	text = printable.Cut(text, width)
	return text + blanks(width-printable.Columns(text))
}

// Right is like Left, with the spaces before the text.
func Right(text string, width int) string {
	text = printable.Cut(text, width)
	return blanks(width-printable.Columns(text)) + text
}

func blanks(n int) string { return strings.Repeat(" ", max(0, n)) }
