//go:build system && unix

// The suite starts some hundred programs, which the race detector makes slow.

package process_test

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/hooktest"
	"github.com/grapnel-dev/grapnel/process"
)

// A program passes the suite for hooks, in every dialect that it can speak.
func TestCommandHoldsTheLaws(t *testing.T) {
	t.Parallel()
	before := []grapnel.Kind{grapnel.ToolBefore, grapnel.PromptBefore}
	for name, tt := range map[string]struct {
		on  []grapnel.Kind
		cmd process.Command
	}{
		"reads":   {before, process.Command{Line: "cat >/dev/null"}},
		"blocks":  {before, process.Command{Line: "echo no >&2; exit 2"}},
		"fails":   {[]grapnel.Kind{grapnel.ToolAfter, grapnel.SessionEnd}, process.Command{Line: "exit 7"}},
		"changes": {[]grapnel.Kind{grapnel.PromptBefore}, process.Command{Line: `echo '{"set":{"prompt":"be kind"}}'`}},
		"hangs":   {[]grapnel.Kind{grapnel.SessionStart}, process.Command{Line: "sleep 60 & wait"}},
		"absent":  {[]grapnel.Kind{grapnel.ToolBefore}, process.Command{Args: []string{"./nowhere/at/all"}}},
		"claude":  {before, process.Command{Line: "exit 2", Dialect: dialect.ClaudeCode(), Vars: dialect.ClaudeCode().HookEnv}},
		"flyto":   {[]grapnel.Kind{grapnel.ToolBefore}, process.Command{Line: `test -n "$TOOL_NAME"`, Dialect: dialect.Flyto(), Vars: dialect.Flyto().HookEnv}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.cmd.Name, tt.cmd.Executor = name, process.System
			spec := grapnel.Spec{Name: name, On: tt.on, Hook: &tt.cmd}
			if name == "hangs" {
				spec.Timeout = 100 * time.Millisecond
			}
			hooktest.TestHook(t, spec)
		})
	}
}
