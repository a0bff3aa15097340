//go:build e2e && linux

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// warning is the title of the warning, see the test below.
const warning = "Settings Warning"

// Claude Code shows a full-screen warning at each interactive start if its settings contain an
// event that its version does not know. Without a terminal it ignores such an entry.
func TestClaudeCodeStartsWithoutWarning(t *testing.T) {
	t.Parallel()
	for _, a := range []*agents.Agent{agents.ClaudeCodeNode20, agents.ClaudeCode} {
		t.Run(a.Version, func(t *testing.T) {
			t.Parallel()
			g := unguarded(t, a, noTouching)
			out := g.Exec(t, filepath.Join(g.bin, "grapnel"), "install", a.ID, "--yes", "--root", g.kit)
			if want := a.ID + " " + a.Version + ": "; !strings.Contains(out.Stdout, want) {
				t.Fatalf("install prints\n%s%s\nwant %q", out.Stdout, out.Stderr, want)
			}
			if screen := start(t, g); strings.Contains(screen, warning) {
				t.Errorf("the screen is\n%s", screen)
			}
		})
	}
}

// start starts Claude Code on a terminal and returns its first screen.
func start(t *testing.T, g guarded) string {
	t.Helper()
	g.WriteFile(t, filepath.Join(g.Home, ".claude.json"), fmt.Sprintf(`{
  "hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
  "projects": {%q: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}}
}`, g.Project))
	defer agents.Slot()()
	cmd := &exec.Cmd{Path: g.Program.Command[0], Args: g.Program.Command, Dir: g.Project, Env: append(g.Env(), "TERM=xterm-256color", "NO_COLOR=")}
	first := regexp.MustCompile(`\? for shortcuts|shift\+tab|` + warning)
	return display.Start(t, cmd, 120, 40).Until(t, first.MatchString, first)
}
