package packs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// A rule about calls holds for every tool that runs a line, so none names the class shell. Rules about
// results do, beside other classes.
func TestRulesNameNoShell(t *testing.T) {
	t.Parallel()
	for _, pack := range registry(t).Packs() {
		for _, hook := range pack.Hooks {
			if slices.Contains(hook.On, grapnel.ToolBefore) && slices.Contains(strings.Split(hook.Needs.Tools, "\n"), "shell") {
				t.Errorf("%s::%s names the class shell: match commands, redirections or paths", pack.Name, hook.Name)
			}
		}
	}
}
