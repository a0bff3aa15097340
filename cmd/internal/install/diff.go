package install

import (
	"fmt"
	"slices"
	"strings"
)

// unified returns the difference of two versions of a file as a unified diff
// with three lines of context; nil stands for no file. It is empty when they
// are equal.
func unified(name string, before, after []byte) string {
	if string(before) == string(after) && (before == nil) == (after == nil) {
		return ""
	}
	a, b := lines(before), lines(after)
	oldName, newName := name, name
	if before == nil {
		oldName = "/dev/null"
	}
	if after == nil {
		newName = "/dev/null"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	edits := diffLines(a, b)
	const context = 3
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i++
			continue
		}
		// A hunk reaches to the last change that is no further than two
		// contexts from the one before.
		end := i + 1
		for j := end; j < len(edits) && j-end <= 2*context; j++ {
			if edits[j].op != ' ' {
				end = j + 1
			}
		}
		from, to := max(0, i-context), min(len(edits), end+context)
		hunk := edits[from:to]
		var na, nb int
		for _, e := range hunk {
			if e.op != '+' {
				na++
			}
			if e.op != '-' {
				nb++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(hunk[0].a, na), span(hunk[0].b, nb))
		for _, e := range hunk {
			line := ""
			if e.op == '+' {
				line = b[e.b]
			} else {
				line = a[e.a]
			}
			out.WriteByte(e.op)
			out.WriteString(line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
		i = to
	}
	return out.String()
}

// span is the range of n lines from index i as a hunk header writes it.
func span(i, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", i)
	case 1:
		return fmt.Sprint(i + 1)
	}
	return fmt.Sprintf("%d,%d", i+1, n)
}

func lines(data []byte) []string {
	ls := strings.SplitAfter(string(data), "\n")
	if ls[len(ls)-1] == "" {
		ls = ls[:len(ls)-1]
	}
	return ls
}

// A lineEdit keeps (' '), removes ('-') or adds ('+') a line; a and b are the
// indexes in both files at that point.
type lineEdit struct {
	op   byte
	a, b int
}

// maxRounds bounds the search for the smallest difference. An installation
// changes some hundred lines; beyond the bound everything counts as changed.
const maxRounds = 2000

// diffLines is the algorithm of Myers (1986), on what is left after the common
// head and tail.
func diffLines(a, b []string) []lineEdit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	i, j := len(a)-tail, len(b)-tail // what is left to do, from the end
	var edits []lineEdit             // in reverse
	same := func() { i, j = i-1, j-1; edits = append(edits, lineEdit{' ', i, j}) }
	remove := func() { i--; edits = append(edits, lineEdit{'-', i, j}) }
	add := func() { j--; edits = append(edits, lineEdit{'+', i, j}) }
	for k := range tail {
		edits = append(edits, lineEdit{' ', len(a) - 1 - k, len(b) - 1 - k})
	}

	trace := furthest(a[head:i], b[head:j])
	for d := len(trace) - 1; d > 0; d-- {
		k, prev := (i-head)-(j-head), trace[d-1]
		if comesFromAbove(prev, k, d) {
			x := head + prev[k+1] // where the added line stands in a
			for i > x {
				same()
			}
			add()
		} else {
			x := head + prev[k-1] + 1
			for i > x {
				same()
			}
			remove()
		}
	}
	if trace == nil {
		for j > head {
			add()
		}
		for i > head {
			remove()
		}
	}
	for i > 0 {
		same()
	}
	slices.Reverse(edits)
	return edits
}

// furthest finds, for a growing number of changes, how far into a one gets on
// each diagonal k = index in a - index in b. The last round reaches the end of
// both; nil says that maxRounds were not enough.
func furthest(a, b []string) []map[int]int {
	var trace []map[int]int
	best := map[int]int{1: 0}
	for d := range maxRounds {
		round := make(map[int]int, d+1)
		trace = append(trace, round)
		for k := -d; k <= d; k += 2 {
			x := best[k-1] + 1
			if comesFromAbove(best, k, d) {
				x = best[k+1]
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			round[k] = x
			if x >= len(a) && x-k >= len(b) {
				return trace
			}
		}
		best = round
	}
	return nil
}

// comesFromAbove reports whether the best way onto diagonal k in round d adds a
// line; otherwise it removes one.
func comesFromAbove(best map[int]int, k, d int) bool {
	return k == -d || k != d && best[k-1] < best[k+1]
}
