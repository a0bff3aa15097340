package dialect_test

import (
	"errors"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
)

// A hook for Windsurf gets a call as the event of its kind.
func TestWindsurfHooks(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		`"Bash","tool_input":{"command":"ls"}`:                                    `{"agent_action_name":"pre_run_command","trajectory_id":"s","tool_info":{"command_line":"ls"}}`,
		`"Read","tool_input":{"file_path":"a"}`:                                   `{"agent_action_name":"pre_read_code","trajectory_id":"s","tool_info":{"file_path":"a"}}`,
		`"MultiEdit","tool_input":{"file_path":"a","edits":[{"new_string":"b"}]}`: `{"agent_action_name":"pre_write_code","trajectory_id":"s","tool_info":{"file_path":"a","edits":[{"new_string":"b"}]}}`,
		`"mcp__demo__greet","tool_input":{"who":"bob"}`:                           `{"agent_action_name":"pre_mcp_tool_use","trajectory_id":"s","tool_info":{"mcp_server_name":"demo","mcp_tool_name":"greet","mcp_tool_arguments":{"who":"bob"}}}`,
		`"Task","tool_input":{"prompt":"x"}`:                                      "",
	} {
		ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","transcript_path":"/x.jsonl","tool_name":` + call + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		line, err := dialect.Windsurf().WriteEvent(ev)
		if want == "" && !errors.Is(err, dialect.ErrNoSuchEvent) || want != "" && (err != nil || string(line) != want+"\n") {
			t.Errorf("WriteEvent of %s: %s, %v; want %s", call, line, err, want)
		}
	}
}

// An event is an error if a guard could miss its file or its command.
func TestWindsurfBlind(t *testing.T) {
	t.Parallel()
	for payload, readable := range map[string]bool{
		`{"agent_action_name":"pre_run_command","tool_info":{"command_line":"ls"}}`:       true,
		`{"agent_action_name":"pre_run_command","tool_info":{"command_line":["ls"]}}`:     false,
		`{"agent_action_name":"pre_run_command","tool_info":{}}`:                          false,
		`{"agent_action_name":"pre_run_command"}`:                                         false,
		`{"agent_action_name":"pre_read_code","tool_info":{"path":"a"}}`:                  false,
		`{"agent_action_name":"pre_mcp_tool_use","tool_info":{"mcp_server_name":"demo"}}`: false,
		`{"agent_action_name":"pre_user_prompt","tool_info":{"user_prompt":5}}`:           false,
		`{"agent_action_name":"post_cascade_response","tool_info":{}}`:                    true,
	} {
		if _, err := dialect.Windsurf().Read(dialect.Input{Payload: []byte(payload)}); (err == nil) != readable {
			t.Errorf("Read(%s): %v", payload, err)
		}
	}
}
