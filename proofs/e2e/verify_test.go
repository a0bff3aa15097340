//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

var update = flag.Bool("update", false, "write what the agents honour into docs/verified")

// The behavior of each agent is the same as in its tables and in docs/verified, from which
// docs/agents.md is generated.
func TestVerify(t *testing.T) {
	t.Parallel()
	for _, a := range agents.All {
		if a.Variant != "" {
			continue
		}
		t.Run(a.ID, func(t *testing.T) {
			t.Parallel()
			p := agents.Program(t, a)
			done := agents.Slot()
			report, err := verify.Check(t.Context(), p, verify.Options{Hook: offline.Program(t, "grapnel-hook"), Progress: func(what string) { t.Log(what) }})
			done()
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range report.Problems {
				t.Error(problem)
			}
			for _, row := range report.Rows {
				if !row.OK {
					t.Errorf("%s %s: %s: seen %s, the tables promise %s", report.Agent, row.Event, row.What, row.Seen, row.Claim)
				}
			}
			file := filepath.Join("..", "..", "docs", "verified", a.ID+".json")
			if *update && !t.Failed() {
				data, err := json.MarshalIndent(report, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var kept verify.Report
			data, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s: none yet; run this test with -update", file)
			}
			if err := errors.Join(err, json.Unmarshal(data, &kept)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kept.Rows, report.Rows); diff != "" || kept.Version != report.Version {
				t.Errorf("%s is of %s, and %s differs (-file +now); run this test with -update:\n%s", file, kept.Version, report.Version, diff)
			}
		})
	}
}
