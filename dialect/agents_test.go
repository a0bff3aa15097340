package dialect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// effect is the effect of a reply in an agent.
type effect struct {
	Blocked bool // the action does not happen, or the agent does not stop, or feedback is given
	Asked   bool // the agent's own prompt is forced
	Allowed bool // the agent's own prompt is skipped
	Ended   bool // the turn ends
	Reason  string
	Context string
	Message string // text that the user sees
	Error   bool   // the agent shows an error of the hook
	Changed map[grapnel.Field]string
}

// object is decoded JSON.
type object = map[string]any

// claudeHeeds models how Claude Code 2.1.329 treats replies of command hooks. It was written
// from live observations and not from the code under test. It is as strict as the agent: one
// member of a wrong type makes the whole object void.
func claudeHeeds(native string, r dialect.Reply) effect {
	var e effect
	reply, isJSON := object{}, false
	if out := bytes.TrimSpace(r.Stdout); len(out) > 0 && out[0] == '{' {
		isJSON = json.Unmarshal(out, &reply) == nil && claudeValid(native, reply)
	}
	if !isJSON {
		reply = object{}
		e.Error = r.Exit != 0 && r.Exit != 2
	}
	specific, _ := reply["hookSpecificOutput"].(object)
	str := func(o object, key string) string { s, _ := o[key].(string); return s }

	oldBlock := reply["decision"] == "block"
	exitBlock := r.Exit == 2
	if exitBlock {
		e.Reason = strings.TrimSpace(string(r.Stderr))
	}
	e.Message = str(reply, "systemMessage")
	context := str(specific, "additionalContext")
	ends := reply["continue"] == false
	changed := func(f grapnel.Field, member string) {
		if v, ok := specific[member]; ok {
			raw, _ := json.Marshal(v)
			e.Changed = map[grapnel.Field]string{f: string(raw)}
		}
	}
	block := func(by bool) {
		if by {
			e.Blocked = true
			if s := str(reply, "reason"); s != "" {
				e.Reason = s
			}
		}
	}

	switch native {
	case "PreToolUse", "PreModelSwitch":
		switch specific["permissionDecision"] {
		case "deny":
			e.Blocked = true
		case "ask":
			e.Asked = true
		case "allow":
			e.Allowed = true
		}
		if s := str(specific, "permissionDecisionReason"); s != "" {
			e.Reason = s
		}
		block(oldBlock || exitBlock)
		if native == "PreToolUse" {
			e.Ended = ends
			e.Context = context
			if !e.Blocked {
				changed(grapnel.FieldInput, "updatedInput")
			}
		}
	case "PermissionRequest": // the exit code is ignored
		decision, _ := specific["decision"].(object)
		switch decision["behavior"] {
		case "deny":
			e.Blocked, e.Ended, e.Reason = true, decision["interrupt"] == true, str(decision, "message")
		case "allow":
			e.Allowed = true
			if v, ok := decision["updatedInput"]; ok {
				raw, _ := json.Marshal(v)
				e.Changed = map[grapnel.Field]string{grapnel.FieldInput: string(raw)}
			}
		}
	case "UserPromptSubmit", "UserPromptExpansion", "PostToolBatch":
		e.Context, e.Ended = context, ends
		block(oldBlock || exitBlock)
	case "PostToolUse":
		e.Context, e.Ended = context, ends
		block(oldBlock || exitBlock)
		changed(grapnel.FieldOutput, "updatedToolOutput")
	case "PostToolUseFailure":
		e.Context, e.Ended = context, ends
		e.Blocked = exitBlock || context != "" // feedback is the only possible effect
		if !exitBlock {
			e.Reason = context
		}
	case "Stop", "SubagentStop":
		e.Ended = ends
		block(!ends && (oldBlock || exitBlock || context != ""))
	case "TeammateIdle":
		e.Ended = ends
		block(!ends && exitBlock)
	case "TaskCompleted":
		e.Ended = ends
		block(exitBlock)
	case "TaskCreated":
		e.Ended = ends
		block(oldBlock || exitBlock)
	case "PreCompact", "ConfigChange":
		block(oldBlock || exitBlock)
	case "Elicitation", "ElicitationResult":
		action := str(specific, "action")
		e.Blocked = exitBlock || action == "decline"
		if e.Reason == "" {
			e.Reason = e.Message
		}
		if action == "accept" {
			raw, _ := json.Marshal(object{"action": action, "content": specific["content"]})
			e.Changed = map[grapnel.Field]string{grapnel.FieldAnswer: string(raw)}
		}
	case "MessageDisplay":
		if shown, ok := specific["displayContent"].(string); ok {
			e.Blocked, e.Reason = true, shown
			raw, _ := json.Marshal(shown)
			e.Changed = map[grapnel.Field]string{grapnel.FieldResponse: string(raw)}
		}
	case "WorktreeCreate":
		e.Blocked = r.Exit != 0
		e.Message = ""
	case "SessionStart", "Setup", "SubagentStart", "PostModelSwitch":
		e.Context = context
	}
	return e
}

