//go:build system

package packs_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// These tests start no program, but they take too long for the unit tests.

// TestRules runs the tests of each pack. They must reach each hook.
func TestRules(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the table is that of before")
	}
	for _, name := range registry(t).Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := readTests(t, name)
			cover, err := policytest.NewCover(file.Tests, "")
			if err != nil {
				t.Fatal(err)
			}
			results, err := policytest.Run(t.Context(), file.Tests, &policytest.Options{Cover: cover})
			if err != nil {
				t.Fatal(err)
			}
			for i := range results {
				r := &results[i]
				if r.Status != policytest.Passed {
					t.Errorf("%s:%d: %s: %s %v %v", file.Path, r.Test.Line, r.Test.Name, r.Status, r.Mismatches, r.Error)
				}
			}
			if covered := cover.Coverage(); covered.Total.Rules.Reached < covered.Total.Rules.All {
				for _, line := range covered.Policies[0].Missing() {
					t.Error(line)
				}
			}
		})
	}
}

// TestMutants checks that the tests of each pack notice nearly every change of the pack.
func TestMutants(t *testing.T) {
	t.Parallel()
	const score = 95 // percent of the changes
	for _, name := range registry(t).Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := readTests(t, name)
			report, err := policytest.Mutate(t.Context(), file.Tests, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Score() >= score {
				return
			}
			t.Errorf("the tests notice %.1f %% of the changes, want %d %%: grapnel test --mutate packs/%s", report.Score(), score, file.Path)
			for _, m := range report.Policies[0].Mutants {
				if m.Status == policytest.Survived {
					t.Errorf("%s.yaml:%d:%d: %s: no test notices this change: %s", name, m.Line, m.Col, m.Hook, m.What)
				}
			}
		})
	}
}

func readTests(t *testing.T, pack string) *policytest.File {
	t.Helper()
	file, errs := policytest.Read(pack + policytest.Suffix)
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	return file
}
