package dialect_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// codexKeys has the members that Codex 0.169.0 accepts in an answer, by event. Any other member
// makes the whole answer void, including a deny (seen live).
var codexKeys = map[string][]string{
	"SessionStart":      {"continue", "stopReason", "systemMessage", "hookSpecificOutput.hookEventName", "hookSpecificOutput.additionalContext"},
	"UserPromptSubmit":  {"continue", "stopReason", "systemMessage", "decision", "reason", "hookSpecificOutput.hookEventName", "hookSpecificOutput.additionalContext"},
	"PreToolUse":        {"systemMessage", "hookSpecificOutput.hookEventName", "hookSpecificOutput.permissionDecision", "hookSpecificOutput.permissionDecisionReason", "hookSpecificOutput.updatedInput", "hookSpecificOutput.additionalContext"},
	"PermissionRequest": {"systemMessage", "hookSpecificOutput.hookEventName", "hookSpecificOutput.decision"},
	"PostToolUse":       {"systemMessage", "decision", "reason", "hookSpecificOutput.hookEventName", "hookSpecificOutput.additionalContext"},
	"PreCompact":        {"continue", "stopReason", "systemMessage"},
	"PostCompact":       {"systemMessage"},
	"SubagentStart":     {"systemMessage", "hookSpecificOutput.hookEventName", "hookSpecificOutput.additionalContext"},
	"SubagentStop":      {"continue", "stopReason", "systemMessage", "decision", "reason"},
	"Stop":              {"continue", "stopReason", "systemMessage", "decision", "reason"},
	"Interrupt":         {"systemMessage"},
}

