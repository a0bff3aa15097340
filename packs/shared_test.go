package packs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/scramble"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Regression: packs.All was a variable, so a caller could change its hooks for the whole process,
// including self-protection. Now a caller can change what it got, and a policy that is loaded later
// still blocks.
func TestPacksCannotBeChanged(t *testing.T) {
	for name, table := range map[string]func() any{
		"All":    func() any { return packs.All() },
		"Find":   func() any { pack, _ := packs.All().Find("destructive"); return pack },
		"Names":  func() any { return packs.All().Names() },
		"Always": func() any { return packs.Always() },
	} {
		before := scramble.Print(table())
		scramble.Value(table())
		if after := scramble.Print(table()); after != before {
			t.Errorf("%s has changed", name)
		}
	}
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nuse: [destructive]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}, Packs: packs.All(), Always: packs.Always()})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	ev := event(t, "PreToolUse", "Bash", map[string]any{"command": "rm -rf /"})
	if v := engine.Fire(t.Context(), ev); v.Decision != grapnel.Block {
		raw, _ := json.Marshal(ev)
		t.Errorf("decided %v of %s, want a block", v.Decision, raw)
	}
}