// claudeValid checks the members that the agent checks.
func claudeValid(native string, reply object) bool {
	types := map[string]string{
		"continue": "bool", "suppressOutput": "bool", "stopReason": "string", "systemMessage": "string", "terminalSequence": "string",
		"decision": "string", "reason": "string", "hookSpecificOutput": "object",
	}
	specific := map[string]string{
		"hookEventName": "string", "permissionDecision": "string", "permissionDecisionReason": "string", "additionalContext": "string",
		"updatedInput": "object", "displayContent": "string", "action": "string", "content": "object", "decision": "object",
		"initialUserMessage": "string", "sessionTitle": "string", "watchPaths": "array", "reloadSkills": "bool",
		"suppressOriginalPrompt": "bool", "classifierContext": "string", "retry": "bool",
	}
	fits := func(o object, types map[string]string) bool {
		for key, v := range o {
			want, known := types[key]
			if !known {
				continue
			}
			got := map[string]bool{}
			switch v.(type) {
			case string:
				got["string"] = true
			case bool:
				got["bool"] = true
			case object:
				got["object"] = true
			case []any:
				got["array"] = true
			}
			if !got[want] {
				return false
			}
		}
		return true
	}
	if !fits(reply, types) {
		return false
	}
	if d, ok := reply["decision"]; ok && d != "block" && d != "approve" {
		return false
	}
	s, ok := reply["hookSpecificOutput"].(object)
	if !ok {
		return true
	}
	if s["hookEventName"] != native || !fits(s, specific) {
		return false
	}
	d, ok := s["permissionDecision"]
	return !ok || slices.Contains([]any{"allow", "deny", "ask", "defer"}, d)
}

// geminiHeeds models Gemini CLI 0.61.0 in the same way. It supports one hook, so it does not
// merge replies.
func geminiHeeds(native string, r dialect.Reply) effect {
	var e effect
	text := strings.TrimSpace(string(r.Stdout))
	if text == "" {
		text = strings.TrimSpace(string(r.Stderr))
	}
	if text == "" {
		return e // for any exit code
	}
	reply := object{}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		switch r.Exit {
		case 0:
			reply = object{"systemMessage": text}
		case 1:
			reply = object{"systemMessage": "Warning: " + text}
		default:
			reply = object{"decision": "deny", "reason": text}
		}
		e.Error = true
	}
	specific, _ := reply["hookSpecificOutput"].(object)
	str := func(o object, key string) string { s, _ := o[key].(string); return s }
	ends := reply["continue"] == false
	denied := reply["decision"] == "deny" || reply["decision"] == "block"
	reason := str(reply, "stopReason")
	if !ends || reason == "" {
		reason = str(reply, "reason")
	}
	changed := func(f grapnel.Field, v any) {
		raw, _ := json.Marshal(v)
		if e.Changed == nil {
			e.Changed = map[grapnel.Field]string{}
		}
		e.Changed[f] = string(raw)
	}

	if native == "BeforeToolSelection" {
		config, ok := specific["toolConfig"].(object)
		if !ok {
			config = object{"mode": "AUTO", "allowedFunctionNames": []any{}} // for any output at all
		}
		changed(grapnel.FieldTools, config["allowedFunctionNames"])
		changed(grapnel.FieldMode, config["mode"])
		return e
	}
	e.Message = str(reply, "systemMessage")
	switch native {
	case "SessionStart":
		e.Context = str(specific, "additionalContext")
	case "BeforeAgent":
		e.Blocked, e.Ended, e.Reason = denied || ends, ends, reason
		e.Context = str(specific, "additionalContext")
	case "AfterAgent":
		e.Blocked, e.Ended, e.Reason = denied && !ends, ends, reason
		if specific["clearContext"] == true && (denied || ends) {
			changed(grapnel.FieldClear, true)
		}
	case "BeforeModel":
		e.Blocked, e.Ended, e.Reason = denied || ends, ends, reason
		if answer, ok := specific["llm_response"]; ok && denied {
			e.Blocked = false
			changed(grapnel.FieldResponse, answer)
		}
		if request, ok := specific["llm_request"]; ok && !denied {
			changed(grapnel.FieldRequest, request)
		}
	case "AfterModel": // a deny still delivers the chunk
		e.Ended, e.Blocked, e.Reason = ends, ends, reason
		if parts := geminiParts(specific["llm_response"]); len(parts) > 0 {
			changed(grapnel.FieldResponse, specific["llm_response"])
		}
	case "BeforeTool":
		e.Blocked, e.Ended, e.Reason = denied || ends, ends, reason
		e.Asked = reply["decision"] == "ask" && !ends
		if input, ok := specific["tool_input"]; ok && !e.Blocked {
			changed(grapnel.FieldInput, input)
		}
	case "AfterTool":
		e.Blocked, e.Ended, e.Reason = denied || ends, ends, reason
		e.Context = str(specific, "additionalContext")
		if next, ok := specific["tailToolCallRequest"].(object); ok {
			changed(grapnel.FieldNext, object{"name": next["name"], "input": next["args"]})
		}
	}
	return e
}

