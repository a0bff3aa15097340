//go:build system && unix

package systems_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/internal/loadtest"
)

// An imported policy decides as the original file, for events of the agent itself and of others.
func TestImportedDecidesAsLoaded(t *testing.T) {
	t.Parallel()
	claude := []string{
		`"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"/p/a","content":"x"}`,
		`"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"/p/a","old_string":"x","new_string":"y"}`,
		`"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"/p/a"}`,
		`"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"rm -rf build"}`,
		`"hook_event_name":"PreToolUse","tool_name":"mcp__memory__add","tool_input":{}`,
		`"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":{"stdout":"a"}`,
		`"hook_event_name":"UserPromptSubmit","prompt":"hi"`,
		`"hook_event_name":"SessionStart","source":"startup"`,
		`"hook_event_name":"SessionStart","source":"clear"`,
		`"hook_event_name":"SessionEnd","reason":"clear"`,
		`"hook_event_name":"PreCompact","trigger":"manual"`,
		`"hook_event_name":"PreCompact","trigger":"auto"`,
		`"hook_event_name":"Stop","stop_hook_active":false`,
		`"hook_event_name":"SubagentStop","stop_hook_active":false`,
		`"hook_event_name":"Notification","notification_type":"idle_prompt","message":"m"`,
	}
	gemini := []string{
		`"hook_event_name":"BeforeTool","tool_name":"write_file","tool_input":{"file_path":"/p/a","content":"x"}`,
		`"hook_event_name":"BeforeTool","tool_name":"replace","tool_input":{"file_path":"/p/a","old_string":"x","new_string":"y"}`,
		`"hook_event_name":"BeforeTool","tool_name":"write_todos","tool_input":{}`,
		`"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"rm -rf build"}`,
		`"hook_event_name":"BeforeTool","tool_name":"mcp_memory_add","tool_input":{},"mcp_context":{"server_name":"memory","tool_name":"add"}`,
		`"hook_event_name":"BeforeModel","llm_request":{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		`"hook_event_name":"BeforeAgent","prompt":"hi"`,
		`"hook_event_name":"SessionStart","source":"startup"`,
		`"hook_event_name":"SessionStart","source":"resume"`,
		`"hook_event_name":"PreCompress","trigger":"auto"`,
		`"hook_event_name":"SessionEnd","reason":"clear"`,
		`"hook_event_name":"AfterAgent","prompt":"hi","prompt_response":"ho","stop_hook_active":false`,
		`"hook_event_name":"Notification","notification_type":"ToolPermission","message":"m"`,
	}
	name := regexp.MustCompile(`hook \\"[^"]*::[^"]*\\"`) // in a message: the only difference
	for format, tt := range map[string]struct {
		file   string
		hooks  int
		blocks int // verdicts that block, at least
	}{
		"gemini-cli": {file: `{"hooks": {
  "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "name": "greet", "command": "echo '{\"systemMessage\":\"hello\"}'"}]}],
  "BeforeModel": [{"matcher": "*", "hooks": [{"type": "command", "command": "echo '{\"decision\":\"deny\",\"reason\":\"no model\"}'", "timeout": 20000}]}],
  "BeforeAgent": [{"matcher": "", "hooks": [{"type": "command", "command": "exit 1"}]}],
  "AfterAgent": [{"hooks": [{"type": "command", "command": "echo again >&2; exit 2"}]}],
  "Notification": [{"hooks": [{"type": "command", "command": "true"}]}],
  "SessionEnd": [{"hooks": [{"type": "command", "command": "false"}]}],
  "BeforeTool": [
    {"matcher": "write_file", "hooks": [{"type": "command", "name": "guard", "command": "echo 'not here' >&2; exit 2"}]},
    {"matcher": "write_.*", "hooks": [{"type": "command", "command": "echo '{\"decision\":\"block\",\"reason\":\"outside docs/\"}'"}]},
    {"hooks": [{"type": "command", "command": "/no/such/program"}]}]}}`, hooks: 9, blocks: 5},
		"claude-code": {file: `{"hooks": {
  "SessionStart": [{"matcher": "resume|clear", "hooks": [{"type": "command", "command": "echo read AGENTS.md"}]}],
  "PreCompact": [{"matcher": "auto", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}],
  "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo 'no greeting' >&2; exit 2"}]}],
  "Stop": [{"hooks": [{"type": "command", "command": "echo '{\"decision\":\"block\",\"reason\":\"run the tests\"}'"}]}],
  "SubagentStop": [{"matcher": "", "hooks": [{"type": "command", "command": "exit 3"}]}],
  "Notification": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}],
  "PreToolUse": [
    {"matcher": "Bash", "hooks": [{"type": "command", "command": "case \"$(cat)\" in *'rm -rf'*) echo 'delete by hand' >&2; exit 2;; esac", "timeout": 10}]},
    {"matcher": "Edit|Write", "hooks": [{"type": "command", "command": "echo 'read only' >&2; exit 2", "timeout": 120}]},
    {"hooks": [{"type": "command", "command": "exit 1"}]}],
  "PostToolUse": [{"hooks": [{"type": "command", "command": "exit 1"}]}]}}`, hooks: 10, blocks: 9},
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			loaded := loadtest.Engine(t, dir, map[string]string{
				"settings.json": tt.file, "grapnel.yaml": "version: 1\nload: [{format: " + format + ", file: settings.json}]\n",
			})
			im, err := systems.Import(format, []string{filepath.Join(dir, "settings.json")}, policy.Parse)
			if err != nil || im.Hooks != tt.hooks {
				t.Fatalf("%d hooks, %v, want %d hooks\n%s%v", im.Hooks, err, tt.hooks, im.Policy, im.Unconverted)
			}
			imported := loadtest.Engine(t, t.TempDir(), map[string]string{"grapnel.yaml": string(im.Policy)})
			blocks := 0
			for agent, payloads := range map[string][]string{"claude-code": claude, "gemini-cli": gemini} {
				d, _ := dialect.FindAgent(agent)
				for _, payload := range payloads {
					text := `{"session_id":"s","cwd":` + string(rawjson.Quote(dir)) + `,"transcript_path":"/t",` + payload + `}`
					var replies [2]string
					for i, e := range []*grapnel.Engine{loaded, imported} {
						ev, err := d.Read(dialect.Input{Payload: []byte(text)})
						if err != nil {
							t.Fatal(err)
						}
						v := e.Fire(t.Context(), ev)
						reply := d.Write(ev, &v, "")
						replies[i] = name.ReplaceAllString(fmt.Sprintf("%v\n%s\n%s\nexit %d", v.Decision, reply.Stdout, reply.Stderr, reply.Exit), "hook X")
						if v.Decision == grapnel.Block {
							blocks++
						}
					}
					if diff := cmp.Diff(replies[0], replies[1]); diff != "" {
						t.Errorf("%s %s: (-loaded +imported)\n%s", agent, payload, diff)
					}
				}
			}
			if blocks < 2*tt.blocks {
				t.Errorf("%d blocks, want %d from each policy", blocks, tt.blocks)
			}
		})
	}
}
