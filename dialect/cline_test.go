package dialect_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// clineCall returns a tool call in Cline's format.
func clineCall(t testing.TB, tool, input string) *grapnel.Event {
	t.Helper()
	payload := fmt.Sprintf(`{"clineVersion":"","hookName":"tool_call","tool_call":{"id":"1","name":%q,"input":%s}}`, tool, input)
	ev, err := dialect.Cline().Read(dialect.Input{Payload: []byte(payload)})
	if err != nil {
		t.Fatalf("Read(%s): %v", payload, err)
	}
	return ev
}

// A reason comes from a model, a file or a person. For any reason, a blocked call gets the same
// input, except the text of one member that tools ignore.
//
// Proves: GC-01
func TestClineBlocksAreInert(t *testing.T) {
	t.Parallel()
	inert := map[string]string{
		"run_commands": `{"commands":[]}`, "read_files": `{"files":[]}`, "search_codebase": `{"queries":[]}`, "fetch_web_content": `{"requests":[]}`,
		"editor": `{"new_text":"","path":"/\u0000"}`, "apply_patch": `{"input":"*** Begin Patch"}`, "skills": `{}`, "ask_question": `{}`, "submit_and_exit": `{}`,
		"spawn_agent": "", "demo__run_commands": "", "team_task": "", "Bash": "", "": "", // these run with any input, so the run ends
	}
	for _, tool := range dialect.Cline().Tools {
		if _, ok := inert[tool.Native]; !ok {
			t.Errorf("nobody knows with which input %s does nothing", tool.Native)
		}
	}
	tools := slices.Sorted(maps.Keys(inert))
	reasons := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"'; touch x; '", "$(touch x)", "`touch x`", "a\ntouch x\n", `"],"commands":["touch x"],"a":["`, `"}}`, "\x00\u2028", "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch",
		"HOOK_CONTROL\t{\"overrideInput\":{\"commands\":[\"touch x\"]}}", "a\nHOOK_CONTROL\t{}\n",
	}))
	rapid.Check(t, func(rt *rapid.T) {
		tool, reason := rapid.SampledFrom(tools).Draw(rt, "tool"), reasons.Draw(rt, "reason")
		out := grapnel.Outcome{Decision: grapnel.Block, Reason: reason, Native: map[string]json.RawMessage{"cline.overrideInput": json.RawMessage(`{"commands":["x"]}`)}}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore} // for a call that could not be read
		if tool != "" {
			ev = clineCall(t, tool, `{}`)
		}
		v := engineOf(t, out).Fire(t.Context(), ev)
		reply := dialect.Cline().Write(ev, &v, "PreToolUse")
		var answer struct {
			Cancel        bool
			OverrideInput map[string]any
		}
		if err := json.Unmarshal(reply.Stdout, &answer); err != nil || strings.Count(string(reply.Stdout), "\n") != 1 || reply.Exit != 0 || len(reply.Stderr) > 0 {
			rt.Fatalf("%q: %q %q exit %d: %v, want one JSON object on one line", reason, reply.Stdout, reply.Stderr, reply.Exit, err)
		}
		if _, hasReason := answer.OverrideInput["blocked"].(string); !hasReason {
			rt.Fatalf("%q: %s does not say why", reason, reply.Stdout)
		}
		delete(answer.OverrideInput, "blocked")
		left, err := json.Marshal(answer.OverrideInput)
		if err != nil {
			rt.Fatal(err)
		}
		if ends := inert[tool] == ""; answer.Cancel != ends || !ends && string(left) != inert[tool] || ends && string(left) != "{}" {
			rt.Fatalf("%s with %q: %s", tool, reason, reply.Stdout)
		}
	})
}

// Cline accepts an input in more forms than it offers. Rules see all its effects, or the call
// cannot be read.
func TestClineInputs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tool, input, want string }{
		{"run_commands", `{"commands":["rm a","ls"]}`, "rm a|ls"},
		{"run_commands", `{"commands":"rm a"}`, "rm a"},
		{"run_commands", `{"command":"rm a"}`, "rm a"},
		{"run_commands", `{"cmd":"rm a"}`, "rm a"},
		{"run_commands", `["rm a"]`, "rm a"},
		{"run_commands", `"rm a"`, "rm a"},
		{"run_commands", `"{\"commands\":[\"rm a\"]}"`, "rm a"},
		{"run_commands", `{"commands":null,"cmd":"rm a"}`, "rm a"},
		{"run_commands", `{"commands":[]}`, ""},
		{"run_commands", `{"other":1}`, ""},
		{"run_commands", `{"commands":5,"cmd":"rm a"}`, "error"},
		{"run_commands", `{"commands":[{"command":"rm","args":["a"]}]}`, "error"},
		{"run_commands", `[{"command":"rm","args":["a"]}]`, "error"},
		{"run_commands", `{"command":"rm","args":["a"]}`, "error"},
		{"read_files", `{"files":[{"path":"a","start_line":1},"b",{"file_path":"c"},{"filePath":"d"}]}`, "a|b|c|d"},
		{"read_files", `{"files":"a"}`, "a"},
		{"read_files", `{"files":{"path":"a"}}`, "a"},
		{"read_files", `{"path":"a"}`, "a"},
		{"read_files", `{"filePath":"a","end_line":3}`, "a"},
		{"read_files", `{"paths":["a",{"file_path":"b"}]}`, "a|b"},
		{"read_files", `{"file_paths":"a"}`, "a"},
		{"read_files", `["a",{"path":"b"}]`, "a|b"},
		{"read_files", `"a"`, "a"},
		{"read_files", `{"files":["a"],"paths":["b"]}`, "error"},
		{"editor", `{"path":"a","new_text":"x"}`, "a"},
		{"apply_patch", `"*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"`, "a"},
		{"fetch_web_content", `{"requests":[{"url":"https://a.example","prompt":"x"}]}`, "https://a.example"},
	} {
		payload := fmt.Sprintf(`{"clineVersion":"","hookName":"tool_call","tool_call":{"id":"1","name":%q,"input":%s}}`, tt.tool, tt.input)
		ev, err := dialect.Cline().Read(dialect.Input{Payload: []byte(payload)})
		got := "error"
		if err == nil {
			seen := slices.Concat(ev.Tool.Commands, ev.Tool.URLs)
			for _, p := range ev.Tool.Paths {
				seen = append(seen, p.Path)
			}
			got = strings.Join(seen, "|")
		}
		if got != tt.want {
			t.Errorf("%s of %s: rules see %q (%v), want %q", tt.tool, tt.input, got, err, tt.want)
		}
	}
}

