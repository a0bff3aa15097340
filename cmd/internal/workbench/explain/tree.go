package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
)

// A tree is drawn with lines from each node to its children. Lines are wrapped at the width of
// the screen.
type tree struct {
	line  []span   // text of the node
	notes [][]span // lines below it
	nodes []*tree
}

// A span is a part of a line with one color.
type span struct {
	text string
	code string // see console.paint; empty = no color
}

// text returns a span without a color.
func text(format string, args ...any) span { return span{fmt.Sprintf(format, args...), ""} }

// add adds a child node and returns it.
func (t *tree) add(line ...span) *tree {
	n := &tree{line: line}
	t.nodes = append(t.nodes, n)
	return n
}

// note adds lines below the node. It splits the spans at newlines.
func (t *tree) note(line ...span) {
	rows := [][]span{nil}
	for _, s := range line {
		for i, part := range strings.Split(s.text, "\n") {
			if i > 0 {
				rows = append(rows, nil)
			}
			last := len(rows) - 1
			rows[last] = append(rows[last], span{part, s.code})
		}
	}
	t.notes = append(t.notes, rows...)
}

// A pen draws trees.
type pen struct {
	out   io.Writer
	width int // width of the screen in characters; 0 = do not wrap
	paint func(code, text string) string
}

// newPen returns a pen for a console. Lines are wrapped at the width of a terminal. Other output
// is not wrapped, so that programs get each line in one piece.
func newPen(c *cli.Console) *pen {
	p := &pen{out: c.Out, paint: c.Paint}
	if cli.Terminal(c.Out) {
		p.width = cli.Width(c.Out)
	}
	return p
}

const (
	branch     = "├─ "
	lastBranch = "└─ "
	trunk      = "│  "
	noTrunk    = "   "
)

// draw draws a tree.
func (p *pen) draw(t *tree) { p.node(t, "", "") }

// node draws a node after the prefix head. below is the prefix of the lines under it.
func (p *pen) node(t *tree, head, below string) {
	beside := below + "  "
	if len(t.nodes) > 0 {
		beside = below + trunk
	}
	p.wrapped(t.line, head, beside+"  ")
	for _, note := range t.notes {
		p.wrapped(note, beside, beside+"  ")
	}
	for i, n := range t.nodes {
		if i < len(t.nodes)-1 {
			p.node(n, below+branch, below+trunk)
		} else {
			p.node(n, below+lastBranch, below+noTrunk)
		}
	}
}

// minText is the minimum number of characters in a line after its prefix.
const minText = 20

// wrapped prints a line after the prefix head, and its further rows after the prefix rest.
func (p *pen) wrapped(line []span, head, rest string) {
	for _, row := range wrap(line, p.width, utf8.RuneCountInString(head), utf8.RuneCountInString(rest)) {
		var b strings.Builder
		b.WriteString(head)
		for n := len(row); n > 0; n-- { // trailing spaces get no color
			if row[n-1].text = strings.TrimRight(row[n-1].text, " "); row[n-1].text != "" {
				break
			}
			row = row[:n-1]
		}
		for _, s := range row {
			if s.code == "" {
				b.WriteString(s.text)
			} else {
				b.WriteString(p.paint(s.code, s.text))
			}
		}
		fmt.Fprintln(p.out, strings.TrimRight(b.String(), " "))
		head = rest
	}
}

// wrap splits a line into rows of at most width characters. first and others are the widths of
// the prefixes. It splits between words, and inside words that are longer than a row.
func wrap(line []span, width, first, others int) [][]span {
	if width <= 0 {
		return [][]span{slices.Clone(line)}
	}
	room := max(width-first, minText)
	rows := [][]span{nil}
	used := 0
	put := func(text, code string) {
		used += utf8.RuneCountInString(text)
		row := &rows[len(rows)-1]
		if n := len(*row); n > 0 && (*row)[n-1].code == code {
			(*row)[n-1].text += text
			return
		}
		*row = append(*row, span{text, code})
	}
	next := func() {
		rows = append(rows, nil)
		used, room = 0, max(width-others, minText)
	}
	for _, s := range line {
		for i, word := range strings.Split(s.text, " ") {
			if i > 0 {
				word = " " + word
			}
			size := utf8.RuneCountInString(word)
			if used > 0 && used+size > room && size <= max(width-others, minText) {
				next()
				word = strings.TrimPrefix(word, " ")
			}
			for letters := []rune(word); len(letters) > 0; {
				n := min(len(letters), room-used)
				put(string(letters[:n]), s.code)
				if letters = letters[n:]; len(letters) > 0 {
					next()
				}
			}
		}
	}
	return rows
}
