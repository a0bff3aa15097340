package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"
)

// A row is one line of the table and one element of the JSON file.
type row struct {
	Name   string  `json:"name"`
	Detail string  `json:"detail,omitempty"` // which of several candidates
	Ratio  float64 `json:"ratio"`            // cost over the reference's cost, or in the unit if there is no reference
	Budget float64 `json:"budget"`           // upper limit for Ratio
	Margin float64 `json:"margin"`           // share of the budget that is left; negative above it
	OK     bool    `json:"ok"`               // Ratio is within the budget, with the tolerance of the run

	Today     float64 `json:"today,omitempty"`     // ceiling of a budget that is not met yet
	Floor     float64 `json:"floor,omitempty"`     // the ratio of a program that does only the unavoidable work
	Measured  float64 `json:"measured,omitempty"`  // cost, in Unit
	Unit      string  `json:"unit,omitempty"`      // of Measured, and of Ratio if there is no reference
	Reference string  `json:"reference,omitempty"` // the denominator of Ratio
	Runs      int     `json:"runs,omitempty"`
	NotYet    string  `json:"not_yet,omitempty"` // why the path cannot be measured yet
	Error     string  `json:"error,omitempty"`   // why the row has no result

	path   *path
	failed bool // the gate fails because of this row
	hidden bool // a candidate that was not the worst
	cut    bool // there was no time for all runs
}

// judge computes the rows of a group of paths. limit is the share of the budget at which
// a row fails.
func judge(paths []*path, limit float64) []row {
	byName := map[string]float64{}
	rows := make([]row, 0, len(paths))
	worst := worstOf(paths)
	for _, p := range paths {
		r := newRow(p, byName, limit)
		byName[r.Name] = r.Ratio
		if p.screened && r.Error == "" {
			r.hidden = p != worst
			if r.hidden {
				r.Name, r.Detail, r.failed = "dialect "+p.detail, "", false
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// newRow judges one path. It rounds figures to the precision of a measurement and judges the
// rounded figures. measured holds the ratios of the rows above it.
func newRow(p *path, measured map[string]float64, limit float64) row {
	r := row{Name: p.name, Detail: p.detail, Budget: p.budget, Today: p.today, Unit: p.unit.name, NotYet: p.notYet, path: p}
	if p.reference != nil {
		r.Reference = p.reference.name
	}
	floorReference := p.floorReference
	if floorReference == nil {
		floorReference = p.reference
	}
	if p.floor != nil && p.err == nil {
		if x, err := ratio(p.floor, floorReference); err == nil {
			r.Floor = round(x)
			r.Today = max(r.Today, round(p.todayFloors*x))
		}
	}
	if p.notYet != "" && p.err == nil {
		return r
	}
	x, err := ratio(p.subject, p.reference)
	if p.above != "" {
		base, ok := measured[p.above]
		if !ok || base == 0 {
			err = errors.Join(err, fmt.Errorf("no result for %q, which the budget adds to", p.above))
		}
		r.Budget = round(base + p.budget)
	}
	if p.err != nil {
		err = p.err
	}
	if err != nil {
		r.Error, r.failed = err.Error(), true
		return r
	}
	if p.exact {
		limit = 1
	}
	r.Ratio, r.Measured, r.Runs = round(x), p.subject.min, p.subject.runs
	r.Margin = round(1 - r.Ratio/r.Budget)
	r.OK = r.Ratio <= r.Budget*limit
	r.failed = r.Ratio > max(r.Budget, r.Today)*limit
	return r
}

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

// state describes the result of the row in a few words.
func (r *row) state() string {
	switch {
	case r.Error != "":
		return "ERROR"
	case r.NotYet != "":
		return "not possible yet"
	case r.failed:
		return "FAIL"
	case r.Today > 0 && r.Ratio <= r.Budget:
		return "ok (met now)"
	case r.Today > 0:
		return "not met yet (" + r.figure(r.Today) + ")"
	case r.Ratio > r.Budget:
		return "ok, above budget"
	}
	return "ok"
}

// figure prints a ratio, or a cost with its unit if the row has no reference.
func (r *row) figure(x float64) string {
	if r.Reference == "" {
		return r.path.unit.format(x)
	}
	return fmt.Sprintf("%.2f", x)
}

// line returns the cells of the row.
func (r *row) line() []string {
	name, measured, compared, margin, floor := r.Name, "-", "-", "-", "-"
	if r.Detail != "" {
		name += " (" + r.Detail + ")"
	}
	if r.Error == "" && r.NotYet == "" {
		measured, margin = r.path.unit.format(r.Measured), fmt.Sprintf("%+.0f %%", 100*r.Margin)
		if r.Reference != "" {
			compared = r.figure(r.Ratio)
		}
	}
	if r.path.floor != nil && r.Error == "" {
		floor = r.figure(r.Floor)
	}
	return []string{name, measured, compared, r.figure(r.Budget), floor, margin, r.state()}
}

// printTable writes the rows as an aligned table. Reasons that are too long for a cell follow
// below.
func printTable(w io.Writer, rows []row, everyone bool) error {
	lines := [][]string{{"path", "measured", "ratio", "budget", "floor", "margin", "ok"}}
	var reasons strings.Builder
	for i := range rows {
		r := &rows[i]
		if r.hidden && !everyone {
			continue
		}
		lines = append(lines, r.line())
		if reason := r.Error + r.NotYet; reason != "" {
			fmt.Fprintf(&reasons, "\n%s: %s: %s\n", r.Name, r.state(), strings.TrimSpace(reason))
		}
	}
	_, err := io.WriteString(w, aligned(lines)+reasons.String())
	return err
}

// aligned lays out a table: the first and the last column to the left, figures to the right.
func aligned(lines [][]string) string {
	width := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			switch i {
			case 0:
				b.WriteString(cell + pad + "  ")
			case len(line) - 1:
				b.WriteString(cell + "\n")
			default:
				b.WriteString(pad + cell + "  ")
			}
		}
	}
	return b.String()
}

// names returns the names of the rows for which keep is true.
func names(rows []row, keep func(*row) bool) []string {
	var some []string
	for i := range rows {
		if keep(&rows[i]) {
			some = append(some, rows[i].Name)
		}
	}
	return some
}

// writeJSON writes all rows to a file, as an array.
func writeJSON[T any](file string, rows []T) error {
	data, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
