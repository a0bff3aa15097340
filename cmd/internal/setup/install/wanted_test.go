package install

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
)

func TestHookTime(t *testing.T) {
	t.Parallel()
	on := func(kind grapnel.Kind, phase grapnel.Phase, priority int, timeout time.Duration) grapnel.Spec {
		return grapnel.Spec{On: []grapnel.Kind{kind}, Phase: phase, Priority: priority, Timeout: timeout}
	}
	for name, tt := range map[string]struct {
		specs []grapnel.Spec
		want  time.Duration
	}{
		"nothing":         {nil, 0},
		"rules only":      {[]grapnel.Spec{on(grapnel.ToolBefore, grapnel.PhaseRule, 1, 0)}, 0},
		"together":        {[]grapnel.Spec{on(grapnel.ToolBefore, grapnel.PhaseStep, 1, 2*time.Second), on(grapnel.ToolBefore, grapnel.PhaseStep, 1, 3*time.Second)}, 3 * time.Second},
		"one by one":      {[]grapnel.Spec{on(grapnel.ToolBefore, grapnel.PhaseStep, 1, 2*time.Second), on(grapnel.ToolBefore, grapnel.PhaseStep, 2, 3*time.Second)}, 5 * time.Second},
		"other events":    {[]grapnel.Spec{on(grapnel.ToolBefore, grapnel.PhaseStep, 1, 2*time.Second), on(grapnel.ToolAfter, grapnel.PhaseStep, 2, 3*time.Second)}, 3 * time.Second},
		"every event":     {[]grapnel.Spec{{Timeout: time.Second}, on(grapnel.ToolAfter, grapnel.PhaseStep, 2, 3*time.Second)}, 4 * time.Second},
		"after the reply": {[]grapnel.Spec{on(grapnel.ToolBefore, grapnel.PhaseObserve, 1, time.Minute)}, 0},
	} {
		if got := HookTime(tt.specs); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// Hooks that ask or tell a server need their events and their time in the settings of agents, too.
func TestPolicyNeedsOfServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := local.Place{Policy: filepath.Join(dir, "grapnel.yaml"), State: filepath.Join(dir, "state"), Home: dir}
	policy := `version: 1
hooks:
  - {name: first, on: tool.before, timeout: 30s, priority: 1, http: "http://127.0.0.1:1/"}
  - {name: second, on: tool.before, timeout: 30s, priority: 2, http: "http://127.0.0.1:1/"}
  - {name: tell, on: response.before, notify: "http://127.0.0.1:1/"}
`
	if err := os.WriteFile(place.Policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	needs := PolicyNeeds(place)
	if want := time.Minute + replyMargin; needs.Timeout != want {
		t.Errorf("agents wait %v, want %v", needs.Timeout, want)
	}
	if got := needs.Events["claude-code"]; !slices.Contains(got, "MessageDisplay") {
		t.Errorf("Claude Code sends %v more, want MessageDisplay", got)
	}
}