func geminiParts(response any) []any {
	r, _ := response.(object)
	candidates, _ := r["candidates"].([]any)
	if len(candidates) == 0 {
		return nil
	}
	first, _ := candidates[0].(object)
	content, _ := first["content"].(object)
	parts, _ := content["parts"].([]any)
	return parts
}

// heeds is the model of the agent of a dialect.
func heeds(d *dialect.Dialect, native string, r dialect.Reply) effect {
	if d.Name == dialect.ClaudeCode().Name {
		return claudeHeeds(native, r)
	}
	return geminiHeeds(native, r)
}

// sample returns a payload of an event with all its possible members.
func sample(d *dialect.Dialect, native string) []byte {
	members := object{
		"session_id": "s1", "cwd": "/home/dev/project", "hook_event_name": native,
		"tool_name": "Bash", "tool_input": object{"command": "rm -rf build", "description": "clean"}, "tool_use_id": "t1",
		"tool_response": object{"stdout": "out"}, "error": "Exit code 1",
		"prompt": "do it", "prompt_response": "done", "delta": "shown", "last_assistant_message": "done",
		"tool_calls": []any{object{"tool_name": "Read", "tool_input": object{"file_path": "a"}}}, "trigger": "auto",
		"mcp_server_name": "lab", "message": "name?",
	}
	if d.Name == dialect.GeminiCLI().Name {
		members["timestamp"] = "2026-11-20T20:10:06.168Z"
		members["tool_name"], members["tool_input"] = "run_shell_command", object{"command": "rm -rf build"}
		members["tool_response"] = object{"llmContent": "out"}
		members["llm_request"] = object{"model": "m", "messages": []any{object{"role": "user", "content": "hi"}}}
		members["llm_response"] = object{"text": "t", "candidates": []any{object{"content": object{"role": "model", "parts": []any{"t"}}}}}
	}
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return raw
}

// newValue has, for each field, a legal value that differs from the value in sample.
var newValue = map[grapnel.Field]string{
	grapnel.FieldPrompt:   `"something else"`,
	grapnel.FieldRequest:  `{"messages":[{"content":"ho","role":"user"}],"model":"n"}`,
	grapnel.FieldResponse: `{"candidates":[{"content":{"parts":["u"],"role":"model"}}],"text":"u"}`,
	grapnel.FieldTools:    `["glob","read_file"]`,
	grapnel.FieldMode:     `"any"`,
	grapnel.FieldInput:    `{"command":"true"}`,
	grapnel.FieldOutput:   `{"stdout":"***"}`,
	grapnel.FieldNext:     `{"input":{"pattern":"*"},"name":"glob"}`,
	grapnel.FieldSummary:  `"shorter"`,
	grapnel.FieldClear:    `true`,
	grapnel.FieldAnswer:   `{"action":"accept","content":{"name":"Bob"}}`,
}

// answered fires a sample of an event at a hook with this outcome.
func answered(t testing.TB, d *dialect.Dialect, native string, out grapnel.Outcome) (*grapnel.Event, grapnel.Verdict, dialect.Reply, effect) {
	t.Helper()
	ev, err := d.Read(dialect.Input{Payload: sample(d, native)})
	if err != nil {
		t.Fatalf("Read(%s): %v", sample(d, native), err)
	}
	v := engineOf(t, out).Fire(context.Background(), ev)
	reply := d.Write(ev, &v, native)
	return ev, v, reply, heeds(d, native, reply)
}

