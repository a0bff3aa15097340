//go:build system

package packs_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/policytest"
)

// TestRules runs the tests of each pack. They must reach each hook. It starts no program,
// but it takes too long under the race detector.
func TestRules(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the table is that of before")
	}
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
		})
	}
}
