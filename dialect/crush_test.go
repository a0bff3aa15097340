package dialect_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

func crushCall(t testing.TB, tool, input string) *grapnel.Event {
	t.Helper()
	ev, err := dialect.Crush().Read(dialect.Input{Payload: []byte(`{"event":"PreToolUse","session_id":"s","cwd":"/p","tool_name":"` + tool + `","tool_input":` + input + `}`)})
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// Crush allows calls with answers that it does not understand, and it reads names with dots as
// paths. So the answer contains only members that Crush knows.
func TestCrushAnswersAreUnderstood(t *testing.T) {
	t.Parallel()
	texts := rapid.SampledFrom([]string{"", " ", "no", "a\x00b\u2028<&>", `{"decision":"allow"}`})
	inputs := rapid.SampledFrom([]string{`{}`, `{"command":"x"}`, `{"command":"ls","a.b":1}`, `{"command":"x","a.b":{"c":1}}`, `{"command":"x","a.b":{"c":1},"n":{"m.k":1}}`, `{"command":"ls","a.b":{"c":1},"d.e":null}`})
	ev := crushCall(t, "bash", `{"command":"ls","a.b":{"c":1}}`)
	rapid.Check(t, func(rt *rapid.T) {
		out := grapnel.Outcome{
			Decision: grapnel.Decision(rapid.IntRange(0, 3).Draw(rt, "decision")), Reason: texts.Draw(rt, "reason"), Message: texts.Draw(rt, "message"), Halt: texts.Draw(rt, "halt"),
			Native: map[string]json.RawMessage{"crush.context": json.RawMessage(`"c"`), "crush.decision": json.RawMessage(`"block"`)},
		}
		if rapid.Bool().Draw(rt, "changes") {
			out.Set = map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(inputs.Draw(rt, "input"))}
		}
		v := engineOf(t, out).Fire(t.Context(), ev)
		reply := dialect.Crush().Write(ev, &v, "")
		var answer map[string]any
		if len(reply.Stdout) > 0 && json.Unmarshal(reply.Stdout, &answer) != nil || reply.Exit != 0 || len(reply.Stderr) > 0 {
			rt.Fatalf("%+v is answered with %q %q exit %d", out, reply.Stdout, reply.Stderr, reply.Exit)
		}
		for name := range answer {
			if !slices.Contains([]string{"decision", "halt", "reason", "context", "updated_input"}, name) {
				rt.Fatalf("%+v is answered with %s", out, reply.Stdout)
			}
		}
		if d := answer["decision"]; d != nil && d != "deny" && d != "allow" || d == "allow" && v.Decision != grapnel.Allow || d != "deny" && v.Decision == grapnel.Block {
			rt.Fatalf("%+v (%v) is answered with %s", out, v.Decision, reply.Stdout)
		}
		changed, _ := answer["updated_input"].(map[string]any)
		for name := range changed {
			if strings.Contains(name, ".") {
				rt.Fatalf("%+v is answered with %s, in which a name is a path", out, reply.Stdout)
			}
		}
	})
}

// The answers that hooks for Crush may give, in Crush's format and in Claude Code's.
func TestCrushOutcomes(t *testing.T) {
	t.Parallel()
	ev := crushCall(t, "bash", `{"command":"ls","description":"d"}`)
	for _, tt := range []struct {
		name string
		out  dialect.Output
		want string
	}{
		{"nothing", dialect.Output{}, `{}`},
		{"deny", dialect.Output{Stdout: []byte(`{"version":1,"decision":"deny","reason":"no"}`)}, `{"decision":"block","reason":"no"}`},
		{"allow", dialect.Output{Stdout: []byte(`{"decision":"allow"}`)}, `{"decision":"allow"}`},
		{"null", dialect.Output{Stdout: []byte(`{"decision":null,"halt":false}`)}, `{}`},
		{"halt", dialect.Output{Stdout: []byte(`{"halt":true,"reason":"enough"}`)}, `{"reason":"enough","halt":"enough"}`},
		{"exit 49", dialect.Output{Exit: 49, Stderr: []byte("enough\n")}, `{"halt":"enough"}`},
		{"exit 2", dialect.Output{Exit: 2, Stderr: []byte("no\n")}, `{"decision":"block","reason":"no"}`},
		{"a silent exit 2", dialect.Output{Exit: 2}, `{"decision":"block"}`},
		{"exit 1", dialect.Output{Exit: 1}, `{} error`},
		{"an input is laid over the old one", dialect.Output{Stdout: []byte(`{"updated_input":{"command":"pwd"}}`)}, `{"set":{"tool.input":{"command":"pwd","description":"d"}}}`},
		{"an input that is a text", dialect.Output{Stdout: []byte(`{"updated_input":"{\"command\":\"pwd\"}"}`)}, `{"set":{"tool.input":{"command":"pwd","description":"d"}}}`},
		{"context", dialect.Output{Stdout: []byte(`{"context":["a","b"]}`)}, `{"context":["a\nb"]}`},
		{"Claude Code's deny", dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}`)}, `{"decision":"block","reason":"no"}`},
		{"beside it nothing counts", dialect.Output{Stdout: []byte(`{"decision":"deny","halt":true,"hookSpecificOutput":{"permissionDecision":"allow"}}`)}, `{"decision":"allow"}`},
		{"Claude Code's input", dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"updatedInput":{"command":"pwd"}}}`)}, `{"set":{"tool.input":{"command":"pwd","description":"d"}}}`},
	} {
		o, err := dialect.Crush().ReadOutcome(ev, tt.out)
		got, encodeErr := json.Marshal(o)
		if encodeErr != nil {
			t.Fatal(encodeErr)
		}
		text := strings.Replace(string(got), `"decision":"none",`, "", 1)
		text = strings.Replace(text, `{"decision":"none"}`, "{}", 1)
		if err != nil {
			text += " error"
		}
		if text != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.name, text, err, tt.want)
		}
	}
}

