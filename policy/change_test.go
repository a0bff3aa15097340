package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// changeable has, for each field that hooks can change, an event with the field, a value for it
// with the result, and the result of replacing sk-1 by ***. If the event's Contract combines
// the value with the old one, the result shows that.
var changeable = map[grapnel.Field]struct {
	kind     grapnel.Kind
	ev       grapnel.Event
	set      string // value as YAML
	want     string
	replaced string // empty = not a text field
}{
	grapnel.FieldPrompt:   {grapnel.PromptBefore, grapnel.Event{Prompt: &grapnel.Prompt{Text: "use sk-1"}}, `be brief`, `"be brief"`, `"use ***"`},
	grapnel.FieldSystem:   {grapnel.AgentBefore, grapnel.Event{Prompt: &grapnel.Prompt{System: "sk-1"}}, `be kind`, `"be kind"`, `"***"`},
	grapnel.FieldModel:    {grapnel.AgentBefore, grapnel.Event{Session: grapnel.Session{Model: "sk-1"}}, `small`, `"small"`, `"***"`},
	grapnel.FieldRequest:  {grapnel.ModelBefore, grapnel.Event{Model: &grapnel.Model{Request: json.RawMessage(`{"m":[{"t":"sk-1"}]}`)}}, `{m: []}`, `{"m":[]}`, `{"m":[{"t":"***"}]}`},
	grapnel.FieldResponse: {grapnel.ModelAfter, grapnel.Event{Model: &grapnel.Model{Response: json.RawMessage(`"sk-1"`)}}, `{t: no}`, `{"t":"no"}`, `"***"`},
	grapnel.FieldTools:    {grapnel.ToolsetBefore, grapnel.Event{Toolset: &grapnel.Toolset{Allowed: []string{"a", "b"}}}, `[b, c]`, `["b"]`, ``}, // only a smaller list is permitted
	grapnel.FieldMode:     {grapnel.ToolsetBefore, grapnel.Event{Toolset: &grapnel.Toolset{Mode: "any"}}, `none`, `"none"`, ``},
	grapnel.FieldInput:    {grapnel.ToolBefore, grapnel.Event{Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"n": 1.0, "t":"sk-1"}`)}}, `{n: 2}`, `{"n":2}`, `{"n": 1.0, "t":"***"}`},
	grapnel.FieldOutput:   {grapnel.ToolAfter, grapnel.Event{Tool: &grapnel.Tool{Name: "x", Output: json.RawMessage(`["a","sk-1"]`)}}, `gone`, `"gone"`, `["a","***"]`},
	grapnel.FieldNext:     {grapnel.ToolAfter, grapnel.Event{Tool: &grapnel.Tool{Name: "x", Next: json.RawMessage(`{"name":"y","input":{"k":"sk-1"}}`)}}, `{name: z}`, `{"name":"z"}`, `{"name":"y","input":{"k":"***"}}`},
	grapnel.FieldMessage:  {grapnel.TranscriptBefore, grapnel.Event{Message: &grapnel.Message{Raw: json.RawMessage(`{"c":"sk-1"}`)}}, `{c: x}`, `{"c":"x"}`, `{"c":"***"}`},
	grapnel.FieldText:     {grapnel.MessageBefore, grapnel.Event{Message: &grapnel.Message{Content: "a<b> sk-1"}}, `hi`, `"hi"`, `"a<b> ***"`},
	grapnel.FieldSummary:  {grapnel.CompactAfter, grapnel.Event{Compact: &grapnel.Compact{Summary: "sk-1"}}, `short`, `"short"`, `"***"`},
	grapnel.FieldClear:    {grapnel.AgentAfter, grapnel.Event{Stop: &grapnel.Stop{}}, `true`, `true`, ``},
	grapnel.FieldAnswer:   {grapnel.ElicitationBefore, grapnel.Event{Elicitation: &grapnel.Elicitation{Answer: json.RawMessage(`{"action":"accept","content":{"k":"sk-1"}}`)}}, `{action: decline}`, `{"action":"decline"}`, `{"action":"accept","content":{"k":"***"}}`},

	grapnel.FieldCommand: {grapnel.ToolBefore, *fixture.Shell("echo sk-1"), `make test`, `"make test"`, `"echo ***"`},
	grapnel.FieldPath:    {grapnel.PermissionBefore, *fixture.Write("sk-1"), `b.txt`, `"b.txt"`, `"***"`},
	grapnel.FieldURL:     {grapnel.ToolBefore, *fixture.Tool(grapnel.ToolBefore, "WebFetch", grapnel.ClassFetch, map[string]any{"url": "http://x/sk-1"}), `http://y/`, `"http://y/"`, `"http://x/***"`},
	grapnel.FieldContent: {grapnel.ToolBefore, *fixture.Tool(grapnel.ToolBefore, "Write", grapnel.ClassWrite, map[string]any{"file_path": "sk-1", "content": "sk-1"}), `x`, `"x"`, `"***"`},
}

// Every field that an event permits to change can be set, and text in it can be replaced.
func TestEveryFieldChanges(t *testing.T) {
	t.Parallel()
	for _, c := range grapnel.Contracts() {
		for _, ch := range c.Changes {
			if _, ok := changeable[ch.Field]; !ok {
				t.Errorf("no test changes %s", ch.Field)
			}
		}
	}
	fire := func(t *testing.T, field grapnel.Field, hook string) grapnel.Verdict {
		tt := changeable[field]
		ev := tt.ev
		ev.Kind = tt.kind
		return fixture.Engine(t, "/etc/p.yaml", fmt.Sprintf("version: 1\nhooks:\n  - name: x\n    on: %s\n    %s\n", tt.kind, hook)).Fire(context.Background(), &ev)
	}
	for field, tt := range changeable {
		t.Run("set "+string(field), func(t *testing.T) {
			t.Parallel()
			v := fire(t, field, fmt.Sprintf("set: {%s: %s}", field, tt.set))
			if got, _ := v.Event.Get(field); string(got) != tt.want || len(v.Changes) != 1 {
				t.Errorf("%s is now %s, want %s: %v", field, got, tt.want, v.Reasons)
			}
		})
		if tt.replaced == "" {
			continue
		}
		t.Run("replace in "+string(field), func(t *testing.T) {
			t.Parallel()
			v := fire(t, field, fmt.Sprintf("fields: %s\n    replace: [{pattern: 'sk-\\d', with: '***'}]", field))
			if got, _ := v.Event.Get(field); string(got) != tt.replaced || len(v.Changes) != 1 {
				t.Errorf("%s is now %s, want %s: %v", field, got, tt.replaced, v.Reasons)
			}
		})
	}
	// Only in the requested field.
	v := fire(t, grapnel.FieldContent, "fields: tool.content\n    replace: [{pattern: 'sk-\\d', with: '***'}]")
	if got, want := string(v.Changes[grapnel.FieldInput]), `{"content":"***","file_path":"sk-1"}`; got != want {
		t.Errorf("the input is now %s, want %s", got, want)
	}
}

// If a field has several places in a call, all of them are checked.
func TestReplaceInEveryPlace(t *testing.T) {
	t.Parallel()
	e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    fields: [tool.content, tool.command]\n    replace: [{pattern: 'sk-\\d', with: '***'}]\n")
	fire := func(input string) grapnel.Verdict {
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "MultiEdit", Input: json.RawMessage(input), Facts: []grapnel.Fact{
			{Field: grapnel.FieldContent, At: "/edits/*/new"}, {Field: grapnel.FieldCommand, At: "/commands/*"}, {Field: grapnel.FieldCommand, At: "/command"},
		}}}
		ev.Tool.Derive()
		return e.Fire(context.Background(), ev)
	}
	v := fire(`{"edits":[{"new":"a","old":"sk-1"},{"new":"sk-2"},{"old":"x"},5],"commands":["ls","echo sk-3","sk-4"],"command":"sk-5"}`)
	if got, want := string(v.Changes[grapnel.FieldInput]), `{"edits":[{"new":"a","old":"sk-1"},{"new":"***"},{"old":"x"},5],"commands":["ls","echo ***","***"],"command":"***"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v := fire(`{"edits":{"new":"sk-1"},"commands":"sk-1"}`); len(v.Changes) != 0 || v.Decision != grapnel.None {
		t.Errorf("%s, %v: nothing of it is a content or a command", v.Changes, v.Decision)
	}
	// A call with too many places is blocked.
	if v := fire(`{"commands":["` + strings.Repeat(`a","`, 300) + `sk-1"]}`); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "more than 256 places") {
		t.Errorf("%v %s, want a block", v.Decision, v.Reason())
	}
}

// Setting a place inside a field leaves everything else as it was sent.
func TestSetPlaces(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ set, input, want, reason string }{
		"one":             {"tool.input.timeout: 5", `{"b": 1.0, "timeout":600, "a":"x"}`, `{"b":1.0,"timeout":5,"a":"x"}`, ""},
		"new":             {"tool.input.timeout: 5", `{"a":1}`, `{"a":1,"timeout":5}`, ""},
		"deep":            {"tool.input.a.b.c: <x>", `{"a":{"z":1}}`, `{"a":{"z":1,"b":{"c":"<x>"}}}`, ""},
		"several":         {"tool.input.a.x: 1, tool.input.a.y: 2, tool.input.b: [3]", `{"a":{"y":0}}`, `{"a":{"y":2,"x":1},"b":[3]}`, ""},
		"taken away":      {"tool.input.a: null, tool.input.b.c: null", `{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"d":2}}`, ""},
		"laid over":       {"tool.input.a: {x: 1}", `{"a":{"y":2}}`, `{"a":{"y":2,"x":1}}`, ""},
		"nothing to do":   {"tool.input.a: 1", `{"a":1}`, ``, ""},
		"beside a view":   {"tool.input.timeout: 5, tool.command: make", `{"command":"rm"}`, `{"command":"make","timeout":5}`, ""},
		"through a text":  {"tool.input.a.b: 1", `{"a":"text"}`, ``, "set tool.input.a.b: tool.input.a is not an object here"},
		"through a list":  {"tool.input.a.b.c: 1", `{"a":{"b":[1]}}`, ``, "set tool.input.a.b.c: tool.input.a.b is not an object here"},
		"through nothing": {"tool.input.a.b: 1", `{"a":null}`, `{"a":{"b":1}}`, ""},
		"input no object": {"tool.input.a: 1", `"text"`, ``, "tool.input is not an object here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    set: {"+tt.set+"}\n")
			ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(tt.input), Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}}}}
			v := e.Fire(context.Background(), ev)
			if got := string(v.Changes[grapnel.FieldInput]); got != tt.want || !strings.Contains(v.Reason(), tt.reason) || (v.Decision == grapnel.Block) != (tt.reason != "") {
				t.Errorf("got  %s %v %s\nwant %s %s", got, v.Decision, v.Reason(), tt.want, tt.reason)
			}
		})
	}
}

// One hook can set different fields for different events.
func TestSetOnSeveralEvents(t *testing.T) {
	t.Parallel()
	e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - {name: x, on: [tool.before, tool.after], set: {tool.input.a: 1, tool.output: gone}}\n")
	for kind, want := range map[grapnel.Kind]grapnel.Field{grapnel.ToolBefore: grapnel.FieldInput, grapnel.ToolAfter: grapnel.FieldOutput} {
		v := e.Fire(context.Background(), &grapnel.Event{Kind: kind, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{}`), Output: json.RawMessage(`{}`)}})
		if len(v.Changes) != 1 || v.Changes[want] == nil || v.Decision != grapnel.None {
			t.Errorf("%s: %s, %s, want only %s changed", kind, v.Changes, v.Reason(), want)
		}
	}
}