// forEachEvent runs a test for every event of both agents.
func forEachEvent(t *testing.T, f func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow)) {
	t.Helper()
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		for i := range d.Events {
			row := &d.Events[i]
			t.Run(d.Name+"/"+row.Native, func(t *testing.T) {
				t.Parallel()
				f(t, d, row)
			})
		}
	}
}

// Without an opinion the reply is empty, for every event, so the agent's own prompt stays.
func TestNoneIsNothing(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		_, v, reply, _ := answered(t, d, row.Native, grapnel.Outcome{})
		if !cmp.Equal(reply, dialect.Reply{}) {
			t.Errorf("the reply to %+v is %+v, want nothing at all", v, reply)
		}
	})
}

func TestBlockBlocks(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		ev, v, reply, e := answered(t, d, row.Native, grapnel.Outcome{Decision: grapnel.Block, Reason: "because <so> & so"})
		switch {
		case row.Can.Block && (!e.Blocked || !strings.Contains(e.Reason, "because <so> & so") && row.Native != "WorktreeCreate"):
			t.Errorf("a block (%+v) is written as %s (%+v), and the agent does %+v", v, reply.Stdout, reply, e)
		case !row.Can.Block && e.Blocked && !row.Can.Halt:
			t.Errorf("%s cannot be blocked, and the agent does %+v", row.Native, e)
		case !row.Can.Block && ev.Contract().Blocks != grapnel.BlockingNothing && len(v.Unsupported) == 0:
			t.Errorf("a block that cannot be told is not in Unsupported: %+v", v)
		case e.Allowed || e.Asked || e.Error && reply.Exit != 2:
			t.Errorf("a block is written as %+v, and the agent does %+v", reply, e)
		}
	})
}

func TestAskAndAllow(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		ev, v, reply, e := answered(t, d, row.Native, grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"})
		action := ev.Contract().Blocks == grapnel.BlockingAction
		switch {
		case e.Allowed:
			t.Errorf("ask allows: %+v", reply)
		case row.Native == "PermissionRequest": // the prompt is already being shown
			if e.Blocked || !strings.Contains(e.Message, "sure?") {
				t.Errorf("ask is written as %s, and the agent does %+v", reply.Stdout, e)
			}
		case row.Can.Ask && (!e.Asked || e.Blocked):
			t.Errorf("ask (%+v) is written as %s, and the agent does %+v", v, reply.Stdout, e)
		case !row.Can.Ask && action && row.Can.Block && !e.Blocked:
			t.Errorf("ask cannot be told and is not a block: %s, %+v", reply.Stdout, e)
		}

		_, v, reply, e = answered(t, d, row.Native, grapnel.Outcome{Decision: grapnel.Allow})
		if e.Allowed != row.Can.Allow || e.Blocked || e.Asked {
			t.Errorf("allow (%+v) is written as %s, and the agent does %+v", v, reply.Stdout, e)
		}
	})
}

func TestHaltEndsTheTurn(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		ev, v, reply, e := answered(t, d, row.Native, grapnel.Outcome{Halt: "enough"})
		if row.Can.Halt && !e.Ended {
			t.Errorf("a halt (%+v) is written as %s, and the agent does %+v", v, reply.Stdout, e)
		}
		if action := ev.Contract().Blocks == grapnel.BlockingAction; action && row.Can.Block && !e.Blocked {
			t.Errorf("a halted action happens all the same: %s, %+v", reply.Stdout, e)
		}
		if e.Allowed || e.Asked {
			t.Errorf("a halt is written as %s, and the agent does %+v", reply.Stdout, e)
		}

		_, _, reply, e = answered(t, d, row.Native, grapnel.Outcome{Halt: "enough", Decision: grapnel.Block, Reason: "go on"})
		if stop := ev.Contract().Blocks == grapnel.BlockingStop; stop && (e.Blocked || !e.Ended) {
			t.Errorf("a halt must beat a block of the stop: %s, %+v", reply.Stdout, e)
		}
	})
}

