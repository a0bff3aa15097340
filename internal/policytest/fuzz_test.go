package policytest_test

import (
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// Parse either reads a text or returns an error with a position, and every parsed test can run.
func FuzzParse(f *testing.F) {
	for _, tt := range runTests {
		f.Add("version: 1\ntests:\n  - " + tt.test + "\n")
	}
	f.Add("version: 1\ntests:\n  - {before: [ls, {prompt: hi, later: 90s}], each: [{later: 2h}, {later: 1ns}], command: ps, want: {not: block}}\n")
	f.Add("version: 1\nvars: {a: b}\nagents: [gemini]\ntests:\n  - {each: [ls, {prompt: '${a}'}], want: {replies: {gemini: {stdout: {a: 1}}}}}\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		file, errs := policytest.Parse(filepath.Join(dir, "grapnel_test.yaml"), []byte("pack: secrets\n"+text))
		for _, err := range errs {
			if err.Line < 1 || err.Col < 1 || err.Msg == "" {
				t.Errorf("an error without its place: %+v", err)
			}
		}
		if len(errs) > 0 || len(file.Tests) > 20 {
			return
		}
		for _, test := range file.Tests {
			test.Files = nil // do not copy the files
			if test.Name == "" || test.Line < 1 || len(test.In()) == 0 {
				t.Errorf("a test without name, place or agent: %+v", test)
			}
		}
		results, err := policytest.Run(t.Context(), file.Tests, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			if r := &results[i]; r.Status == "" || r.Status == policytest.Failed && len(r.Mismatches) == 0 || r.Status == policytest.Broken && r.Error == nil {
				t.Errorf("nobody knows what became of %v: %+v", r, r.Report())
			} else if r.Status != policytest.Passed {
				_ = r.Details()
			}
		}
	})
}