// Replacing text in JSON always results in valid JSON, and never changes keys.
func TestReplaceKeepsJSON(t *testing.T) {
	t.Parallel()
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(3) })
	rapid.Check(t, func(t *rapid.T) {
		input, err := json.Marshal(map[string]any{"k": value.Draw(t, "value")})
		if err != nil {
			t.Fatal(err)
		}
		with := rapid.SampledFrom([]string{`"`, `\`, "\n", `","x":"`, `$0$0`, "\x00", "é", ``, "\xff"}).Draw(t, "with")
		pattern := rapid.SampledFrom([]string{`.`, `[a-c]+`, `"`, `\\`, `^.*$`, `k`}).Draw(t, "pattern")
		p := &policyfile.Policy{Version: 1, Hooks: []policyfile.Hook{{Name: "x", On: []grapnel.Kind{grapnel.ToolBefore}, Replace: []policyfile.Replacement{{Pattern: pattern, With: with}}}}}
		specs, err := policy.Build(p, grapnel.Source{Name: "p"}, fixture.NoCommand)
		if err != nil {
			t.Fatal(err)
		}
		e, err := grapnel.New(specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: input}})
		got, ok := v.Changes[grapnel.FieldInput]
		if !ok {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil || len(object) != 1 || !slices.Equal(keysOf(input), keysOf(got)) {
			t.Fatalf("%q -> %q of %s gives %s: %v", pattern, with, input, got, err)
		}
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(), rapid.StringMatching(`["\\a-c/ \n]*`).AsAny())
	if depth == 0 {
		return leaf
	}
	inner := anyJSON(depth - 1)
	return rapid.OneOf(leaf, rapid.SliceOfN(inner, 0, 3).AsAny(), rapid.MapOfN(rapid.StringMatching(`["\\a-ck]*`), inner, 0, 3).AsAny())
}

// keysOf lists all keys of objects, in order.
func keysOf(raw json.RawMessage) []string {
	var keys []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				keys = append(keys, key)
				walk(member)
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	var v any
	_ = json.Unmarshal(raw, &v)
	walk(v)
	slices.Sort(keys)
	return keys
}

// The changes of a policy reach the agents that support them.
func TestChangesInAgentsAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		d             *dialect.Dialect
		on, hook      string
		payload, want string
	}{
		"Claude Code, a place of the input": {
			dialect.ClaudeCode(), "tool.before", "set: {tool.input.timeout: 5}",
			`{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","timeout":600000}}`,
			`"updatedInput":{"command":"ls","timeout":5}`,
		},
		"Claude Code, the command": {
			dialect.ClaudeCode(), "tool.before", "set: {tool.command: ls -l}",
			`{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`,
			`"updatedInput":{"command":"ls -l"}`,
		},
		"Claude Code, an answer for a tool server": {
			dialect.ClaudeCode(), "elicitation.before", "set: {answer: {action: decline}}",
			`{"session_id":"s","cwd":"/","hook_event_name":"Elicitation","mcp_server_name":"x","message":"key?","requested_schema":{}}`,
			`"action":"decline"`,
		},
		"Claude Code, a text of the output": {
			dialect.ClaudeCode(), "tool.after", "replace: [{pattern: sk-1, with: '***'}]",
			`{"session_id":"s","cwd":"/","hook_event_name":"PostToolUse","tool_name":"mcp__x__y","tool_input":{},"tool_response":[{"type":"text","text":"sk-1"}]}`,
			`[{"type":"text","text":"***"}]`,
		},
		"Gemini CLI, a place of the request": {
			dialect.GeminiCLI(), "model.before", "set: {request.config.temperature: 0}",
			`{"session_id":"s","transcript_path":"","cwd":"/","hook_event_name":"BeforeModel","timestamp":"2026-11-20T19:43:25.789Z","llm_request":{"model":"m","messages":[],"config":{"temperature":1,"topP":0.95}}}`,
			`"config":{"temperature":0,"topP":0.95}`,
		},
		"Gemini CLI, the tools": {
			dialect.GeminiCLI(), "toolset.before", "set: {tools: [read_file], mode: any}",
			`{"session_id":"s","transcript_path":"","cwd":"/","hook_event_name":"BeforeToolSelection","timestamp":"2026-11-20T19:43:25.789Z","llm_request":{"model":"m","messages":[]}}`,
			`"allowedFunctionNames":["read_file"]`,
		},
		"Gemini CLI, the response": {
			dialect.GeminiCLI(), "model.after", "replace: [{pattern: sk-1, with: '***'}]",
			`{"session_id":"s","transcript_path":"","cwd":"/","hook_event_name":"AfterModel","timestamp":"2026-11-20T19:43:25.789Z","llm_request":{"model":"m","messages":[]},"llm_response":{"candidates":[{"content":{"role":"model","parts":["sk-1"]}}]}}`,
			`"parts":["***"]`,
		},
		"our own, the call that comes next": {
			dialect.Plain(), "tool.after", "set: {tool.next: {name: x, input: {a: 1}}}",
			`{"kind":"tool.after","tool":{"name":"y","input":{}}}`,
			`"tool.next":{"name":"x","input":{"a":1}}`,
		},
		"our own, the memory": {
			dialect.Plain(), "agent.after", "set: {memory.clear: true}",
			`{"kind":"agent.after","stop":{}}`,
			`"memory.clear":true`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: "+tt.on+"\n    "+tt.hook+"\n")
			reply := dialect.Answer(context.Background(), e, tt.d, dialect.Input{Payload: []byte(tt.payload)})
			if !strings.Contains(string(reply.Stdout), tt.want) || !json.Valid(reply.Stdout) {
				t.Errorf("answered %s, want %s in it", reply.Stdout, tt.want)
			}
		})
	}
}