func TestTextsArrive(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		ev, v, reply, e := answered(t, d, row.Native, grapnel.Outcome{Context: []string{"one", "two"}})
		if row.Can.Context && ev.Contract().Context && (!strings.Contains(e.Context, "one\ntwo") || e.Ended) {
			t.Errorf("context (%+v) is written as %s, and the agent does %+v", v, reply.Stdout, e)
		}
		if e.Blocked && row.Native != "PostToolUseFailure" || e.Allowed || e.Asked {
			t.Errorf("context decides: %s, %+v", reply.Stdout, e)
		}
		_, v, reply, e = answered(t, d, row.Native, grapnel.Outcome{Message: "hello"})
		if row.Can.Message && e.Message != "hello" || !row.Can.Message && (len(reply.Stdout) > 0 || len(v.Unsupported) == 0) {
			t.Errorf("a message (%+v) is written as %s, and the agent does %+v", v, reply.Stdout, e)
		}
	})
}

func TestChangesArrive(t *testing.T) {
	t.Parallel()
	forEachEvent(t, func(t *testing.T, d *dialect.Dialect, row *dialect.EventRow) {
		for _, f := range row.Can.Change {
			out := grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{f: json.RawMessage(newValue[f])}}
			switch row.Native {
			case "PermissionRequest":
				out.Decision = grapnel.Allow
			case "AfterAgent":
				out.Decision, out.Reason = grapnel.Block, "again"
			case "MessageDisplay":
				out.Set[f] = json.RawMessage(`"hidden"`)
			}
			_, v, reply, e := answered(t, d, row.Native, out)
			want := string(out.Set[f])
			if f == grapnel.FieldMode {
				want = strings.ToUpper(want)
			}
			if e.Changed[f] != want {
				t.Errorf("a change of %s to %s (%+v) is written as %s, and the agent does %+v", f, want, v, reply.Stdout, e)
			}
		}
		contract := (&grapnel.Event{Kind: row.Kind, Terms: &grapnel.Terms{Contract: row.Contract}}).Contract()
		for _, c := range contract.Changes {
			if slices.Contains(row.Can.Change, c.Field) {
				continue
			}
			_, v, reply, e := answered(t, d, row.Native, grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{c.Field: json.RawMessage(newValue[c.Field])}})
			hides := c.Field != grapnel.FieldOutput || !row.Can.Keeps
			if len(v.Unsupported) == 0 || e.Allowed || row.Can.Block && hides && !e.Blocked && contract.Blocks != grapnel.BlockingStop {
				t.Errorf("a change of %s cannot be told (%+v), is written as %s, and the agent does %+v", c.Field, v, reply.Stdout, e)
			}
		}
	})
}

