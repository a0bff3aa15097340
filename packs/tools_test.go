package packs_test

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A rule about calls holds for every tool that runs a line, so none names the class shell. Rules about
// results do, beside other classes.
func TestRulesNameNoShell(t *testing.T) {
	t.Parallel()
	all := registry(t)
	for _, name := range all.Names() {
		pack, _ := all.Find(name)
		p, err := pack.Policy()
		if err != nil {
			t.Fatal(err)
		}
		for _, hook := range p.Hooks {
			if slices.Contains(hook.On, grapnel.ToolBefore) && hook.Match != nil && slices.Contains(hook.Match.Tool, "shell") {
				t.Errorf("%s::%s names the class shell: match commands, redirections or paths", name, hook.Name)
			}
		}
	}
}