// A rule for paths checks the files in a patch, in the format of every agent that uses patches.
// A change of such a path is refused.
func TestPathsInPatches(t *testing.T) {
	t.Parallel()
	block := "on: tool.before\n    match: {tool: [write, edit], path: 'deploy/prod/**'}\n    block: This is production."
	for name, tt := range map[string]struct {
		hook, payload string
		blocked       bool
	}{
		"blocked":         {block, `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Add File: notes\n+x\n*** Add File: deploy/prod/x\n+x\n*** End Patch"}}`, true},
		"moved there":     {block, `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Update File: x\r\n*** Move to: ./docs/../deploy/prod/x\r\n"}}`, true},
		"absolute":        {block, `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Delete File: /home/dev/project/deploy/prod/x"}}`, true},
		"a diff":          {block, `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"--- a/deploy/prod/x\n+++ b/deploy/prod/x\n"}}`, true},
		"elsewhere":       {block, `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Add File: notes\n+*** Add File: deploy/prod/x\n"}}`, false},
		"a path replaced": {"on: tool.before\n    fields: tool.path\n    replace: [{pattern: prod, with: test}]", `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Add File: deploy/prod/x\n+prod\n"}}`, true},
		"no path of it":   {"on: tool.before\n    fields: tool.path\n    replace: [{pattern: prod, with: test}]", `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Add File: notes\n+prod\n"}}`, false},
		"a path set":      {"on: tool.before\n    set: {tool.path: x}", `{"hook_event_name":"PreToolUse","cwd":"/home/dev/project","tool_name":"apply_patch","tool_input":{"command":"*** Add File: notes\n+prod\n"}}`, true},
	} {
		e := fixture.Engine(t, "/home/dev/project/grapnel.yaml", "version: 1\nhooks:\n  - name: x\n    "+tt.hook+"\n")
		reply := dialect.Answer(context.Background(), e, dialect.Codex(), dialect.Input{Payload: []byte(tt.payload)})
		if blocked := strings.Contains(string(reply.Stdout), `"permissionDecision":"deny"`); blocked != tt.blocked {
			t.Errorf("%s: answered %s %s, want a block: %v", name, reply.Stdout, reply.Stderr, tt.blocked)
		}
	}
	e := fixture.Engine(t, "/etc/p.yaml", "version: 1\nhooks:\n  - name: x\n    on: tool.before\n    fields: tool.content\n    replace: [{pattern: 'sk-\\d', with: '***'}]\n")
	reply := dialect.Answer(context.Background(), e, dialect.Codex(), dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","tool_name":"apply_patch","tool_input":{"command":"*** Add File: notes\n+sk-1\n"}}`)})
	if want := `"updatedInput":{"command":"*** Add File: notes\n+***\n"}`; !strings.Contains(string(reply.Stdout), want) {
		t.Errorf("answered %s, want %s in it", reply.Stdout, want)
	}
}
