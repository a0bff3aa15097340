//go:build system

package corpus

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

// TestHooks checks that every hook of every pack stops at least one dangerous case, and that at
// least one harmless case is similar to what it matches.
func TestHooks(t *testing.T) {
	t.Parallel()
	stops, near := map[string]bool{}, map[string]bool{}
	for _, c := range play(t, "dangerous/*.yaml", project) {
		for _, hook := range c.hooks {
			stops[hook] = true
		}
	}
	names := hooks(t)
	for _, c := range play(t, "harmless/*.yaml", project) {
		near[c.near] = true
		if c.near != "" && !slices.Contains(names, c.near) {
			t.Errorf("the harmless case %s is near %q, and no pack has a hook of that name", c.id, c.near)
		}
	}
	for _, hook := range names {
		if !stops[hook] {
			t.Errorf("no dangerous case is stopped by the hook %s", hook)
		}
		if !near[hook] {
			t.Errorf("no harmless case says that it is near the hook %s", hook)
		}
	}
}

// hooks lists the names of the hooks of all packs.
func hooks(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pack := range registry(t).Names() {
		data, err := fs.ReadFile(packs.Files(), pack+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		p, errs := policy.Parse(pack+".yaml", data)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, h := range p.Hooks {
			if h.Context == nil { // a context hook stops nothing
				names = append(names, h.Name)
			}
		}
	}
	return names
}
