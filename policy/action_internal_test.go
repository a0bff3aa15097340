package policy

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Each row of the table is complete: its key is parsed into a hook with this action only, the
// snapshot codec stores it, and a hook can be built from it.
func TestEveryActionIsComplete(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"block": "no", "ask": "sure?", "contain": "{read: [project], net: none}", "allow": "true",
		"limit": "{count: 3, per: 1m}", "context": "be careful",
		"replace": "[{pattern: a, with: b}]", "mask": "true", "set": "{tool.command: ls}",
		"run": "./check", "worker": "./check",
		"http": "https://policy.example.com/", "notify": "https://hooks.example.com/",
		"builtin": "{name: audit, file: audit.jsonl}",
	}
	made := noop.Hook{}
	for i := range actions {
		a := &actions[i]
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			on := "tool.before"
			if a.name == "context" {
				on = "prompt.before"
			}
			p, errs := Parse("p.yaml", []byte("version: 1\nhooks:\n  - name: x\n    on: "+on+"\n    "+a.name+": "+values[a.name]+"\n"))
			if len(errs) > 0 {
				t.Fatal(errs[0])
			}
			h := &p.Hooks[0]
			if found := slices.DeleteFunc(slices.Clone(actions), func(a action) bool { return !a.is(h) }); len(found) != 1 || actionOf(h) != a {
				t.Errorf("%d actions are in the hook, want only %s", len(found), a.name)
			}
			server := func(policyfile.HTTP) (grapnel.Hook, error) { return made, nil }
			b := &Builder{Policy: p, Facts: &match.FactCache{}, Runners: Runners{HTTP: server, Notify: server}}
			b.Command = func(policyfile.Command) grapnel.Hook { return made }
			specs, err := b.Build(grapnel.Source{Name: "p.yaml", File: t.TempDir() + "/p.yaml"})
			if err != nil || len(specs) != 1 || specs[0].Hook == nil {
				t.Errorf("build = %v, %v, want one hook", specs, err)
			}
		})
	}
}
