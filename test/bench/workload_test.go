package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/policy"
)

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50, 100} {
		file, errs := policy.Parse("grapnel.yaml", []byte(policyFile(n, watchThis)))
		if len(errs) > 0 || len(file.Hooks) != n {
			t.Errorf("policyFile(%d): %d hooks, errors %v", n, len(file.Hooks), errs)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 33, 1 << 20} { // 33 cuts a letter in two
		got := text(n)
		if len(got) > n || len(got) < n-1 || !utf8.ValidString(got) {
			t.Errorf("text(%d) has %d bytes, valid %v: %.60q", n, len(got), utf8.ValidString(got), got)
		}
	}
	if !strings.Contains(text(1000), "ë") {
		t.Error("text(1000) has no letter beyond ASCII")
	}
}

// Not parallel, since it counts allocations.
func TestEngineContests(t *testing.T) {
	g, err := engineContests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := measure(t.Context(), plan{runs: 1}, g)
	if err != nil || len(rows) != len(g.contests) {
		t.Fatalf("%d rows of %d, %v", len(rows), len(g.contests), err)
	}
	for _, r := range rows {
		if r.measured == "" || r.unit == "" || r.Ratio < 0 {
			t.Errorf("row %+v says nothing", r)
		}
	}
}
