// Package kit uses package hooktest as another module does, in tests.
package kit

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/hooktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noForce = grapnel.Spec{
	Name: "no-force", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"},
	Hook: grapnel.Guard(func(ev *grapnel.Event) string {
		if strings.Contains(ev.Tool.Commands[0], "--force") {
			return "Push a new branch instead."
		}
		return ""
	}),
}

func TestHook(t *testing.T) {
	t.Parallel()
	got := hooktest.Blocks(t, hooktest.Shell("git push --force"), noForce)
	if got.Reason() != "Push a new branch instead." {
		t.Errorf("reason %q", got.Reason())
	}
	hooktest.Passes(t, hooktest.Shell("git push"), noForce)
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	engine := hooktest.PolicyText(t, "version: 1\nhooks:\n  - {name: ask, on: tool.before, match: {path: '*.env'}, ask: Really?}\n", nil)
	hooktest.Asks(t, hooktest.Read(".env"), engine)
	hooktest.Passes(t, hooktest.Read("main.go"), engine)
}
