package conformance_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/conformance"
)

// A case of an agent's loop uses only known words, and its event must occur.
func TestLoopWords(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want string // part of the error; empty = it passes
	}{
		"a turn":             {`"dialect": "ironclaw", "given": {"tool_calls": ["a"]}, "expect": {"reply": "done", "tool_run": true, "session_created": true}`, ``},
		"nothing":            {`"dialect": "miniclaw", "engine_result": null, "input": null, "expect": {"reply": "done", "tool_run": false}`, ``},
		"by its own name":    {`"dialect": "miniclaw", "native_event": "PreToolCall", "engine_result": {"decision": "block", "reason": "no"}, "expect": {"tool_result": "no"}`, ``},
		"an unknown word":    {`"dialect": "ironclaw", "expect": {"replies": 1}`, `replies`},
		"an unknown key":     {`"dialect": "ironclaw", "secrets": [], "expect": {}`, `unknown field "secrets"`},
		"unknown, given":     {`"dialect": "ironclaw", "given": {"calls": []}, "expect": {}`, `unknown field "calls"`},
		"unknown, result":    {`"dialect": "ironclaw", "event": "prompt.before", "engine_result": {"decide": "block"}, "expect": {}`, `unknown field "decide"`},
		"unknown, input":     {`"dialect": "ironclaw", "event": "prompt.before", "input": {"text": ""}, "expect": {}`, `unknown field "text"`},
		"an unknown event":   {`"dialect": "ironclaw", "event": "prompt.after", "expect": {}`, `unknown event "prompt.after"`},
		"an unknown name":    {`"dialect": "ironclaw", "native_event": "PreToolCall", "expect": {}`, `ironclaw has no event "PreToolCall"`},
		"unknown decision":   {`"dialect": "ironclaw", "event": "prompt.before", "engine_result": {"decision": "deny"}, "expect": {}`, `unknown decision "deny"`},
		"unknown cause":      {`"dialect": "ironclaw", "event": "prompt.before", "engine_result": {"decision": "block", "cause": "panic"}, "expect": {}`, `unknown cause "panic"`},
		"unknown field":      {`"dialect": "ironclaw", "event": "prompt.before", "engine_result": {"decision": "modify", "modified": {"text": ""}}, "expect": {}`, `no event has a "text" to change`},
		"about nothing":      {`"dialect": "ironclaw", "engine_result": {"decision": "block"}, "expect": {}`, `the event that it answers is missing`},
		"an event of others": {`"dialect": "ironclaw", "event": "model.before", "engine_result": {"decision": "block"}, "expect": {"model_called": true}`, `did not fire model.before`},
		"no such call":       {`"dialect": "miniclaw", "event": "tool.before", "given": {"tool_calls": ["a"]}, "input": {"tool_name": "b"}, "expect": {}`, `does not call the tool "b"`},
		"a begin, no text":   {`"dialect": "ironclaw", "expect": {"reply_starts": 5}`, `reply_starts`},
		"parts, no texts":    {`"dialect": "miniclaw", "event": "tool.before", "engine_result": {"decision": "block", "reason": "5"}, "expect": {"tool_result_contains": [5]}`, `tool_result_contains`},
		"a part, no text":    {`"dialect": "miniclaw", "event": "tool.before", "engine_result": {"decision": "block", "reason": "5"}, "expect": {"tool_result_contains": 5}`, `tool_result_contains`},
		"a size of a text":   {`"dialect": "ironclaw", "expect": {"reply_min": 0}`, `reply_min`},
		"a size, no number":  {`"dialect": "ironclaw", "expect": {"events_min": "0"}`, `events_min`},
		"no answer":          {`"dialect": "ironclaw", "expect": 5`, `an object`},
		"a value not had":    {`"dialect": "ironclaw", "event": "prompt.before", "input": {"prompt": {"$error": "gone"}}, "expect": {}`, `gone`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runOne(t, `{"id": "l", "kind": "loop", `+tt.text+`}`, nil)
			if got := r.String(); (r.Status == conformance.Passed) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("status %s, want %q to be wrong\n%s\n%s", r.Status, tt.want, tt.text, got)
			}
		})
	}
}
