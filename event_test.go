package grapnel_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

func TestSetThenGet(t *testing.T) {
	t.Parallel()
	for field, value := range everyField {
		ev := event(grapnel.ToolBefore)
		before := encoded(ev)
		got, err := ev.Set(field, json.RawMessage(value))
		if err != nil {
			t.Errorf("Set(%s, %s): %v", field, value, err)
			continue
		}
		if raw, ok := got.Get(field); !ok || string(raw) != value {
			t.Errorf("Get(%s) after Set(%s) = %s, %v", field, value, raw, ok)
		}
		if after := encoded(ev); string(after) != string(before) {
			t.Errorf("Set(%s) changed the event itself: %s", field, cmp.Diff(string(before), string(after)))
		}
	}
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		field grapnel.Field
		value string
		want  string
	}{
		"broken JSON":     {grapnel.FieldPrompt, `"a`, "set prompt: not valid JSON"},
		"nothing":         {grapnel.FieldPrompt, ``, "set prompt: not valid JSON"},
		"number as text":  {grapnel.FieldPrompt, `1`, "set prompt: want string, got number"},
		"null as text":    {grapnel.FieldText, `null`, "set content: want string, got null"},
		"text as bool":    {grapnel.FieldClear, `"yes"`, "set memory.clear: want bool, got string"},
		"text as list":    {grapnel.FieldTools, `"bash"`, "set tools: want []string, got string"},
		"list of numbers": {grapnel.FieldTools, `[1]`, "set tools: want []string, got number"},
		"null as list":    {grapnel.FieldTools, `null`, "set tools: want []string, got null"},
		"object as view":  {grapnel.FieldCommand, `{}`, "set tool.command: want a JSON string"},
		"no such view":    {grapnel.FieldPath, `"x"`, "set tool.path: tool bash has 0 places for this field, want exactly one"},
		"no such field":   {"weather", `"x"`, "set weather: unknown field"},
		"too deep": {
			grapnel.FieldOutput, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "set tool.output: not valid JSON",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := event(grapnel.ToolBefore).Set(tt.field, json.RawMessage(tt.value)); err == nil || err.Error() != tt.want {
				t.Errorf("Set = %v, %v, want the error %q", got, err, tt.want)
			}
		})
	}
	for _, field := range []grapnel.Field{grapnel.FieldInput, grapnel.FieldOutput, grapnel.FieldNext, grapnel.FieldCommand} {
		if _, err := new(grapnel.Event).Set(field, json.RawMessage(`{}`)); err == nil {
			t.Errorf("Set(%s) on an event without a tool: no error", field)
		}
	}
}

