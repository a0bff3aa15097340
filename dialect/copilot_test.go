package dialect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A command that names neither agent nor event, as in a project's .claude/settings.json, gets
// the event of Copilot CLI from the payload.
func TestCopilotEventByPayload(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t, dialect.Copilot()) {
		got := dialect.Receive(dialect.Copilot(), dialect.Input{Payload: r.in.Payload})
		if got.Err != nil || got.Row() == nil || got.Row().Native != r.row.Native {
			t.Errorf("%s is taken for %v, %v", r.name, got.Row(), got.Err)
		}
	}
	quiet := []byte(`{"sessionId":"s","timestamp":1,"cwd":"/p","agentName":"task","agentId":"a","stopReason":"end_turn"}`)
	if row := dialect.Receive(dialect.Copilot(), dialect.Input{Payload: quiet}).Row(); row == nil || row.Native != "subagentStop" {
		t.Errorf("a sub-agent that said nothing is %v", row)
	}
}

// Both payload formats give the same event, except for members that one of them lacks, and the
// same answer.
func TestCopilotFormatsAgree(t *testing.T) {
	t.Parallel()
	for native, pascal := range map[string]string{
		`{"sessionId":"s","timestamp":1795205149900,"cwd":"/p","toolName":"create","toolArgs":{"path":"a","file_text":"b"}}`://
		`{"hook_event_name":"PreToolUse","session_id":"s","timestamp":"2026-11-20T20:05:49.9Z","cwd":"/p","tool_name":"Write","tool_input":{"path":"a","file_text":"b"}}`,
		`{"sessionId":"s","timestamp":1795205149900,"cwd":"/p","toolName":"bash","toolArgs":{"command":"ls"},"toolResult":{"resultType":"success","textResultForLlm":"x"}}`://
		`{"hook_event_name":"PostToolUse","session_id":"s","timestamp":"2026-11-20T20:05:49.9Z","cwd":"/p","tool_name":"Bash","tool_input":{"command":"ls"},"tool_result":{"result_type":"success","text_result_for_llm":"x"}}`,
		`{"sessionId":"s","timestamp":1795205149900,"cwd":"/p","prompt":"hi"}`://
		`{"hook_event_name":"UserPromptSubmit","session_id":"s","timestamp":"2026-11-20T20:05:49.9Z","cwd":"/p","prompt":"hi"}`,
	} {
		var seen []string
		for _, payload := range []string{native, pascal} {
			ev, err := dialect.Copilot().Read(dialect.Input{Payload: []byte(payload)})
			if err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(bare(ev))
			if err != nil {
				t.Fatal(err)
			}
			reply := dialect.Answer(t.Context(), engineOf(t, grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}), dialect.Copilot(), dialect.Input{Payload: []byte(payload)})
			seen = append(seen, string(data)+string(reply.Stdout))
		}
		if seen[0] != seen[1] {
			t.Errorf("one action is told as\n%s\nand\n%s", seen[0], seen[1])
		}
	}
}

// A payload that is not an event does not deny, but every exit code except 0 would. A guard
// that fails closed denies with its output.
func TestCopilotExitsZero(t *testing.T) {
	t.Parallel()
	for _, in := range []dialect.Input{
		{Payload: []byte("{"), Event: "preToolUse"},
		{Payload: []byte("{}"), Event: "preToolUse"},
		{Payload: []byte(`{"sessionId":"s"`)},
		{Err: errors.New("broken pipe"), Event: "agentStop"},
	} {
		reply := dialect.Answer(t.Context(), engineWithout(t), dialect.Copilot(), in)
		if reply.Exit != 0 || len(reply.Stdout) > 0 {
			t.Errorf("%s: %q is answered with %+v", in.Event, in.Payload, reply)
		}
		if in.Event != "preToolUse" {
			continue
		}
		reply = dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), dialect.Copilot(), in)
		if reply.Exit != 0 || !bytes.Contains(reply.Stdout, []byte(`"permissionDecision":"deny","permissionDecisionReason":"`)) {
			t.Errorf("a guard that cannot read %q says %q, exit %d", in.Payload, reply.Stdout, reply.Exit)
		}
	}
}

// A hook of Copilot CLI that fails before a call denies it, as in Copilot CLI. After the call,
// it is only a failure.
func TestCopilotHookFails(t *testing.T) {
	t.Parallel()
	for native, want := range map[string]grapnel.Decision{"preToolUse": grapnel.Block, "postToolUse": grapnel.None} {
		payload := `{"sessionId":"s","timestamp":1,"cwd":"/p","toolName":"bash","toolArgs":{"command":"ls"}}`
		ev, err := dialect.Copilot().Read(dialect.Input{Payload: []byte(payload), Event: native})
		if err != nil {
			t.Fatal(err)
		}
		out, err := dialect.Copilot().ReadOutcome(ev, dialect.Output{Exit: 127, Stderr: []byte("sh: not found\n")})
		if out.Decision != want || err == nil || !strings.Contains(err.Error(), "127") {
			t.Errorf("%s: exit code 127 is %+v, %v, want %v and an error", native, out, err, want)
		}
	}
}

// A hook of Copilot CLI answers with a flat or a nested object, also for an event of another
// agent.
func TestCopilotHookAnswers(t *testing.T) {
	t.Parallel()
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","tool_name":"Write","tool_input":{"file_path":"a","content":"b"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	line, err := dialect.Copilot().WriteEvent(ev)
	if err != nil || !bytes.Contains(line, []byte(`"toolName":"create"`)) || !bytes.Contains(line, []byte(`"toolArgs":{"path":"a","file_text":"b"}`)) {
		t.Errorf("it is told %s, %v", line, err)
	}
	for answer, want := range map[string]grapnel.Decision{
		`{"permissionDecision":"deny","permissionDecisionReason":"r"}`:                                                     grapnel.Block,
		`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"r"}}`: grapnel.Block,
		`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask"}}`:                                 grapnel.Ask,
		`{"decision":"block","reason":"r"}`:                                                                                grapnel.None,
		`{"permissionDecision":"allow","modifiedArgs":{"path":"c","file_text":"b"}}`:                                       grapnel.Allow,
		`{"additionalContext":"more"}`:                                                                                     grapnel.None,
	} {
		out, err := dialect.Copilot().ReadOutcome(ev, dialect.Output{Stdout: []byte(answer)})
		if err != nil || out.Decision != want {
			t.Errorf("%s is %+v, %v, want %v", answer, out, err, want)
		}
		if strings.Contains(answer, "modifiedArgs") && string(out.Set[grapnel.FieldPath]) != `"c"` {
			t.Errorf("%s sets %s", answer, out.Set)
		}
		if strings.Contains(answer, "additionalContext") && !slices.Equal(out.Context, []string{"more"}) {
			t.Errorf("%s is %+v, want context", answer, out)
		}
	}
}
