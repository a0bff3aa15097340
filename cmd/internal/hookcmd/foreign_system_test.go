//go:build system && (linux || darwin)

package hookcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/dialect"
)

// foreignFiles are hook files of the five systems: each has hooks that block, add or observe, and one
// that does not match.
var foreignFiles = map[string]map[string]string{
	"ironclaw": {"hooks/hooks.json": `{"rules": [
		{"name": "no-rm", "points": ["beforeToolCall"], "when_regex": "rm -rf", "reject_reason": "no rm"},
		{"name": "sign", "points": ["beforeInbound"], "append": "-- signed"},
		{"name": "class", "points": ["beforeInbound"], "when_regex": "(", "reject_reason": "never"},
		{"name": "out", "points": ["beforeOutbound"], "reject_reason": "never"}]}`},
	"miniclaw": {".mini-claw/settings.json": `{"hooks": {
		"pre_tool": [{"tool_pattern": "write", "command": "false"}, {"tool_pattern": "b*", "command": "case $TOOL_NAME in bash) echo no >&2; exit 1;; esac"}],
		"post_tool": [{"command": "true"}]}}`},
	"flyto": {".flyto/hooks.json": `{"pre_tool_use": [{"command": "exit 1"}, {"command": "echo no $TOOL_NAME >&2; exit 2"}], "stop": [{"command": "exit 1"}], "session_start": [{"command": "true"}]}`},
	"gemini-cli": {".gemini/settings.json": `{"hooks": {
		"BeforeTool": [{"matcher": "run_shell_command", "sequential": true, "hooks": [{"type": "command", "command": "echo '{\"decision\":\"deny\",\"reason\":\"no shell\"}'"}]}, {"matcher": "replace", "hooks": [{"type": "command", "command": "exit 2"}]}],
		"BeforeAgent": [{"hooks": [{"type": "command", "command": "echo '{\"hookSpecificOutput\":{\"additionalContext\":\"more\"}}'"}]}]}}`},
	"openclaw": {
		".openclaw/hooks.json": `{"hooks": {"before-tool-call": [{"handler": "guard.mjs", "matcher": ["exec"]}], "session-start": "seen.mjs"}}`,
		".openclaw/guard.mjs":  `export default (ctx) => ({ block: true, blockReason: "no " + ctx.toolName })`,
		".openclaw/seen.mjs":   `export default () => {}`,
	},
}

// A hook file of another system gets the same answer from the hook program, through a daemon, in a Go
// agent and from "grapnel explain --run".
func TestForeignFourWays(t *testing.T) {
	t.Parallel()
	bin, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	for format, files := range foreignFiles {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			root := rootWith(t, "version: 1\nload: ["+format+"]\n")
			for name, text := range files {
				file := filepath.Join(root, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var payloads [][]byte
			for _, event := range []string{
				`"hook_event_name":"PreToolUse","tool_use_id":"t1","tool_name":"Bash","tool_input":{"command":"rm -rf /p/x"}`,
				`"hook_event_name":"PreToolUse","tool_use_id":"t2","tool_name":"Write","tool_input":{"file_path":"/p/a","content":"x"}`,
				`"hook_event_name":"PostToolUse","tool_use_id":"t3","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":{"stdout":"a"}`,
				`"hook_event_name":"UserPromptSubmit","prompt":"hello"`,
				`"hook_event_name":"SessionStart","source":"startup"`,
				`"hook_event_name":"Stop","stop_hook_active":false`,
			} {
				payloads = append(payloads, fmt.Appendf(nil, `{"session_id":"s","cwd":%q,"transcript_path":"/t",%s}`, root, event))
			}
			d := dialect.ClaudeCode()
			answers := 0
			for _, payload := range payloads {
				ways := map[string]programResult{"program": program([]string{d.Name, "--root", root}, payload)}
				ways["in process"] = inProcess(t, d, root, payload)
				ways["explain"] = explained(t, filepath.Join(bin, "grapnel"), root, payload)
				if ways["program"].Stdout != "" {
					answers++
				}
				for way, got := range ways {
					if diff := cmp.Diff(ways["program"], got); diff != "" {
						t.Errorf("(-program +%s)\n%s", way, diff)
					}
				}
			}
			if answers == 0 {
				t.Error("no event has an answer")
			}
			listen(t, root)
			for _, payload := range payloads {
				if diff := cmp.Diff(inProcess(t, d, root, payload), program([]string{d.Name, "--root", root}, payload)); diff != "" {
					t.Errorf("(-in process +daemon)\n%s", diff)
				}
			}
		})
	}
}

// explained returns the reply that "grapnel explain --run" shows.
func explained(t *testing.T, grapnel, root string, payload []byte) programResult {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), grapnel, "explain", dialect.ClaudeCode().Name, "--run", "--json", "--root", root)
	cmd.Stdin = bytes.NewReader(payload)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	var shown struct {
		Reply struct {
			Stdout, Stderr string
			Exit           int
		}
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		t.Fatal(err)
	}
	return programResult{string(payload), shown.Reply.Stdout, shown.Reply.Stderr, shown.Reply.Exit}
}
