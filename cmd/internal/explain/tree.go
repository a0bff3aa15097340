package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
)

// A tree is drawn with lines that lead from each node to what comes of it. A line is
// wrapped where it would leave the screen.
type tree struct {
	line  []span   // of the node itself
	notes [][]span // below it
	nodes []*tree
}

// A span is a part of a line in one colour.
type span struct {
	text string
	code string // see console.paint; empty = none
}

// text is a span without a colour.
func text(format string, args ...any) span { return span{fmt.Sprintf(format, args...), ""} }

// add adds a node and returns it.
func (t *tree) add(line ...span) *tree {
	n := &tree{line: line}
	t.nodes = append(t.nodes, n)
	return n
}

// note adds lines below the node: one for each line that stands in the spans.
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
	width int // of the screen, in letters; 0 = lines are as long as they are
	paint func(code, text string) string
}

// newPen draws on a console. Lines are as wide as the terminal; elsewhere they are not
// wrapped, so that other programs find a line in one piece.
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

// node draws a node behind head; what stands below begins with below.
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

// minText is how many letters a line has at least behind what is drawn before it.
const minText = 20

// wrapped prints a line behind head, and what does not fit behind rest.
func (p *pen) wrapped(line []span, head, rest string) {
	for _, row := range wrap(line, p.width, utf8.RuneCountInString(head), utf8.RuneCountInString(rest)) {
		var b strings.Builder
		b.WriteString(head)
		for n := len(row); n > 0; n-- { // spaces at the end are in no colour
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

// wrap cuts a line into rows of at most width letters, of which the first has that many
// before it, and the others so many. It cuts between words, and inside of a word that
// fits into no row.
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
