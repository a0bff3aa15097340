package typeset

import (
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// A Tree is a node with lines to its children.
type Tree struct {
	Row   Row
	Notes []Row // rows below it
	Nodes []*Tree
}

// Text returns a Span without a style.
func Text(format string, args ...any) Span { return Span{fmt.Sprintf(format, args...), Normal} }

// Add adds a child node and returns it.
func (t *Tree) Add(row ...Span) *Tree {
	n := &Tree{Row: row}
	t.Nodes = append(t.Nodes, n)
	return n
}

// Note adds rows below the node. It splits the spans at newlines.
func (t *Tree) Note(spans ...Span) {
	rows := []Row{nil}
	for _, s := range spans {
		for i, part := range strings.Split(s.Text, "\n") {
			if i > 0 {
				rows = append(rows, nil)
			}
			last := len(rows) - 1
			rows[last] = append(rows[last], Span{part, s.Style})
		}
	}
	t.Notes = append(t.Notes, rows...)
}

const (
	branch     = "├─ "
	lastBranch = "└─ "
	trunk      = "│  "
	noTrunk    = "   "
)

// Rows draws the tree, for a width in columns; 0 means that no row is broken.
func (t *Tree) Rows(width int) []Row {
	if width <= 0 {
		width = NoLimit
	}
	return t.node(nil, width, "", "")
}

// node adds a node after the prefix head. below is the prefix of the rows under it.
func (t *Tree) node(rows []Row, width int, head, below string) []Row {
	beside := below + "  "
	if len(t.Nodes) > 0 {
		beside = below + trunk
	}
	rows = hang(rows, t.Row, width, head, beside+"  ")
	for _, note := range t.Notes {
		rows = hang(rows, note, width, beside, beside+"  ")
	}
	for i, n := range t.Nodes {
		if i < len(t.Nodes)-1 {
			rows = n.node(rows, width, below+branch, below+trunk)
		} else {
			rows = n.node(rows, width, below+lastBranch, below+noTrunk)
		}
	}
	return rows
}

// minText is the minimum number of columns in a row after its prefix.
const minText = 20

// hang adds a row after the prefix head. Where it is broken, it continues after the prefix rest.
func hang(rows []Row, r Row, width int, head, rest string) []Row {
	room := func(prefix string) int { return max(width-printable.Columns(prefix), minText) }
	for _, part := range r.Wrap(room(head), room(rest)) {
		rows = append(rows, append(Row{{head, Normal}}, part...).TrimRight())
		head = rest
	}
	return rows
}
