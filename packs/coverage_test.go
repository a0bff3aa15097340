package packs_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/policytest"
)

// TestRules runs the tests that stand beside the packs. They reach each hook, and notice
// nearly all that could be changed of it; for that the race detector is too slow, so "make
// test" runs it once more.
func TestRules(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the table is that of before")
	}
	const score = 95 // percent of the changes that a test notices
	for _, name := range shelf(t).Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := name + policytest.Suffix
			of, errs := policytest.Read(file)
			for _, err := range errs {
				t.Error(err)
			}
			if len(errs) > 0 {
				return
			}
			cover, err := policytest.NewCover(of.Tests, "")
			if err != nil {
				t.Fatal(err)
			}
			results, err := policytest.Run(t.Context(), of.Tests, &policytest.Options{Cover: cover})
			if err != nil {
				t.Fatal(err)
			}
			for i := range results {
				r := &results[i]
				if r.Status != policytest.Passed {
					t.Errorf("%s:%d: %s: %s %v %v", file, r.Test.Line, r.Test.Name, r.Status, r.Mismatches, r.Error)
				}
			}
			if covered := cover.Coverage(); covered.Total.Rules.Reached < covered.Total.Rules.All {
				for _, line := range covered.Policies[0].Missing() {
					t.Error(line)
				}
			}
			if t.Failed() || raced || testing.Short() {
				return
			}
			noticed, err := policytest.Mutate(t.Context(), of.Tests, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if noticed.Score() >= score {
				return
			}
			t.Errorf("the tests notice %.1f %% of the changes, want %d %%: grapnel test --mutate packs/%s", noticed.Score(), score, file)
			for _, m := range noticed.Policies[0].Mutants {
				if m.Status == policytest.Survived {
					t.Errorf("%s.yaml:%d:%d: %s: no test notices when %s", name, m.Line, m.Col, m.Hook, m.What)
				}
			}
		})
	}
}
