//go:build unix

package docs

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
)

// elsewhere ends the names of hooks that differ only in the service whose secret they guard.
const elsewhere = "-secret-elsewhere"

// TestPackTables compares the page about packs with the built-in packs.
func TestPackTables(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(packs.Files(), "*")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, file := range files {
		data, err := fs.ReadFile(packs.Files(), file)
		if err != nil {
			t.Fatal(err)
		}
		p, errs := policy.Parse(file, data)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		var actions []string
		hooks := map[string][]string{}
		services := 0 // whose secrets have a hook each
		for _, h := range p.Hooks {
			action := h.Decide
			switch {
			case h.Mask != nil:
				action = "mask"
			case h.Replace != nil:
				action = "replace"
			case action == "":
				action = "context"
			}
			if hooks[action] == nil {
				actions = append(actions, action)
			}
			if strings.HasSuffix(h.Name, elsewhere) {
				services++
				continue
			}
			hooks[action] = append(hooks[action], code(h.Name))
		}
		if services > 0 {
			hooks["ask"] = append(hooks["ask"], fmt.Sprintf("`ask-before-SERVICE%s` for %d services", elsewhere, services))
		}
		slices.Sort(actions)
		var rows [][]string
		for _, action := range actions {
			rows = append(rows, []string{action, strings.Join(hooks[action], ", ")})
		}
		parts[strings.TrimSuffix(file, ".yaml")] = table([]string{"action", "hooks"}, rows)
	}
	checkParts(t, "packs.md", parts)
}