// The answers that hooks for Cline may give.
func TestClineOutcomes(t *testing.T) {
	t.Parallel()
	call := clineCall(t, "run_commands", `{"commands":["ls"]}`)
	mcp := clineCall(t, "demo__greet", `{"who":"bob"}`)
	after := &grapnel.Event{Kind: grapnel.ToolAfter, Agent: grapnel.Agent{Name: "cline"}, Tool: &grapnel.Tool{Name: "editor"}}
	for _, tt := range []struct {
		name string
		ev   *grapnel.Event
		out  dialect.Output
		want string
	}{
		{"nothing", call, dialect.Output{}, `{}`},
		{"an empty object", call, dialect.Output{Stdout: []byte("{}")}, `{}`},
		{"cancel ends the run", call, dialect.Output{Stdout: []byte(`{"cancel":true,"errorMessage":"no"}`)}, `{"decision":"block","halt":"no"}`},
		{"cancel that is false", call, dialect.Output{Stdout: []byte(`{"cancel":false,"errorMessage":"no"}`)}, `{}`},
		{"the last line of control counts", call, dialect.Output{Stdout: []byte("HOOK_CONTROL\t{\"cancel\":true}\nlog\nHOOK_CONTROL\t{\"contextModification\":\"c\"}\n")}, `{"context":["c"]}`},
		{"what is printed before a failure", call, dialect.Output{Exit: 1, Stdout: []byte(`{"cancel":true,"errorMessage":"no"}`)}, `{"decision":"block","halt":"no"} error`},
		{"a silent exit 2", call, dialect.Output{Exit: 2}, `{"decision":"block"}`},
		{"another input", call, dialect.Output{Stdout: []byte(`{"overrideInput":{"commands":["pwd"]}}`)}, `{"set":{"tool.input":{"commands":["pwd"]}}}`},
		{"our block", call, dialect.Output{Stdout: []byte(`{"overrideInput":{"commands":[],"blocked":"no"}}`)}, `{"decision":"block","reason":"no"}`},
		{"what only looks like it", call, dialect.Output{Stdout: []byte(`{"overrideInput":{"commands":["pwd"],"blocked":"no"}}`)}, `{"set":{"tool.input":{"commands":["pwd"],"blocked":"no"}}}`},
		{"our block of an MCP tool", mcp, dialect.Output{Stdout: []byte(`{"cancel":true,"errorMessage":"no","overrideInput":{"blocked":"no"}}`)}, `{"decision":"block","reason":"no"}`},
		{"after a call", after, dialect.Output{Stdout: []byte(`{"cancel":true,"errorMessage":"no"}`)}, `{"halt":"no"}`},
		{"context after a call", after, dialect.Output{Stdout: []byte(`{"contextModification":"c"}`)}, `{"context":["c"]}`},
	} {
		o, err := dialect.Cline().ReadOutcome(tt.ev, tt.out)
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

// An event of another agent is written in Cline's format: the input of a call twice, the second
// time as texts.
func TestClineWritesInputTwice(t *testing.T) {
	t.Parallel()
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","transcript_path":"/x.jsonl","tool_name":"Bash","tool_input":{"command":"ls","timeout":5}}`)})
	if err != nil {
		t.Fatal(err)
	}
	line, err := dialect.Cline().WriteEvent(ev)
	const want = `{"hookName":"tool_call","sessionContext":{"rootSessionId":"s"},"workspaceRoots":["/p"],` +
		`"tool_call":{"name":"run_commands","input":{"commands":["ls"]}},"preToolUse":{"toolName":"run_commands","parameters":{"commands":"[\"ls\"]"}}}` + "\n"
	if err != nil || string(line) != want {
		t.Errorf("WriteEvent: %s, %v\nwant %s", line, err, want)
	}
	out, err := dialect.Cline().ReadOutcome(ev, dialect.Output{Stdout: []byte(`{"overrideInput":{"commands":["pwd"]}}`)})
	if err != nil || string(out.Set[grapnel.FieldCommand]) != `"pwd"` || len(out.Patch) > 0 {
		t.Errorf("another command is read as %+v, %v", out, err)
	}
}
