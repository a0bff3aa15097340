//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package packs_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// The advice of a hook contains no command that another hook stops: a model that follows the advice
// must be able to continue.
func TestAdvice(t *testing.T) {
	t.Parallel()
	e := using(t, registry(t).Names()...)
	for name, p := range shipped(t) {
		for _, h := range p.Hooks {
			for _, line := range h.Advice {
				if v := e.Fire(t.Context(), event(t, "PreToolUse", "Bash", map[string]any{"command": line})); v.Decision != grapnel.None {
					t.Errorf("%s.yaml:%d: hook %s advises %q, and that is answered with %v: %v", name, h.Line, h.Name, line, v.Decision, v.Reasons)
				}
			}
		}
	}
}
