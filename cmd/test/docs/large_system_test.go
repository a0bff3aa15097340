//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package docs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// conformance/features.md lists the tests that show the promises of five systems. The test fails
// for a promise without a test, and for an excuse for a promise that has a test.
func TestFeatures(t *testing.T) {
	t.Parallel()
	tests, vectors := shownByTests(t), shownByVectors(t)
	var b strings.Builder
	b.WriteString(featuresHead)
	known := map[string]bool{}
	for _, s := range readPromises(t) {
		fmt.Fprintf(&b, "\n## %s\n\n| | promise | shown by |\n|---|---|---|\n", s.name)
		for _, p := range s.promises {
			known[p.id] = true
			var by []string
			if n := len(vectors[p.id]); n == 1 {
				by = append(by, "1 vector: "+vectors[p.id][0])
			} else if n > 1 {
				by = append(by, fmt.Sprintf("%d vectors: %s, ...", n, slices.Min(vectors[p.id])))
			}
			slices.SortFunc(tests[p.id], func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			for _, test := range tests[p.id][:min(3, len(tests[p.id]))] {
				by = append(by, "`"+test+"`")
			}
			switch {
			case len(by) == 0 && p.not == "":
				t.Errorf("%s (%s): no test shows this promise", p.id, p.what)
			case len(by) > 0 && strings.HasPrefix(p.not, "later"):
				t.Errorf("%s is said to come later, and %s shows it", p.id, by[0])
			case len(by) == 0:
				by = []string{p.not}
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", p.id, p.what, strings.Join(by, "; "))
		}
	}
	for id, by := range tests {
		if !known[id] {
			t.Errorf("%s names %s, which is no promise", by[0], id)
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join("..", "conformance", "features.md"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readPage(t, filepath.Join("..", "conformance", "features.md")); got != b.String() {
		t.Error("features.md is not what the tests say: run go test -tags system ./cmd/test/docs -update")
	}
}