// For any outcome of hooks, Codex gets an empty answer or one that is valid for the event.
func TestCodexAnswersAreValid(t *testing.T) {
	t.Parallel()
	payloads := samples(t, dialect.Codex())
	texts := rapid.SampledFrom([]string{"", " ", "\n\t", "no", "a\x00b\u2028<&>", `{"decision":"allow"}`})
	fields := []grapnel.Field{grapnel.FieldInput, grapnel.FieldCommand, grapnel.FieldContent, grapnel.FieldOutput, grapnel.FieldPrompt, grapnel.FieldSummary}
	values := rapid.SampledFrom([]string{`null`, `{}`, `{"command":"x"}`, `{"command":5}`, `{"cmd":"x"}`, `"x"`, `[]`, `{"command":"x","foo":1}`})
	rapid.Check(t, func(rt *rapid.T) {
		row := &dialect.Codex().Events[rapid.IntRange(0, len(dialect.Codex().Events)-1).Draw(rt, "event")]
		out := grapnel.Outcome{
			Decision: grapnel.Decision(rapid.IntRange(0, 3).Draw(rt, "decision")), Reason: texts.Draw(rt, "reason"), Message: texts.Draw(rt, "message"),
			Context: []string{texts.Draw(rt, "context")}, Halt: texts.Draw(rt, "halt"),
			Native: map[string]json.RawMessage{"codex.suppressOutput": json.RawMessage(`true`), "codex.decision": json.RawMessage(`"approve"`)},
		}
		if rapid.Bool().Draw(rt, "changes") {
			out.Set = map[grapnel.Field]json.RawMessage{rapid.SampledFrom(fields).Draw(rt, "field"): json.RawMessage(values.Draw(rt, "value"))}
		}
		ev, err := dialect.Codex().Read(payloads[row.Native])
		if err != nil {
			rt.Fatal(err)
		}
		verdicts := []grapnel.Verdict{engineOf(t, out).Fire(t.Context(), ev), {
			// A Verdict that no engine has reduced to the parts that the event permits.
			Decision: out.Decision, Reasons: []grapnel.Reason{{Text: out.Reason}}, Halt: out.Halt, Context: out.Context, Messages: []string{out.Message}, Native: out.Native,
			Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"command":"x"}`), grapnel.FieldOutput: json.RawMessage(`"x"`)},
		}}
		for _, v := range verdicts {
			if reply := dialect.Codex().Write(ev, &v, row.Native); reply.Exit != 0 || len(reply.Stderr) > 0 || !codexValid(row.Native, reply.Stdout) {
				rt.Fatalf("%s: %+v is answered with %q %q exit %d", row.Native, out, reply.Stdout, reply.Stderr, reply.Exit)
			}
		}
	})
}

// codexValid reports whether Codex would accept an answer.
func codexValid(native string, stdout []byte) bool {
	if len(stdout) == 0 {
		return true
	}
	var reply object
	if json.Unmarshal(stdout, &reply) != nil {
		return false
	}
	allowed := codexKeys[native]
	text := func(o object, key string) bool { s, ok := o[key].(string); return ok && strings.TrimSpace(s) != "" }
	for key := range reply {
		if key != "hookSpecificOutput" && !slices.Contains(allowed, key) {
			return false
		}
	}
	if d, ok := reply["decision"]; ok && (d != "block" || !text(reply, "reason")) {
		return false
	}
	specific, ok := reply["hookSpecificOutput"].(object)
	if _, there := reply["hookSpecificOutput"]; !there {
		return true
	}
	if !ok || specific["hookEventName"] != native {
		return false
	}
	for key := range specific {
		if !slices.Contains(allowed, "hookSpecificOutput."+key) {
			return false
		}
	}
	_, changed := specific["updatedInput"]
	switch specific["permissionDecision"] {
	case nil:
		if changed || specific["permissionDecisionReason"] != nil {
			return false
		}
	case "deny":
		if changed || !text(specific, "permissionDecisionReason") {
			return false
		}
	case "allow":
		input, ok := specific["updatedInput"].(object)
		if _, line := input["command"]; !ok || !line {
			return false // for tools with a single line as input; another value makes the call fail
		}
	default:
		return false
	}
	if decision, ok := specific["decision"].(object); ok {
		for key := range decision {
			if key != "behavior" && key != "message" {
				return false
			}
		}
		return decision["behavior"] == "allow" && len(decision) == 1 || decision["behavior"] == "deny" && text(decision, "message")
	}
	return native != "PermissionRequest"
}

// A hook for Codex blocks with exit code 2, with or without output. Other output is used too.
func TestCodexHooks(t *testing.T) {
	t.Parallel()
	ev, err := dialect.Codex().Read(samples(t, dialect.Codex())["PreToolUse"])
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		out      dialect.Output
		decision grapnel.Decision
		reason   string
		failed   bool
	}{
		{out: dialect.Output{}},
		{dialect.Output{Exit: 2}, grapnel.Block, "", false},
		{dialect.Output{Exit: 2, Stderr: []byte("no way\n")}, grapnel.Block, "no way", false},
		{dialect.Output{Exit: 1, Stderr: []byte("boom")}, grapnel.None, "", true},
		{dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"r"}}`)}, grapnel.Block, "r", false},
		{dialect.Output{Stdout: []byte(`{"decision":"block","reason":"r"}`)}, grapnel.Block, "r", false},
		{dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}`)}, grapnel.None, "", false},
		{dialect.Output{Exit: 1, Stdout: []byte(`{"decision":"block","reason":"r"}`)}, grapnel.Block, "r", true},
		{dialect.Output{Stdout: []byte(`{"decision":`)}, grapnel.None, "", true},
	} {
		got, err := dialect.Codex().ReadOutcome(ev, tt.out)
		if got.Decision != tt.decision || got.Reason != tt.reason || (err != nil) != tt.failed {
			t.Errorf("ReadOutcome(exit %d, %q, %q) = %+v, %v, want %v %q", tt.out.Exit, tt.out.Stdout, tt.out.Stderr, got, err, tt.decision, tt.reason)
		}
	}
}

// If a call has a single line as input, other changes are not applied. An MCP tool gets the
// whole new input.
func TestCodexTakesTheCommand(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"hook_event_name":"PreToolUse","turn_id":"t","tool_name":"Bash","tool_input":{"command":"ls"}}`:       "change of tool.input: downgraded to block",
		`{"hook_event_name":"PreToolUse","turn_id":"t","tool_name":"apply_patch","tool_input":{"command":"x"}}`: "change of tool.input: downgraded to block",
		`{"hook_event_name":"PreToolUse","turn_id":"t","tool_name":"mcp__a__b","tool_input":{"command":"ls"}}`:  "",
	} {
		ev, err := dialect.Codex().Read(dialect.Input{Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		v := engineOf(t, grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"command":"ls","workdir":"/"}`)}}).Fire(t.Context(), ev)
		if got := strings.Join(v.Unsupported, "; "); got != want {
			t.Errorf("%s: lost %q, want %q", payload, got, want)
		}
	}
}

// Codex has no limit for the number of times that a hook may block the end of a turn, and the
// limit of Qwen Code is a setting. Grapnel's limit applies to both.
func TestStopsEnd(t *testing.T) {
	t.Parallel()
	for _, d := range []*dialect.Dialect{dialect.Codex(), dialect.QwenCode(), dialect.FactoryDroid()} {
		engine := engineOf(t, grapnel.Outcome{Decision: grapnel.Block, Reason: "go on"})
		in := samples(t, d)["Stop"]
		in.Payload = []byte(strings.Replace(string(in.Payload), `"stop_hook_active": false`, `"stop_hook_active": true`, 1))
		blocks := 0
		for range 3 * grapnel.MaxStops {
			reply := dialect.Answer(t.Context(), engine, d, in)
			if !strings.Contains(string(reply.Stdout), `"decision":"block"`) {
				break
			}
			blocks++
		}
		if blocks != grapnel.MaxStops {
			t.Errorf("%s was sent on %d times in a row, want %d", d.Name, blocks, grapnel.MaxStops)
		}
	}
}
