package dialect_test

import (
	"context"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// For an event that is received again, only the payload and the kind are known. Copilot CLI
// names its events on the command line.
func TestReceiveAs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dialect *dialect.Dialect
		kind    grapnel.Kind
		payload string
		reply   string
	}{
		"named":      {dialect.ClaudeCode(), grapnel.ToolBefore, `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}`},
		"not named":  {dialect.Copilot(), grapnel.ToolBefore, `{"sessionId":"s","cwd":"/","toolName":"bash","toolArgs":"{\"command\":\"ls\"}"}`, `{"permissionDecision":"deny","permissionDecisionReason":"no"}`},
		"another":    {dialect.Copilot(), grapnel.PromptBefore, `{"sessionId":"s","cwd":"/","prompt":"hello"}`, ""},
		"as it says": {dialect.Plain(), grapnel.ToolBefore, `{"kind":"tool.before","tool":{"name":"x"}}`, `{"grapnel":1,"decision":"block","reasons":[{"hook":"no","text":"no","cause":"decision"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := dialect.ReceiveAs(tt.dialect, []byte(tt.payload), tt.kind)
			if got.Err != nil || got.Event.Kind != tt.kind {
				t.Fatalf("ReceiveAs(%s, %s) = %s, %v, want %s", tt.dialect.Name, tt.payload, got.Event.Kind, got.Err, tt.kind)
			}
			engine, err := grapnel.New([]grapnel.Spec{{Name: "no", Phase: grapnel.PhaseRule, Hook: grapnel.Guard(func(*grapnel.Event) string { return "no" })}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if reply := got.Answer(context.Background(), engine); tt.reply != "" && strings.TrimSpace(string(reply.Stdout)) != tt.reply {
				t.Errorf("reply %s, want %s", reply.Stdout, tt.reply)
			}
		})
	}
	if got := dialect.ReceiveAs(dialect.ClaudeCode(), []byte(`{`), grapnel.ToolBefore); got.Err == nil {
		t.Error("what is no JSON was read")
	}
}