// A hook for Crush gets the variables that Crush sets.
func TestCrushHookEnv(t *testing.T) {
	t.Parallel()
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","transcript_path":"/x.jsonl","tool_name":"Bash","tool_input":{"command":"ls"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"CRUSH=1", "AGENT=crush", "AI_AGENT=crush", "CRUSH_EVENT=PreToolUse", "CRUSH_TOOL_NAME=bash", "CRUSH_SESSION_ID=s", "CRUSH_CWD=/p", "CRUSH_PROJECT_DIR=/p", "CRUSH_TOOL_INPUT_COMMAND=ls"}
	if got := dialect.Crush().HookEnv(ev); !slices.Equal(got, want) {
		t.Errorf("HookEnv = %q, want %q", got, want)
	}
	// A variable of 128 KiB keeps a program from starting.
	huge := crushCall(t, "bash", `{"command":"`+strings.Repeat("x", 200<<10)+`"}`)
	for _, v := range dialect.Crush().HookEnv(huge) {
		if len(v) > 100<<10 {
			t.Errorf("HookEnv has %d bytes in %s", len(v), v[:40])
		}
	}
}

// Crush is a Go program: its tools read a member in any letter case. Hooks see it under the tool's
// own name, a change has the name that the model used, and two members that differ only in letter
// case block the call. In other agents another spelling is another member.
func TestCrushLetterCase(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New([]grapnel.Spec{{Name: "guard", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		switch t := ev.Tool; {
		case slices.Contains(t.Commands, "rm x"), strings.Contains(t.Content, "secret"), slices.ContainsFunc(t.Paths, func(p grapnel.Path) bool { return p.Path == "/etc/passwd" }):
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
		case slices.Contains(t.Commands, "change"):
			return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"changed"`)}}, nil
		}
		return grapnel.Outcome{}, nil
	}), OnError: grapnel.OnErrorClosed}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const no, twice = `{"decision":"deny","reason":"no"}`, "could use either value"
	for _, tt := range []struct{ tool, input, want string }{
		{"bash", `{"command":"ls","description":"x"}`, ""},
		{"bash", `{"command":"rm x"}`, no},
		{"bash", `{"COMMAND":"rm x"}`, no},
		{"bash", `{"\u0043ommand":"rm x"}`, no},
		{"bash", `{"command":"ls","Command":"rm x"}`, twice},
		{"bash", `{"Command":"rm x","command":"ls"}`, twice},
		{"bash", `{"command":"rm x","command":null}`, twice},
		{"bash", `{"command":"change"}`, `{"updated_input":{"command":"changed"}}`},
		{"bash", `{"Command":"change","description":"x"}`, `{"updated_input":{"Command":"changed"}}`},
		{"write", `{"FILE_PATH":"/etc/passwd","content":"x"}`, no},
		{"multiedit", `{"file_path":"a","edits":[{"old_string":"a","New_\u017ftring":"secret"}]}`, no},
		{"multiedit", `{"file_path":"a","Edits":[{"old_string":"a","new_string":"secret"}]}`, no},
		{"multiedit", `{"file_path":"a","edits":[{"new_string":"a","New_String":"secret"}]}`, twice},
		{"mcp_a_b", `{"Command":"rm x"}`, no},
		{"mcp_a_b", `{"x":{"Y":1,"y":2}}`, twice},
		{"bash", `"{\"Command\":\"rm x\"}"`, no},
	} {
		payload := `{"event":"PreToolUse","session_id":"s","cwd":"/p","tool_name":"` + tt.tool + `","tool_input":` + tt.input + `}`
		reply := dialect.Answer(t.Context(), engine, dialect.Crush(), dialect.Input{Payload: []byte(payload)})
		got := strings.TrimSpace(string(reply.Stdout))
		if got != tt.want && (tt.want != twice || !strings.Contains(got, `"deny"`) || !strings.Contains(got, twice)) {
			t.Errorf("%s %s: %s, want %s", tt.tool, tt.input, got, tt.want)
		}
	}
	claude := `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","tool_name":"Bash","tool_input":{"command":"ls","Command":"rm x"}}`
	if reply := dialect.Answer(t.Context(), engine, dialect.ClaudeCode(), dialect.Input{Payload: []byte(claude)}); len(reply.Stdout) > 0 {
		t.Errorf("Claude Code: %s, want nothing: it reads the exact name", reply.Stdout)
	}
	// A hook program for Crush reads the exact name.
	line, err := dialect.Crush().WriteEvent(crushCall(t, "bash", `{"COMMAND":"ls","n":1}`))
	if want := `"tool_input":{"command":"ls","n":1}`; err != nil || !strings.Contains(string(line), want) {
		t.Errorf("WriteEvent = %s, %v, want %s", line, err, want)
	}
}
