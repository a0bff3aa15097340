package dialect_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// The values that matchers of Claude Code's hooks are compared with, at events of both agents.
func TestClaudeSubject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		agent          *dialect.Dialect
		payload        string
		event, subject string
	}{
		{dialect.GeminiCLI(), `"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}`, "PreToolUse", "Bash"},
		{dialect.GeminiCLI(), `"hook_event_name":"BeforeTool","tool_name":"read_many_files","tool_input":{"paths":["a"]}`, "PreToolUse", "Read"},
		{dialect.GeminiCLI(), `"hook_event_name":"BeforeTool","tool_name":"mcp_a_b","tool_input":{},"mcp_context":{"server_name":"a","tool_name":"b"}`, "PreToolUse", "mcp__a__b"},
		{dialect.GeminiCLI(), `"hook_event_name":"BeforeTool","tool_name":"unheard","tool_input":{}`, "PreToolUse", "unheard"},
		{dialect.GeminiCLI(), `"hook_event_name":"AfterTool","tool_name":"glob","tool_input":{},"tool_response":{"error":{"message":"no"}}`, "PostToolUseFailure", "Glob"},
		{dialect.GeminiCLI(), `"hook_event_name":"SessionStart","source":"resume"`, "SessionStart", "resume"},
		{dialect.GeminiCLI(), `"hook_event_name":"SessionEnd","reason":"exit"`, "SessionEnd", "other"},
		{dialect.GeminiCLI(), `"hook_event_name":"BeforeAgent","prompt":"startup"`, "UserPromptSubmit", ""},
		{dialect.GeminiCLI(), `"hook_event_name":"PreCompress","trigger":"manual"`, "PreCompact", "manual"},
		{dialect.GeminiCLI(), `"hook_event_name":"Notification","notification_type":"ToolPermission","message":"m"`, "Notification", "permission_prompt"},
		{dialect.GeminiCLI(), `"hook_event_name":"BeforeModel","llm_request":{}`, "", ""},
		{dialect.ClaudeCode(), `"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}`, "PreToolUse", "Bash"},
		{dialect.ClaudeCode(), `"hook_event_name":"UserPromptExpansion","command_name":"deploy","prompt":"/deploy"`, "UserPromptExpansion", "deploy"},
		{dialect.ClaudeCode(), `"hook_event_name":"FileChanged","file_path":"/p/src/a.go","event":"change"`, "FileChanged", "a.go"},
		{dialect.ClaudeCode(), `"hook_event_name":"PreModelSwitch","from_model":"a","to_model":"b"`, "PreModelSwitch", "b"},
		{dialect.ClaudeCode(), `"hook_event_name":"SubagentStart","agent_id":"1","agent_type":"Explore"`, "SubagentStart", "Explore"},
		{dialect.ClaudeCode(), `"hook_event_name":"Elicitation","mcp_server_name":"srv","message":"m"`, "Elicitation", "srv"},
		{dialect.ClaudeCode(), `"hook_event_name":"ConfigChange","source":"user_settings"`, "ConfigChange", "user_settings"},
		{dialect.ClaudeCode(), `"hook_event_name":"StopFailure","error":"rate_limit"`, "StopFailure", "rate_limit"},
		{dialect.ClaudeCode(), `"hook_event_name":"Stop"`, "Stop", ""},
	} {
		ev, err := tt.agent.Read(dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"/p",` + tt.payload + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		if event, subject := dialect.ClaudeSubject(ev); event != tt.event || subject != tt.subject {
			t.Errorf("%s %s: %q %q, want %q %q", tt.agent.Name, tt.payload, event, subject, tt.event, tt.subject)
		}
	}
	if event, subject := dialect.ClaudeSubject(&grapnel.Event{Kind: grapnel.ToolBefore}); event != "PreToolUse" || subject != "" {
		t.Errorf("without a tool: %q %q", event, subject)
	}
}

// A hook of mini-claw gets mini-claw's name of the tool, and no standard input.
//
// Proves: MC-17, MC-20, MC-22
func TestMiniclawSubject(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}`:                           "HOOK_EVENT=pre_tool_call HOOK_TOOL_NAME=bash",
		`"hook_event_name":"PostToolUse","tool_name":"MultiEdit","tool_input":{"file_path":"a"},"tool_response":{}`: "HOOK_EVENT=post_tool_call HOOK_TOOL_NAME=edit",
		`"hook_event_name":"PostToolUseFailure","tool_name":"mcp__a__b","tool_input":{},"error":"no"`:               "HOOK_EVENT=post_tool_call HOOK_TOOL_NAME=mcp__a__b",
		`"hook_event_name":"PreToolUse","tool_name":"Unheard","tool_input":{}`:                                      "HOOK_EVENT=pre_tool_call HOOK_TOOL_NAME=Unheard",
	} {
		ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"session_id":"s","cwd":"/p",` + payload + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		env := dialect.Miniclaw().HookEnv(ev)
		if got := env[0] + " " + env[1]; got != want {
			t.Errorf("%s: %s, want %s", payload, got, want)
		}
		if stdin, err := dialect.Miniclaw().WriteEvent(ev); len(stdin) > 0 || err != nil {
			t.Errorf("%s: stdin %q, %v; want nothing", payload, stdin, err)
		}
	}
}