// A person who sees the old input cannot approve a new one.
func TestChangeWhilePermissionIsAsked(t *testing.T) {
	t.Parallel()
	for _, decision := range []grapnel.Decision{grapnel.None, grapnel.Ask} {
		_, v, reply, e := answered(t, dialect.ClaudeCode(), "PermissionRequest", grapnel.Outcome{
			Decision: decision, Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"trash build"`)},
		})
		if !e.Blocked || e.Allowed || !strings.Contains(e.Reason, "trash build") {
			t.Errorf("%v with a change (%+v) is written as %s, and the agent does %+v", decision, v, reply.Stdout, e)
		}
	}
}

// A value of an unexpected shape is converted to the agent's shape, or the user gets a message.
func TestOddChanges(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("é", 3000) + `"`
	for _, tt := range []struct {
		d      *dialect.Dialect
		native string
		field  grapnel.Field
		value  string
		want   string // part of the reply
	}{
		{dialect.ClaudeCode(), "MessageDisplay", grapnel.FieldResponse, `{"a":"b"}`, `"displayContent":"{\"a\":\"b\"}"`},
		{dialect.ClaudeCode(), "PostToolUse", grapnel.FieldOutput, `{"stdout":7}`, `"systemMessage":"grapnel: tool.output was not changed: Claude Code accepts no output of another shape from Bash`},
		{dialect.ClaudeCode(), "PostToolUse", grapnel.FieldOutput, `{"stdout":"","more":[null,true]}`, `"updatedToolOutput":{"stdout":"","more":[null,true]}`},
		{dialect.ClaudeCode(), "Elicitation", grapnel.FieldAnswer, `{"action":"decline","content":"why"}`, `"action":"decline"}`},
		{dialect.ClaudeCode(), "Elicitation", grapnel.FieldAnswer, long, `… was not sent`},
		{dialect.GeminiCLI(), "AfterModel", grapnel.FieldResponse, `{"text":"u","candidates":[]}`, `"parts":["u"]`},
		{dialect.GeminiCLI(), "AfterModel", grapnel.FieldResponse, `[1]`, `"parts":[""]`},
		{dialect.GeminiCLI(), "BeforeToolSelection", grapnel.FieldMode, `"none"`, `"toolConfig":{"mode":"NONE"}`},
		{dialect.GeminiCLI(), "BeforeToolSelection", grapnel.FieldMode, `"maybe"`, `"toolConfig":{"mode":"AUTO"}`},
		{dialect.GeminiCLI(), "AfterTool", grapnel.FieldNext, `{"name":"glob"}`, `"tailToolCallRequest":{"name":"glob","args":{}}`},
		{dialect.GeminiCLI(), "AfterTool", grapnel.FieldNext, `{"name":"glob","input":[]}`, `was not requested`},
	} {
		_, v, reply, _ := answered(t, tt.d, tt.native, grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{tt.field: json.RawMessage(tt.value)}})
		if !emptyOrObject(reply) || !strings.Contains(string(reply.Stdout), tt.want) || len(reply.Stdout) > 4500 {
			t.Errorf("%s: %s set to %s (%+v) is written as %s, want %s in it", tt.native, tt.field, tt.value, v, reply.Stdout, tt.want)
		}
	}
}

// For any combination of hooks, the reply is empty or one JSON object that the agent accepts,
// and it contains nothing beyond the Verdict.
func TestRepliesMatchTheVerdict(t *testing.T) {
	t.Parallel()
	fields := make([]grapnel.Field, 0, len(newValue))
	for f := range newValue {
		fields = append(fields, f)
	}
	slices.Sort(fields)
	natives := []string{"permissionDecision", "updatedInput", "decision", "continue", "suppressOutput", "sessionTitle", "watchPaths", "retry", "suppressOriginalPrompt", "hookEventName"}
	texts := rapid.SampledFrom([]string{"", "a", "quote \" and \\", "<b>&\u2028", "多\n行"})
	values := rapid.SampledFrom([]string{`true`, `"x"`, `7`, `["a"]`, `{"a":1}`, `null`, `"allow"`, `[1]`})
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.SampledFrom([]*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()}).Draw(rt, "agent")
		row := rapid.SampledFrom(d.Events).Draw(rt, "event")
		out := grapnel.Outcome{
			Decision: grapnel.Decision(rapid.IntRange(0, 3).Draw(rt, "decision")),
			Reason:   texts.Draw(rt, "reason"), Message: texts.Draw(rt, "message"), Halt: texts.Draw(rt, "halt"),
			Context: rapid.SliceOfN(texts, 0, 2).Draw(rt, "context"),
			Set:     map[grapnel.Field]json.RawMessage{}, Native: map[string]json.RawMessage{},
		}
		for _, f := range rapid.SliceOfNDistinct(rapid.SampledFrom(fields), 0, 2, rapid.ID[grapnel.Field]).Draw(rt, "fields") {
			out.Set[f] = json.RawMessage(newValue[f])
		}
		for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(natives), 0, 3, rapid.ID[string]).Draw(rt, "natives") {
			out.Native[d.Name+"."+n] = json.RawMessage(values.Draw(rt, "value"))
		}
		ev, v, reply, e := answered(t, d, row.Native, out)
		about := fmt.Sprintf("%s %s: %+v\nverdict %+v\nreply %s %s exit %d\neffect %+v", d.Name, row.Native, out, v, reply.Stdout, reply.Stderr, reply.Exit, e)
		if !emptyOrObject(reply) {
			rt.Fatalf("not one JSON object: %s", about)
		}
		if e.Allowed && (v.Decision != grapnel.Allow || !row.Can.Allow) {
			rt.Fatalf("allowed: %s", about)
		}
		action := ev.Contract().Blocks == grapnel.BlockingAction
		if row.Can.Block && v.Decision == grapnel.Block && !e.Blocked {
			rt.Fatalf("not blocked: %s", about)
		}
		if action && e.Blocked && v.Decision != grapnel.Block && len(v.Changes) == 0 {
			rt.Fatalf("blocked: %s", about)
		}
		if e.Ended && v.Halt == "" {
			rt.Fatalf("ended: %s", about)
		}
		if row.Can.Halt && v.Halt != "" && !e.Ended {
			rt.Fatalf("not ended: %s", about)
		}
	})
}

func emptyOrObject(r dialect.Reply) bool {
	if len(r.Stdout) == 0 {
		return true
	}
	line, more, ok := bytes.Cut(r.Stdout, []byte("\n"))
	return ok && len(more) == 0 && json.Valid(line) && line[0] == '{'
}
