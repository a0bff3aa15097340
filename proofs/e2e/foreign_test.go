//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

// One bundle of IronClaw and one file of Flyto hooks. Every agent gets the same bytes.
const (
	ironclawBundle = `{"rules": [
  {"name": "not-that-file", "points": ["beforeToolCall"], "priority": 20, "failure_mode": "fail_closed", "timeout_ms": 500,
   "when_regex": "touch [^\"]*forbidden\\.txt", "reject_reason": "IronClaw keeps that file"},
  {"name": "hide-keys", "points": ["beforeToolCall"],
   "replacements": [{"pattern": "sk-[A-Za-z0-9]{20,}", "replacement": "sk-***"}]},
  {"name": "broken", "points": ["beforeToolCall"], "when_regex": "(", "reject_reason": "never"}
]}`

	flytoHooks = `{
  "pre_tool_use": [{"command": "case \"$TOOL_INPUT\" in *plan-b*) echo \"Flyto knows no plan B\" >&2; exit 2;; esac", "timeout": 5}],
  "post_tool_use": [{"command": "echo \"$TOOL_NAME $TOOL_IS_ERROR\" >> \"$FLYTO_PLUGIN_ROOT/seen.txt\"", "source": "diary", "plugin_dir": "@here@"}]
}`

	loadsBoth = `
version: 1
load:
  - ironclaw
  - {format: flyto, file: flyto.json}
`
)

// Hooks that were written for two other systems work in every agent: they block with their own
// reason, change a call, and observe a call. A broken rule in them is reported and has no effect
// on the other rules.
func TestHooksOfOtherSystems(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := unguarded(t, a, loadsBoth)
		plugin := filepath.Join(g.Root, "plugin")
		g.WriteFile(t, filepath.Join(plugin, "seen.txt"), "")
		g.WriteFile(t, filepath.Join(g.kit, "hooks", "hooks.json"), ironclawBundle)
		g.WriteFile(t, filepath.Join(g.kit, "flyto.json"), strings.ReplaceAll(flytoHooks, "@here@", plugin))
		g.grapnel(t, "install", a.ID, "--yes")

		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("touch ./forbidden.txt")),
			model.Do(g.Write("plan-b.txt", "never\n")),
			model.Do(g.Write("keys.txt", "key: sk-abcdefghijklmnopqrstuvwx\n")),
			model.Answer("all done"),
		)
		wantFile(t, res, "forbidden.txt", "")
		wantFile(t, res, "plan-b.txt", "")
		wantFile(t, res, "keys.txt", "key: sk-***\n")
		results := res.Requests.ToolResults()
		if len(results) != 3 {
			t.Fatalf("the model was told %d tool results, want 3: %+v", len(results), results)
		}
		for i, want := range []string{"IronClaw keeps that file", "Flyto knows no plan B"} {
			if !results[i].IsError || !strings.Contains(results[i].Text, want) {
				t.Errorf("of call %d the model was told %+v, want an error with %q", i+1, results[i], want)
			}
		}
		if results[2].IsError {
			t.Errorf("of the last call the model was told %+v", results[2])
		}
		seen := strings.Fields(g.ReadFile(t, filepath.Join(plugin, "seen.txt")))
		if len(seen) != 2 || seen[1] != "false" {
			t.Errorf("the hook after a tool noted %q, want one tool and false", seen)
		}
		log := g.records(t)
		wantJudged(t, log, 3)
		if got := strings.Join(log.of("tool.before").decisions(), " "); got != "block block none" {
			t.Errorf("decided %q, want block block none", got)
		}
		check := g.Exec(t, offline.Program(t, "grapnel"), "check", "--root", g.kit)
		if check.Exit != 1 || !strings.Contains(check.Stdout+check.Stderr, "hooks.json:6") || !strings.Contains(check.Stdout+check.Stderr, "broken") {
			t.Errorf("grapnel check: exit %d, want 1 with the broken rule and its line\n%s%s", check.Exit, check.Stdout, check.Stderr)
		}
	})
}

// Hooks in Claude Code's settings file run in the other agent too, and do not run twice in Claude
// Code.
func TestClaudeSettingsInGemini(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := unguarded(t, a, "version: 1\nload: [claude-code]\n")
		seen := filepath.Join(g.Root, "seen.txt")
		g.WriteFile(t, seen, "")
		g.WriteFile(t, filepath.Join(g.Home, ".claude", "settings.json"), `{"hooks": {"PreToolUse": [
  {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo ran >> `+seen+`; case \"$(cat)\" in *forbidden.txt*) echo 'the settings say no' >&2; exit 2;; esac"}]}]}}`)
		g.grapnel(t, "install", a.ID, "--yes")
		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("touch forbidden.txt")),
			model.Do(g.Write("b.txt", "two\n")),
			model.Answer("all done"),
		)
		wantFile(t, res, "forbidden.txt", "")
		wantFile(t, res, "b.txt", "two\n")
		results := res.Requests.ToolResults()
		if len(results) == 0 || !strings.Contains(results[0].Text, "the settings say no") {
			t.Errorf("the model was told %+v, want the reason of the settings' hook", results)
		}
		if got := g.ReadFile(t, seen); got != "ran\n" {
			t.Errorf("the hook noted %q, want that it ran once", got)
		}
	})
}
