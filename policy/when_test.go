package policy

import (
	"encoding/json"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// FuzzWhenGate: what the gate before an expression says no to, the expression says
// no to as well.
func FuzzWhenGate(f *testing.F) {
	for _, seed := range []string{
		`kind == "tool.before" && len(tool.input) > 3`, `kind == 'prompt.before'`, `session.mode=="plan" and tool.class in ["write", "edit"]`,
		`kind == "x" && prompt == "" || true`, `kind == "x" ? true : true`, `kind == "x" == false`, `kind == "x" or true`, `kind == "x" && nothing`,
		`tool.failed == "x"`, `tool.class == "sh" + "ell"`, `kind == "tool.before" // and`, `kind == "x" && tool.input.a < 1`, `tool.name == "a\x62" && true`,
		`kind == "x" && true | len() > 1`, `let a = kind == "x"; !a`, `if kind == "x" {false} else {true}`, `kind == "x" && none(tool.commands, # == "x")`,
	} {
		f.Add(seed)
	}
	events := []*grapnel.Event{
		{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "ab", Class: grapnel.ClassShell, Input: json.RawMessage(`{"a":1}`), Commands: []string{"ls"}}},
		{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "x"}, Session: grapnel.Session{Mode: "plan"}},
		{Kind: "x"},
	}
	f.Fuzz(func(t *testing.T, source string) {
		gated := newWhen(source)
		if gated.first == nil {
			return
		}
		if _, _, err := compileWhen(source); err != nil {
			return
		}
		for _, ev := range events {
			got, err := gated.holds(&facts{ev: ev}, nil)
			want, wantErr := (&when{source: source}).holds(&facts{ev: ev}, nil)
			if got != want || (err == nil) != (wantErr == nil) {
				t.Errorf("when: %s at %s: %v, %v behind the gate, %v, %v without it", source, ev.Kind, got, err, want, wantErr)
			}
		}
	})
}

// What an expression does not speak of is not made of an event.
func TestWhenNames(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`kind == "x"`: {"kind"},
		`session.mode == "plan" && len(tool.input) > 1`:   {"session.mode", "tool.input"},
		`tool?.output == "" || tool["name"] == tool.name`: {"tool.name", "tool.output"},
		`keys(tool) == []`:                                  {"tool"},
		`any(tool.commands, # matches agent)`:               {"agent", "tool.commands"},
		`let mode = session.mode; mode == "a" && mode > ""`: {"session.mode"},
	} {
		_, names, err := compileWhen(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		got := map[string]bool{}
		for _, n := range names {
			got[n.name] = true
		}
		for _, name := range want {
			if !got[name] {
				t.Errorf("%s: %s is missing from %v", source, name, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: names %v, want %q", source, got, want)
		}
	}
	if _, names, err := compileWhen(`$env.kind == "x" && len($env.tool.name) == 0`); err != nil || len(names) != len(allWhenNames()) {
		t.Errorf("$env: %d names, %v, want all", len(names), err)
	}
}
