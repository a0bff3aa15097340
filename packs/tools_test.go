package packs_test

import (
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A rule about calls holds for every tool that runs a line, so none names the class shell. Rules about
// results do, beside other classes.
func TestRulesNameNoShell(t *testing.T) {
	t.Parallel()
	all := registry(t)
	used := &policyfile.Policy{}
	for _, name := range all.Names() {
		used.Use = append(used.Use, policyfile.Use{Pack: policyfile.Word{Text: name}})
	}
	list, errs := load.PacksOf(used, "p.yaml", all)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, pack := range list {
		for _, hook := range pack.Policy.Hooks {
			if slices.Contains(hook.On, grapnel.ToolBefore) && hook.Match != nil && slices.Contains(hook.Match.Tool, "shell") {
				t.Errorf("%s::%s names the class shell: match commands, redirections or paths", pack.Pack.Text, hook.Name)
			}
		}
	}
}
