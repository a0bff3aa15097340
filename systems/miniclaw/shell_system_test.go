//go:build system && unix

package miniclaw_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/systems/miniclaw"
)

// A command runs at both tool events. Every exit code except 0 blocks, and the reason says why even
// if the command wrote nothing.
//
// Proves: MC-17, MC-18, MC-19, MC-20
func TestShellHook(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line, glob string // glob empty = all tools
		event      miniclaw.Event
		want       miniclaw.Action
	}{
		"passes":              {"true", "", pre("edit"), miniclaw.Continue()},
		"blocks":              {"echo vet failed >&2; exit 3", "", pre("edit"), miniclaw.Block("hook failed: vet failed")},
		"after the call":      {"echo lint >&2; exit 1", "", post("edit"), miniclaw.Block("hook failed: lint")},
		"start":               {"exit 1", "", miniclaw.AgentStart{}, miniclaw.Continue()},
		"silent":              {"exit 4", "", pre("edit"), miniclaw.Block("hook failed: exit status 4 of exit 4")},
		"silent on stderr":    {"echo no; false", "", pre("edit"), miniclaw.Block("hook failed: exit status 1 of echo no; false")},
		"killed":              {"kill -KILL $$", "", pre("edit"), miniclaw.Block("hook failed: signal SIGKILL ended kill -KILL $$")},
		"glob":                {"exit 1", "edit_*", pre("edit_file"), miniclaw.Block("hook failed: exit status 1 of exit 1")},
		"other tool":          {"exit 1", "edit_*", pre("read"), miniclaw.Continue()},
		"empty glob":          {"exit 1", "", pre("read"), miniclaw.Block("hook failed: exit status 1 of exit 1")},
		"no input, variables": {`test -z "$(cat)" && test "$HOOK_EVENT $HOOK_TOOL_NAME" = "pre_tool_call edit"`, "", pre("edit"), miniclaw.Continue()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := miniclaw.NewShellHook(tt.line)
			if tt.glob != "" {
				hook = hook.ForTool(tt.glob)
			}
			if name == "killed" { // the engine adds the error
				if reason, _ := miniclaw.NewHookRegistry().With(hook).Dispatch(t.Context(), tt.event).Reason(); !strings.HasPrefix(reason, "hook failed: signal SIGKILL ended ") {
					t.Errorf("reason %q", reason)
				}
				return
			}
			want(t, miniclaw.NewHookRegistry().With(hook), tt.event, tt.want)
			if got := hook.OnEvent(t.Context(), tt.event); !got.Equal(tt.want) {
				t.Errorf("OnEvent: %v, want %v", got, tt.want)
			}
		})
	}
	if got := miniclaw.NewShellHook("exit 1").ForTool("").OnEvent(t.Context(), pre("read")); got != miniclaw.Continue() {
		t.Errorf("an empty glob matches: %v", got)
	}
}

// A command runs in the working directory of this process, and a block before it does not start it.
//
// Proves: MC-07
func TestShellHookDirectory(t *testing.T) {
	t.Parallel()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want(t, miniclaw.NewHookRegistry().With(miniclaw.NewShellHook("pwd >&2; exit 1")), pre("edit"), miniclaw.Block("hook failed: "+dir))
	ran := filepath.Join(t.TempDir(), "ran")
	r := miniclaw.NewHookRegistry().With(miniclaw.NewBlockingHook([]string{"edit"}, "no")).With(miniclaw.NewShellHook("touch " + ran))
	want(t, r, pre("edit"), miniclaw.Block("no"))
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran after a block")
	}
}
