package hookfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	"github.com/grapnel-dev/grapnel/systems/internal/systemtest"
)

// A matcher of Claude Code is compared with the values that a hook of Claude Code would get,
// for events of any agent.
func TestClaudeMatcher(t *testing.T) {
	t.Parallel()
	const (
		bash   = `"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}`
		shell  = `"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}`
		edit   = `"hook_event_name":"BeforeTool","tool_name":"replace","tool_input":{"file_path":"a","old_string":"x","new_string":"y"}`
		mcp    = `"hook_event_name":"BeforeTool","tool_name":"mcp_memory_add","tool_input":{},"mcp_context":{"server_name":"memory","tool_name":"add"}`
		agent  = `"hook_event_name":"BeforeTool","tool_name":"invoke_agent","tool_input":{}`
		after  = `"hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"llmContent":"a"}`
		failed = `"hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{"command":"ls"},"tool_response":{"error":{"message":"no"}}`
		start  = `"hook_event_name":"SessionStart","source":"startup"`
		prompt = `"hook_event_name":"BeforeAgent","prompt":"hi"`
		notify = `"hook_event_name":"Notification","notification_type":"ToolPermission","message":"m"`
	)
	for _, tt := range []struct {
		event, matcher string
		agent, payload string
		want           bool
	}{
		{"PreToolUse", `"Bash"`, "gemini-cli", shell, true},
		{"PreToolUse", `"Bash"`, "claude-code", bash, true},
		{"PreToolUse", `"bash"`, "gemini-cli", shell, false},
		{"PreToolUse", `"Bas"`, "gemini-cli", shell, false},
		{"PreToolUse", `"run_shell_command"`, "gemini-cli", shell, false},
		{"PreToolUse", `"Edit|Write"`, "gemini-cli", edit, true},
		{"PreToolUse", `" Write , Edit "`, "gemini-cli", edit, true},
		{"PreToolUse", `"Write,Read"`, "gemini-cli", edit, false},
		{"PreToolUse", `"B.*"`, "gemini-cli", shell, true},
		{"PreToolUse", `"^Bash$"`, "gemini-cli", shell, true},
		{"PreToolUse", `"Ba*"`, "gemini-cli", shell, true},
		{"PreToolUse", `"!Write"`, "gemini-cli", shell, false},
		{"PreToolUse", `"/bash/i"`, "gemini-cli", shell, false},
		{"PreToolUse", `"Bash(ls *)"`, "gemini-cli", shell, false},
		{"PreToolUse", `"*"`, "gemini-cli", shell, true},
		{"PreToolUse", `""`, "gemini-cli", mcp, true},
		{"PreToolUse", `"mcp__memory"`, "gemini-cli", mcp, false},
		{"PreToolUse", `"mcp__memory__.*"`, "gemini-cli", mcp, true},
		{"PreToolUse", `"mcp__memory__add"`, "gemini-cli", mcp, true},
		{"PreToolUse", `"Task"`, "gemini-cli", agent, true},
		{"PreToolUse", `"Agent"`, "gemini-cli", agent, true},
		{"PreToolUse", `"^Task$"`, "gemini-cli", agent, true},
		{"PreToolUse", `"Bash"`, "gemini-cli", after, false},
		{"PostToolUse", `"Bash"`, "gemini-cli", after, true},
		{"PostToolUse", `"Bash"`, "gemini-cli", failed, false},
		{"PostToolUseFailure", `"Bash"`, "gemini-cli", failed, true},
		{"SessionStart", `"startup|resume"`, "gemini-cli", start, true},
		{"SessionStart", `"clear"`, "gemini-cli", start, false},
		{"UserPromptSubmit", `"whatever"`, "gemini-cli", prompt, true},
		{"UserPromptExpansion", `""`, "gemini-cli", prompt, false},
		{"UserPromptExpansion", `"deploy"`, "claude-code", `"hook_event_name":"UserPromptExpansion","command_name":"deploy","prompt":"/deploy"`, true},
		{"UserPromptSubmit", `""`, "claude-code", `"hook_event_name":"UserPromptExpansion","command_name":"deploy","prompt":"/deploy"`, false},
		{"Notification", `"permission_prompt"`, "gemini-cli", notify, true},
		{"Notification", `"idle_prompt"`, "gemini-cli", notify, false},
	} {
		t.Run(tt.event+tt.matcher+tt.agent, func(t *testing.T) {
			t.Parallel()
			file := fmt.Sprintf(`{"hooks":{%q:[{"matcher":%s,"hooks":[{"type":"command","command":"x"}]}]}}`, tt.event, tt.matcher)
			found := parse([]hookfiles.File{{Path: "/h/.claude/settings.json", Data: []byte(file)}}, false)
			if len(found.Hooks) != 1 || len(found.Errors)+len(found.Broken) > 0 {
				t.Fatalf("%s: %s", file, systemtest.Text(found))
			}
			got, err := systemtest.Listens(t, &found.Hooks[0], systemtest.EventOf(t, tt.agent, tt.payload))
			if err != nil || got != tt.want {
				t.Errorf("matcher %s at %s: %s listens %v, %v; want %v", tt.matcher, tt.event, tt.payload, got, err, tt.want)
			}
		})
	}
}

