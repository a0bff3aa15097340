//go:build system

package packs_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/policytest"
)

// TestMutants checks that the tests of each pack notice nearly every change of the pack.
// It starts no program, but it takes too long for the unit tests.
func TestMutants(t *testing.T) {
	t.Parallel()
	const score = 95 // percent of the changes
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
			report, err := policytest.Mutate(t.Context(), of.Tests, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Score() >= score {
				return
			}
			t.Errorf("the tests notice %.1f %% of the changes, want %d %%: grapnel test --mutate packs/%s", report.Score(), score, file)
			for _, m := range report.Policies[0].Mutants {
				if m.Status == policytest.Survived {
					t.Errorf("%s.yaml:%d:%d: %s: no test notices this change: %s", name, m.Line, m.Col, m.Hook, m.What)
				}
			}
		})
	}
}
