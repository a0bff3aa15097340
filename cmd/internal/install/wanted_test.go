package install

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
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
