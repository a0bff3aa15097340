package dialect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A patch is written for hooks of other agents in their format, or not at all: a hook that
// looks for a file must not miss it.
func TestPatchesForHooks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from    *dialect.Dialect
		payload string
		to      *dialect.Dialect
		want    string // part of the event; empty = it cannot be written, for the reason in says
		wantErr string
	}{
		"one file": {
			dialect.Codex(), `{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Add File: a b\n+x\n"}}`,
			dialect.ClaudeCode(), `"tool_name":"Edit","tool_input":{"new_string":"*** Add File: a b\n+x\n","file_path":"a b"}`, "",
		},
		"two files": {
			dialect.Codex(), `{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Add File: a\n+x\n*** Add File: deploy/prod/x\n+x\n"}}`,
			dialect.ClaudeCode(), "", "2 values for tool.path",
		},
		"to a hook that reads patches": {
			dialect.Codex(), `{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Add File: a\n*** Add File: b\n"}}`,
			dialect.FactoryDroid(), `"tool_name":"ApplyPatch","tool_input":{"input":"*** Add File: a\n*** Add File: b\n"}`, "",
		},
		"an edit for a hook that reads patches": {
			dialect.ClaudeCode(), `{"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"deploy/prod/x","old_string":"a","new_string":"b"}}`,
			dialect.Codex(), "", "there a patch names the files",
		},
		"a batch": {
			dialect.ClaudeCode(), `{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Read","tool_input":{}}]}`,
			dialect.QwenCode(), "", "its format has no field for the calls",
		},
	} {
		ev, err := tt.from.Read(dialect.Input{Payload: []byte(tt.payload)})
		if err != nil {
			t.Fatal(err)
		}
		line, err := tt.to.WriteEvent(ev)
		if tt.want != "" && (err != nil || !strings.Contains(string(line), tt.want)) || tt.want == "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
			t.Errorf("%s: written for %s as %s, %v; want %s%s", name, tt.to.Name, line, err, tt.want, tt.wantErr)
		}
	}

	// A hook may edit the patch, but not the members that were added only for the hook.
	ev, err := dialect.Codex().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Add File: a\n+x\n"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(input string) (grapnel.Outcome, error) {
		stdout, _ := json.Marshal(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": json.RawMessage(input)}})
		return dialect.ClaudeCode().ReadOutcome(ev, dialect.Output{Stdout: stdout})
	}
	if out, err := answer(`{"new_string":"*** Add File: a\n+y\n","file_path":"a"}`); err != nil || string(out.Set[grapnel.FieldContent]) != `"*** Add File: a\n+y\n"` {
		t.Errorf("a new text is %+v, %v", out, err)
	}
	if out, err := answer(`{"new_string":"*** Add File: a\n+x\n","file_path":"b"}`); err == nil && out.Decision != grapnel.Ask && out.Decision != grapnel.Block {
		t.Errorf("another path is %+v, and nobody hears of it", out)
	}
}