// An `if` checks each command of a line. If the result is unknown, the hook runs.
func TestClaudeIf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule, tool, input string
		want              bool
	}{
		{"Bash", "Bash", `{"command":"ls"}`, true},
		{"Bash()", "Bash", `{"command":"ls"}`, true},
		{"Bash(*)", "Bash", `{"command":"ls"}`, true},
		{"Bash(echo *)", "Bash", `{"command":"echo hi > bash.txt"}`, true},
		{"Bash(echo:*)", "Bash", `{"command":"echo hi > bash.txt"}`, true},
		{"Bash(ec*)", "Bash", `{"command":"echo hi > bash.txt"}`, true},
		{"Bash(echo hi > bash.txt)", "Bash", `{"command":"echo hi > bash.txt"}`, false},
		{"Bash(git push *)", "Bash", `{"command":"cd x && git push origin main"}`, true},
		{"Bash(git push *)", "Bash", `{"command":"git push"}`, true},
		{"Bash(git push *)", "Bash", `{"command":"git pushx"}`, false},
		{"Bash(git push *)", "Bash", `{"command":"git status # git push x"}`, false},
		{"Bash(git push *)", "Bash", `{"command":"$X $Y"}`, true},
		{"Bash(* --force)", "Bash", `{"command":"git push --force"}`, true},
		{"Bash(ls)", "Write", `{"file_path":"/a","content":"ls"}`, false},
		{"bash(ls)", "Bash", `{"command":"ls"}`, false},
		{"Write", "Write", `{"file_path":"/a","content":""}`, true},
		{"Edit(*.ts)", "Write", `{"file_path":"/p/src/a.ts","content":""}`, true},
		{"Edit(*.ts)", "Edit", `{"file_path":"src/a.ts"}`, true},
		{"Edit(*.ts)", "Edit", `{"file_path":"src/a.go"}`, false},
		{"Edit(*.ts)", "Read", `{"file_path":"src/a.ts"}`, false},
		{"Read(./.env)", "Read", `{"file_path":"/p/.env"}`, true},
		{"Read(./.env)", "Read", `{"file_path":"/p/x/.env"}`, false},
		{"Read(.env)", "Read", `{"file_path":"/p/x/.env"}`, true},
		{"Read(secrets/)", "Read", `{"file_path":"/p/secrets/a/b"}`, true},
		{"Write(src/**)", "Write", `{"file_path":"/p/src/a/b"}`, true},
		{"Write(//etc/**)", "Write", `{"file_path":"/etc/hosts"}`, true},
		{"Write(//etc/**)", "Write", `{"file_path":"/p/etc/hosts"}`, false},
		{"WebFetch(domain:example.com)", "WebFetch", `{"url":"https://example.com/x"}`, true},
		{"WebFetch(domain:example.com)", "WebFetch", `{"url":"https://example.org/example.com"}`, false},
		{"WebFetch(domain:*.example.com)", "WebFetch", `{"url":"https://a.example.com/"}`, true},
		{"mcp__memory", "mcp__memory__add", `{}`, true},
		{"mcp__memory__*", "mcp__memory__add", `{}`, true},
		{"mcp__mem", "mcp__memory__add", `{}`, false},
	} {
		t.Run(tt.rule+" "+tt.input, func(t *testing.T) {
			t.Parallel()
			file := fmt.Sprintf(`{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"x","if":%q}]}]}}`, tt.rule)
			found := parse([]hookfiles.File{{Path: "/s.json", Data: []byte(file)}}, false)
			if tt.rule == "bash(ls)" { // a rule with an argument for an unknown tool
				if len(found.Hooks) != 0 || len(found.Errors) != 1 {
					t.Errorf("%s", systemtest.Text(found))
				}
				return
			}
			if len(found.Hooks) != 1 {
				t.Fatalf("%s", systemtest.Text(found))
			}
			got, err := systemtest.Listens(t, &found.Hooks[0], systemtest.EventOf(t, "claude-code", fmt.Sprintf(`"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s`, tt.tool, tt.input)))
			if err != nil || got != tt.want {
				t.Errorf("if %q for %s %s: listens %v, %v; want %v", tt.rule, tt.tool, tt.input, got, err, tt.want)
			}
		})
	}
}

// If two equal handlers would run, only the later one runs.
func TestClaudeOnce(t *testing.T) {
	t.Parallel()
	found := parse([]hookfiles.File{{Path: "/s.json", Data: []byte(`{"hooks":{"PreToolUse":[
		{"matcher":"*","hooks":[{"type":"command","command":"x"}]},
		{"matcher":"Bash|Write","hooks":[{"type":"command","command":"x"}]},
		{"matcher":"Write","hooks":[{"type":"command","command":"x"}]},
		{"matcher":"*","hooks":[{"type":"command","command":"y"}]}
	]}}`)}}, false)
	for tool, want := range map[string]string{"Read": "0 3", "Bash": "1 3", "Write": "2 3"} {
		var got []string
		for i := range found.Hooks {
			ok, err := systemtest.Listens(t, &found.Hooks[i], systemtest.EventOf(t, "claude-code", fmt.Sprintf(`"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":{}`, tool)))
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				got = append(got, fmt.Sprint(i))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("at %s the hooks %v run, want %s", tool, got, want)
		}
	}
}

// The value of ${CLAUDE_PROJECT_DIR} is always one word in a command line.
func TestQuoteArgs(t *testing.T) {
	t.Parallel()
	if got, want := quoteArgs([]string{"a b", "${X}/it's", "$(rm)"}, "${X}"), `exec 'a b' ''"${X}"'/it'\''s' '$(rm)'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