// TestSetToolsLeavesTheCallersList checks that Set does not write a shorter list into the
// caller's list.
func TestSetToolsLeavesTheCallersList(t *testing.T) {
	t.Parallel()
	allowed := []string{"bash", "read", "write"}
	ev := &grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{Allowed: allowed}}
	v, _ := fire(t, ev,
		step("a", returns(set(grapnel.FieldTools, `["write","read"]`))),
		step("b", returns(set(grapnel.FieldTools, `["write","bash"]`))))
	if got := string(v.Changes[grapnel.FieldTools]); got != `["write"]` {
		t.Errorf("tools = %s, want what both allow", got)
	}
	if want := []string{"bash", "read", "write"}; !slices.Equal(allowed, want) {
		t.Errorf("the caller's list is now %q, want %q", allowed, want)
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	tool := grapnel.Tool{
		Name: "edit",
		Input: json.RawMessage(`{
			"file_path": "a.go", "edits": [{"path":"b.go","text":"one"},{"path":7,"text":"two"}],
			"commands": ["ls", "pwd"], "url": "http://x", "old": {"path":"c.go"}
		}`),
		Facts: []grapnel.Fact{
			{Field: grapnel.FieldPath, At: "/file_path", Use: grapnel.UseWrite},
			{Field: grapnel.FieldPath, At: "/edits/*/path", Use: grapnel.UseWrite},
			{Field: grapnel.FieldPath, At: "/old/path", Use: grapnel.UseRead},
			{Field: grapnel.FieldPath, At: "/absent", Use: grapnel.UseRead},
			{Field: grapnel.FieldContent, At: "/edits/*/text"},
			{Field: grapnel.FieldCommand, At: "/commands/*"},
			{Field: grapnel.FieldURL, At: "/url"},
		},
		Commands: []string{"from before"},
	}
	tool.Derive()
	got := grapnel.Tool{Commands: tool.Commands, Paths: tool.Paths, URLs: tool.URLs, Content: tool.Content}
	want := grapnel.Tool{
		Commands: []string{"ls", "pwd"}, URLs: []string{"http://x"}, Content: "one\ntwo",
		Paths: []grapnel.Path{{Path: "a.go", Use: grapnel.UseWrite}, {Path: "b.go", Use: grapnel.UseWrite}, {Path: "c.go", Use: grapnel.UseRead}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Derive (-want +got):\n%s", diff)
	}
}

// TestViews checks that a view changes exactly one place in the input.
func TestViews(t *testing.T) {
	t.Parallel()
	facts := []grapnel.Fact{
		{Field: grapnel.FieldPath, At: "/path"}, {Field: grapnel.FieldPath, At: "/file"}, // an old and a new name
		{Field: grapnel.FieldCommand, At: "/commands/*"},
	}
	tests := map[string]struct {
		input, value string
		field        grapnel.Field
		want         string // empty: an error
	}{
		"one place":            {`{"n":1.0,"file":"a"}`, `"b"`, grapnel.FieldPath, `{"n":1.0,"file":"b"}`},
		"only element":         {`{"commands":["ls"]}`, `"pwd"`, grapnel.FieldCommand, `{"commands":["pwd"]}`},
		"two places":           {`{"path":"a","file":"a"}`, `"b"`, grapnel.FieldPath, ``},
		"two elements":         {`{"commands":["a","b"]}`, `"c"`, grapnel.FieldCommand, ``},
		"none":                 {`{"commands":[]}`, `"c"`, grapnel.FieldCommand, ``},
		"the one that counts":  {`{"file":"x","file":"a"}`, `"b"`, grapnel.FieldPath, `{"file":"b"}`},
		"no fact of the field": {`{"url":"a"}`, `"b"`, grapnel.FieldURL, ``},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := &grapnel.Event{Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(tt.input), Facts: facts}}
			got, err := ev.Set(tt.field, json.RawMessage(tt.value))
			if tt.want == "" {
				if err == nil {
					t.Errorf("Set(%s) = %s, want an error", tt.field, got.Tool.Input)
				}
				return
			}
			if err != nil || string(got.Tool.Input) != tt.want {
				t.Fatalf("Set(%s) = %+v, %v, want input %s", tt.field, got, err, tt.want)
			}
			if raw, _ := got.Get(tt.field); string(raw) != tt.value {
				t.Errorf("Get(%s) = %s, want %s", tt.field, raw, tt.value)
			}
		})
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	ev := event(grapnel.ToolBefore)
	ev.Tool.Input = json.RawMessage(`{"key":"sk-1", "list":["sk-2",3]}`)
	want := []grapnel.Field{
		grapnel.FieldPrompt, grapnel.FieldSystem, grapnel.FieldInput, grapnel.FieldText, grapnel.FieldMessage,
		grapnel.FieldRequest, grapnel.FieldResponse,
	}
	if got := ev.TextFields(); !slices.Equal(got, want) {
		t.Errorf("TextFields = %q, want %q", got, want)
	}
	ev.Kind = grapnel.ModelAfter // rules have judged the request on model.before
	if got := ev.TextFields(); slices.Contains(got, grapnel.FieldRequest) || !slices.Contains(got, grapnel.FieldResponse) {
		t.Errorf("at model.after TextFields = %q", got)
	}
	var texts []string
	ev.Texts(grapnel.FieldInput, func(text string) bool { texts = append(texts, text); return true })
	if !slices.Equal(texts, []string{"sk-1", "sk-2"}) {
		t.Errorf("Texts = %q", texts)
	}
	hide := func(text string) string { return strings.ReplaceAll(text, "sk-", "**-") }
	if got, changed := ev.MapText(grapnel.FieldInput, hide); !changed || string(got) != `{"key":"**-1", "list":["**-2",3]}` {
		t.Errorf("MapText = %s, %v", got, changed)
	}
	if got, changed := ev.MapText(grapnel.FieldOutput, hide); changed || got != nil {
		t.Errorf("MapText of an absent field = %s, %v", got, changed)
	}
}

func TestCanonicalName(t *testing.T) {
	t.Parallel()
	if got := (&grapnel.Tool{Name: "mcp_fs_read", MCP: &grapnel.MCP{Server: "fs", Tool: "read"}}).CanonicalName(); got != "mcp__fs__read" {
		t.Errorf("CanonicalName of an MCP tool = %q", got)
	}
	if got := (&grapnel.Tool{Name: "Bash"}).CanonicalName(); got != "Bash" {
		t.Errorf("CanonicalName = %q", got)
	}
}

// The short forms are empty, and do not panic, if the event has no such part.
func TestEventWithoutTool(t *testing.T) {
	t.Parallel()
	var none *grapnel.Event
	for _, ev := range []*grapnel.Event{none, {}, {Tool: &grapnel.Tool{}}} {
		if ev.ToolName() != "" || ev.Command() != "" {
			t.Errorf("%+v: tool %q, command %q", ev, ev.ToolName(), ev.Command())
		}
	}
	ev := &grapnel.Event{Tool: &grapnel.Tool{Name: "bash", Commands: []string{"cd web", "rm x"}}}
	if ev.ToolName() != "bash" || ev.Command() != "cd web\nrm x" {
		t.Errorf("tool %q, command %q", ev.ToolName(), ev.Command())
	}
}
