//go:build system && unix

package systems_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/systems/internal/loadtest"
)

// Hooks of five systems run unchanged under another agent: they start as in their own system, find
// their files and variables, and their answers keep their meaning.
//
// Proves: MC-17, MC-19, MC-20, MC-22, GC-04, FL-20, FL-31, FL-33, FL-40, FL-41, FL-49
func TestForeignProgramsRun(t *testing.T) {
	const (
		shell = `"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"git push --force"}`
		write = `"hook_event_name":"BeforeTool","tool_name":"write_file","tool_input":{"file_path":"a.go","content":"x"}`
		after = `"hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"llmContent":"out"}`
		bash  = `"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"git push --force"}`
		stop  = `"hook_event_name":"AfterAgent","prompt":"p","prompt_response":"r","stop_hook_active":false`
	)
	t.Setenv("MY_SECRET_TOKEN", "s3cret")
	t.Setenv("PLAIN_VARIABLE", "plain")
	for name, tt := range map[string]struct {
		format   string
		files    map[string]string
		payload  string
		decision grapnel.Decision
		reason   string
		halt     string
		seen     string // content of the file seen, which programs write next to the policy
	}{
		"claude: told as Claude Code would": {
			format: "claude-code",
			files: map[string]string{".claude/settings.json": `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[
				{"type":"command","command":"cat > seen; echo no force >&2; exit 2"}]}]}}`},
			payload: shell, decision: grapnel.Block, reason: "no force", seen: `"tool_name":"Bash","tool_input":{"command":"git push --force"`,
		},
		"claude: not its tool": {
			format: "claude-code",
			files: map[string]string{".claude/settings.json": `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[
				{"type":"command","command":"echo no force >&2; exit 2"}]}]}}`},
			payload: write,
		},
		"claude: words and the project": {
			format: "claude-code",
			files: map[string]string{".claude/settings.json": `{"hooks":{"PreToolUse":[{"hooks":[
				{"type":"command","command":"sh","args":["-c","printf '%s|' \"$@\" > seen; exit 1","x","${CLAUDE_PROJECT_DIR}/it's","$HOME"]}]}]}}`},
			payload: shell, seen: "/it's|$HOME|",
		},
		"claude: a guard that fails, as it wishes": {
			format: "claude-code",
			files: map[string]string{".claude/settings.json": `{"hooks":{"PreToolUse":[{"hooks":[
				{"type":"command","command":"exit 1","onFailure":"block"}]}]}}`},
			payload: shell, decision: grapnel.Block,
		},
		"claude: a plugin sees its directory and little else": {
			format: "claude-code",
			files: map[string]string{
				".claude/settings.json":                            `{"enabledPlugins":{"p@m":true}}`,
				".claude/plugins/installed_plugins.json":           `{"plugins":{"p@m":[{"scope":"user","installPath":"DIR/.claude/plugins/cache/m/p/1"}]}}`,
				".claude/plugins/cache/m/p/1/hooks/hooks.json":     `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"\"${CLAUDE_PLUGIN_ROOT}\"/guard.sh"}]}]}}`,
				".claude/plugins/cache/m/p/1/guard.sh":             "#!/bin/sh\necho \"$CLAUDE_PLUGIN_ROOT ${MY_SECRET_TOKEN-none} ${PLAIN_VARIABLE-none}\" > seen\nexit 2\n",
				".claude/plugins/cache/m/other/1/hooks/hooks.json": `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"touch other"}]}]}}`,
			},
			payload: shell, decision: grapnel.Block, seen: "/.claude/plugins/cache/m/p/1 none none",
		},
		"gemini: variables, and JSON": {
			format: "gemini-cli",
			files: map[string]string{".gemini/settings.json": `{ // comment
				"hooks":{"BeforeTool":[{"matcher":"shell","hooks":[{"type":"command","env":{"WHY":"policy"},
				"command":"echo $GEMINI_PROJECT_DIR > seen; echo \"{\\\"decision\\\":\\\"deny\\\",\\\"reason\\\":\\\"$WHY\\\"}\""}]}]}}`},
			payload: bash, decision: grapnel.Block, reason: "policy", seen: "/",
		},
		"miniclaw: the form of its book": {
			format: "miniclaw",
			files: map[string]string{".config/mini-claw/settings.json": `{"hooks":{"PreToolUse":[
				{"matcher":"Bash","command":"echo $TOOL_NAME > seen; echo no force >&2; exit 1"},{"matcher":"Edit","command":"exit 1"}]}}`},
			payload: shell, decision: grapnel.Block, reason: "hook failed: no force", seen: "bash",
		},
		"miniclaw: no input, any code blocks": {
			format:  "miniclaw",
			files:   map[string]string{".config/mini-claw/config.toml": "[[hooks.pre_tool]]\ntool_pattern = \"b*\"\ncommand = '''cat > seen; echo \"$HOOK_EVENT $HOOK_TOOL_NAME\" >> seen; echo bad >&2; exit 3'''\n"},
			payload: shell, decision: grapnel.Block, reason: "hook failed: bad", seen: "pre_tool_call bash\n",
		},
		"miniclaw: a program that is not there blocks": {
			format:  "miniclaw",
			files:   map[string]string{".config/mini-claw/config.toml": "[[hooks.pre_tool]]\ncommand = \"/nowhere/guard\"\n"},
			payload: shell, decision: grapnel.Block,
		},
		"flyto: the tool and its input": {
			format: "flyto",
			files: map[string]string{"flyto-hooks.json": `{"pre_tool_use":[
				{"command":"echo first > seen; exit 1"},
				{"command":"echo \"$HOOK_TYPE $TOOL_NAME $TOOL_INPUT\" >> seen; echo '{\"decision\":\"block\",\"reason\":\"why\"}'"}]}`},
			payload: shell, decision: grapnel.Block, reason: "why", seen: "first\npre_tool_use Bash {\"command\":\"git push --force\"}\n",
		},
		"flyto: what came out": {
			format: "flyto",
			files: map[string]string{"flyto-hooks.json": `{"hooks":[{"type":"post_tool_use","plugin_dir":"plug",
				"command":"echo \"$HOOK_TYPE $TOOL_OUTPUT $TOOL_IS_ERROR ${MY_SECRET_TOKEN-none} ${PLAIN_VARIABLE-none} ${FLYTO_PLUGIN_ROOT##*/}\" > seen"}]}`},
			payload: after, seen: "post_tool_use out false none none plug\n",
		},
		"flyto: any code ends the turn": {
			format: "flyto", files: map[string]string{"flyto-hooks.json": `{"stop":[{"command":"echo enough >&2; exit 7"}]}`},
			payload: stop, halt: "enough",
		},
		"openclaw: a program in the directory": {
			format: "openclaw",
			files: map[string]string{
				".openclaw/hooks.json":  `{hooks: {'before-tool-call': [{handler: "hooks/guard", matcher: ['exec']}]}}`,
				".openclaw/hooks/guard": "#!/bin/sh\ncat > seen\necho '{\"decision\":\"block\",\"reason\":\"not here\"}'\n",
			},
			payload: shell, decision: grapnel.Block, reason: "not here", seen: `"kind":"tool.before"`,
		},
		"openclaw: a handler that is gone": {
			format: "openclaw", files: map[string]string{".openclaw/hooks.json": `{"before_tool_call": "hooks/guard"}`},
			payload: shell, decision: grapnel.Block,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tt.files {
				tt.files[file] = strings.ReplaceAll(text, "DIR/.claude", dir+"/.claude")
			}
			e := loadtest.Load(t, dir, tt.format, tt.files)
			agent := dialect.GeminiCLI()
			if tt.format == agent.Name { // this agent runs these hooks itself
				agent = dialect.ClaudeCode()
			}
			ev, err := agent.Read(dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"` + dir + `",` + tt.payload + `}`)})
			if err != nil {
				t.Fatal(err)
			}
			v := e.Fire(t.Context(), ev)
			if v.Decision != tt.decision || !strings.Contains(v.Reason(), tt.reason) || v.Halt != tt.halt {
				t.Errorf("decision %v because %q, halt %q; want %v because %q, halt %q", v.Decision, v.Reason(), v.Halt, tt.decision, tt.reason, tt.halt)
			}
			seen, err := os.ReadFile(filepath.Join(dir, "seen"))
			if tt.seen != "" && err != nil || !strings.Contains(string(seen), tt.seen) {
				t.Errorf("the program saw %q, %v; want %q", seen, err, tt.seen)
			}
		})
	}
}
