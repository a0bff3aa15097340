//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package policy_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/documents"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
)

// A rule gets the whole text of an event of any size.
func TestLargeEvent(t *testing.T) {
	t.Parallel()
	content, _ := json.Marshal(strings.Repeat("x", 8<<20) + " sk-live")
	ev := fixture.Write("a")
	ev.Tool.Input = json.RawMessage(`{"file_path":"a","content":` + string(content) + `}`)
	ev.Tool.Derive()
	if v := fixture.Engine(t, "/etc/p.yaml", fixture.Rule("match: {text: '/sk-[a-z]+/'}\nblock: x")).Fire(context.Background(), ev); v.Decision != grapnel.Block {
		t.Errorf("%v, want block", v.Decision)
	}
}

// The schema accepts every policy that Parse accepts: in the documentation, in scripts, and the
// shipped ones.
func TestSchemaAcceptsPolicies(t *testing.T) {
	t.Parallel()
	found := map[string]int{} // by file extension
	all, err := documents.All("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if _, errs := policy.Parse(d.Name, []byte(d.Text)); len(errs) > 0 {
			continue // see TestSchemaRefuses
		}
		found[filepath.Ext(d.Name)]++
		if err := fixture.CheckSchema(t, d.Text); err != nil {
			t.Errorf("%s: Parse accepts a policy and the schema does not: %v\n%s", d.Name, err, d.Text)
		}
	}
	if found[".md"] < 8 || found[".txtar"] < 10 || found[".yaml"] < 3 {
		t.Errorf("only these policies are found: %v", found)
	}
}
