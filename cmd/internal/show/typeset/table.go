package typeset

import (
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
)

// A Column is a column of a table.
type Column struct {
	Head string
	Left bool // align to the left
	Rank int  // on a narrow terminal, columns with the highest rank are left out first; 0 = never
}

// minFirst is the width to which the first column is cut before other columns are left out.
const minFirst = 24

// Table returns the lines of a table, the first with the heads if there are any, for a width; 0 has room
// for all.
// All texts are safe for a terminal.
func Table(width int, columns []Column, rows [][]string) []string {
	widths := make([]int, len(columns))
	total := 0
	for i, c := range columns {
		widths[i] = printable.Columns(c.Head)
		for _, row := range rows {
			widths[i] = max(widths[i], printable.Columns(row[i]))
		}
		total += 2 + widths[i]
	}
	shown := make([]bool, len(columns))
	for i := range shown {
		shown[i] = true
	}
	for width > 0 && total-max(0, widths[0]-minFirst) > width {
		last := 0
		for i, c := range columns {
			if shown[i] && c.Rank > columns[last].Rank {
				last = i
			}
		}
		if last == 0 {
			break
		}
		shown[last] = false
		total -= 2 + widths[last]
	}
	if width > 0 && total > width {
		widths[0] = max(1, widths[0]-(total-width))
	}
	var lines []string
	line := func(cell func(i int) string) {
		var b strings.Builder
		for i, c := range columns {
			if !shown[i] {
				continue
			}
			if b.WriteString("  "); c.Left {
				b.WriteString(Left(cell(i), widths[i]))
			} else {
				b.WriteString(Right(cell(i), widths[i]))
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Head != "" }) {
		line(func(i int) string { return columns[i].Head })
	}
	for _, row := range rows {
		line(func(i int) string { return row[i] })
	}
	return lines
}
