package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"
)

// tolerance is how far above its budget a row may be before it fails, as a share
// of the budget: what two measurements of one program differ by.
const tolerance = 0.15

// A row is one line of the table and one element of the JSON file.
type row struct {
	Name   string  `json:"name"`
	Ratio  float64 `json:"ratio"`  // measured over reference; the reference is named in the table
	Budget float64 `json:"budget"` // what Ratio should stay below
	Margin float64 `json:"margin"` // share of the budget that is left; negative above it
	OK     bool    `json:"ok"`     // Margin is above -tolerance, or above 0 where there is none

	measured string // with its unit
	unit     string // the reference
	worstOf  int    // rows of one kind for which it stands in the table; 0 = for itself
	beneath  bool   // it is one of those
	slow     bool   // it is let through since the machine is slow
}

// usual is what the static Go program of the comparison takes, in multiples of /bin/true,
// where the budgets were made.
const usual = 1.5

// pace is how much more time than there the gate lets pass on a machine whose static Go
// program takes so much, and on which half of the runs of a program took so many times the
// shortest: while others take its processors, the shortest of one row is none for another.
// Never below 1, and above 3 nothing is let through for it.
func pace(static, unrest float64) float64 { return min(max(1, static/usual)*max(1, unrest), 3) }

// allow lets a row through that fails since the machine is slow: one on which a new page
// of memory costs several times as much is a poor place for budgets of time, and a good one
// still for finding what became worse.
func (r *row) allow(pace float64) {
	timed := r.unit != "MB" && r.unit != "allocation"
	if timed && !r.OK && r.Ratio <= r.Budget*(1+tolerance)*pace {
		r.OK, r.slow = true, true
	}
}

// newRow judges a ratio. Figures are rounded to what a measurement can mean, and
// judged as they are shown.
func newRow(name string, ratio, budget float64) row {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	r := row{Name: name, Ratio: round(ratio), Budget: budget}
	r.Margin = round(1 - ratio/budget)
	r.OK = r.Margin >= -tolerance
	return r
}

// failed returns the names of the rows that the gate stops.
func failed(rows []row) []string {
	var names []string
	for _, r := range rows {
		if !r.OK {
			names = append(names, r.Name)
		}
	}
	return names
}

// worst returns the rows for a short table: of those of one kind the worst.
func worst(rows []row) []row {
	var some []row
	for _, r := range rows {
		if r.worstOf > 0 {
			r.Name += fmt.Sprintf(", the worst of %d", r.worstOf)
		}
		if !r.beneath {
			some = append(some, r)
		}
	}
	return some
}

// printTable writes the rows as an aligned table: text to the left, figures to
// the right.
func printTable(w io.Writer, rows []row) error {
	lines := [][]string{{"path", "measured", "ratio", "budget", "of", "margin", "ok"}}
	for _, r := range rows {
		ok := "ok"
		switch {
		case !r.OK:
			ok = "FAIL"
		case r.slow:
			ok = "slow machine"
		case r.Margin < 0:
			ok = "ok, above budget"
		}
		lines = append(lines, []string{
			r.Name, r.measured, figure(r.Ratio), figure(r.Budget), r.unit,
			fmt.Sprintf("%+.0f %%", 100*r.Margin), ok,
		})
	}
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	left := map[int]bool{0: true, 4: true, 6: true}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			switch {
			case i == len(line)-1:
				b.WriteString(cell + "\n")
			case left[i]:
				b.WriteString(cell + pad + "  ")
			default:
				b.WriteString(pad + cell + "  ")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// figure prints small numbers with two decimals and others without.
func figure(x float64) string {
	if x < 100 && x != math.Trunc(x) {
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// writeJSON keeps the rows in a file, as an array.
func writeJSON(file string, rows []row) error {
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
