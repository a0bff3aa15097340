package dialect_test

import (
	"context"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// In Gemini CLI, the answer of one hook and the deny of another result in an answer that
// replaces the model's. The hooks' requests are merged member by member.
func TestGeminiModelOfTwoHooks(t *testing.T) {
	t.Parallel()
	ev, err := dialect.GeminiCLI().Read(dialect.Input{Payload: []byte(
		`{"session_id":"s","hook_event_name":"BeforeModel","llm_request":{"model":"m","messages":[],"config":{"topK":64,"topP":1}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	const response = `{"candidates":[{"content":{"parts":["canned"]}}]}`
	for name, tt := range map[string]struct {
		answers [2]string
		want    string
	}{
		"answer and deny": {
			[2]string{`{"hookSpecificOutput":{"llm_response":` + response + `}}`, `{"decision":"deny","reason":"no"}`},
			`{"decision":"deny","reason":"no","hookSpecificOutput":{"hookEventName":"BeforeModel","llm_response":` + response + `}}`,
		},
		"no answer and deny": {
			[2]string{`{"hookSpecificOutput":{"llm_response":{"candidates":[{"content":{"parts":["a"]}},{}]}}}`, `{"decision":"deny","reason":"no"}`},
			`{"decision":"deny","reason":"no"}`,
		},
		"half an answer": {
			[2]string{`{"decision":"deny","hookSpecificOutput":{"llm_response":{"text":"t","candidates":[{"content":{"parts":["a"]}},{}]}}}`, `{}`},
			`{"decision":"deny","reason":"answered by a hook instead of the model","hookSpecificOutput":{"hookEventName":"BeforeModel",` +
				`"llm_response":{"text":"t","candidates":[{"content":{"role":"model","parts":["t"]},"finishReason":"STOP","index":0}]}}}`,
		},
		"answer alone": {[2]string{`{"hookSpecificOutput":{"llm_response":` + response + `}}`, `{}`}, ``},
		"two requests": {
			[2]string{`{"hookSpecificOutput":{"llm_request":{"model":"n"}}}`, `{"hookSpecificOutput":{"llm_request":{"config":{"topK":1}}}}`},
			`{"hookSpecificOutput":{"hookEventName":"BeforeModel","llm_request":{"model":"n","messages":[],"config":{"topK":1}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var specs []grapnel.Spec
			for i, answer := range tt.answers {
				specs = append(specs, grapnel.Spec{
					Name: string(rune('a' + i)), OnError: grapnel.OnErrorOpen,
					Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
						return dialect.GeminiCLI().ReadOutcome(ev, dialect.Output{Stdout: []byte(answer)})
					}),
				})
			}
			engine, err := grapnel.New(specs, nil)
			if err != nil {
				t.Fatal(err)
			}
			v := engine.Fire(t.Context(), ev)
			v.Messages = nil // remove the message that one of them failed
			reply := dialect.GeminiCLI().Write(ev, &v, "")
			if got := strings.TrimSpace(string(reply.Stdout)); got != tt.want {
				t.Errorf("reply %s, want %s", got, tt.want)
			}
		})
	}
}

// The values that hooks' matchers are compared with, at events of both agents.
func TestGeminiSubject(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`: "run_shell_command",
		`{"hook_event_name":"PreToolUse","tool_name":"mcp__a_b__c","tool_input":{}}`:        "mcp_a_b_c",
		`{"hook_event_name":"PreToolUse","tool_name":"Unheard","tool_input":{}}`:            "Unheard",
		`{"hook_event_name":"SessionStart","source":"compact"}`:                             "resume",
		`{"hook_event_name":"SessionEnd","reason":"clear"}`:                                 "clear",
		`{"hook_event_name":"SessionEnd","reason":"whatever"}`:                              "other",
		`{"hook_event_name":"PreCompact","trigger":"manual","custom_instructions":""}`:      "manual",
		`{"hook_event_name":"UserPromptSubmit","prompt":"hi"}`:                              "",
		`{"hook_event_name":"ConfigChange","source":"user"}`:                                "", // Gemini CLI has no such event
	} {
		ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(payload)})
		if err != nil {
			t.Fatal(err)
		}
		if got := dialect.GeminiSubject(ev); got != want {
			t.Errorf("%s: subject %q, want %q", payload, got, want)
		}
	}
	own, err := dialect.GeminiCLI().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"SessionEnd","reason":"exit"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := dialect.GeminiSubject(own); got != "exit" {
		t.Errorf("own session end: subject %q, want exit", got)
	}
	if got := dialect.GeminiSubject(&grapnel.Event{Kind: grapnel.ToolBefore}); got != "" {
		t.Errorf("without a tool: subject %q", got)
	}
}
