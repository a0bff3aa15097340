//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package docs

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/features.md lists the status and the tests of each promise of five systems. The test fails
// for a promise without a test, for a test of an unknown promise, for a test of a promise that no
// program can see, and for a system of which too few promises work.
func TestFeatures(t *testing.T) {
	t.Parallel()
	tests, cases := provingTests(t), casesOf(t)
	known := map[string]bool{}
	var rows, sums strings.Builder
	for _, s := range readPromises(t) {
		fmt.Fprintf(&rows, "\n## %s\n\n| | promise | status | tests |\n|---|---|---|---|\n", s.name)
		count := map[string]int{}
		for _, p := range s.promises {
			known[p.id] = true
			count[p.status]++
			by := tests[p.id]
			switch {
			case len(by) == 0 && p.status != notVisible:
				t.Errorf("%s (%s): no test proves this promise", p.id, p.what)
			case len(by) > 0 && p.status == notVisible:
				t.Errorf("%s is not visible, and %s proves it", p.id, by[0])
			}
			status := p.status
			if p.reason != "" {
				status = "**" + p.status + "**: " + p.reason
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", p.id, p.what, status, evidence(by, cases[p.id]))
		}
		all := len(s.promises)
		share := 100 * count[works] / all
		if share < minWorks {
			t.Errorf("%s: %d of %d promises work (%d %%), want %d %%: make more of them work instead of writing that they differ", s.name, count[works], all, share, minWorks)
		}
		anchor := strings.ReplaceAll(strings.ToLower(s.name), " ", "-")
		fmt.Fprintf(&sums, "| [%s](#%s) | %d | %d | %d | %d | %d %% |\n", s.name, anchor, count[works], count[differs], count[notVisible], all, share)
	}
	for id, by := range tests {
		if !known[id] {
			t.Errorf("%s proves %s, which is not in promises.txt", by[0], id)
		}
	}
	const page = "features.md"
	text := featuresHead + "\n| system | works | differs | not visible | of | works |\n|---|---|---|---|---|---|\n" + sums.String() + rows.String()
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readPage(t, page); got != text {
		t.Errorf("%s is out of date: run go test -tags system ./cmd/test/docs -run TestFeatures -update", page)
	}
}

// minWorks is the minimum share of the promises of each system that must work, in percent.
const minWorks = 90

// evidence lists at most three tests, and the number of conformance cases.
func evidence(tests []string, cases int) string {
	slices.SortFunc(tests, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	var list []string
	for _, test := range tests[:min(3, len(tests))] {
		list = append(list, "`"+test+"`")
	}
	switch {
	case cases == 1:
		list = append(list, "1 case")
	case cases > 1:
		list = append(list, fmt.Sprint(cases, " cases"))
	}
	return strings.Join(list, ", ")
}

// rank sorts the examples of a system first, because a reader can run them.
func rank(test string) int {
	if strings.Contains(test, "examples/seeds/") {
		return 0
	}
	return 1
}
