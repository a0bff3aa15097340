package match

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// FuzzWhenGate: if the gate before an expression is false, the expression is false too.
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
		if _, err := CompileExpression(KeyWhen, source); err != nil {
			return
		}
		for _, ev := range events {
			got, err := gated.holds(&Facts{Event: ev}, nil)
			want, wantErr := (&when{Expression: Expression{Key: KeyWhen, Source: source}}).holds(&Facts{Event: ev}, nil)
			if got != want || (err == nil) != (wantErr == nil) {
				t.Errorf("when: %s at %s: %v, %v behind the gate, %v, %v without it", source, ev.Kind, got, err, want, wantErr)
			}
		}
	})
}

// Values that an expression does not reach are not computed, and each name is computed once.
func TestWhenNames(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`kind == "x"`:                                       {"kind"},
		`kind == "x" && len(tool.input) > 1`:                {"kind"},
		`session.mode == "" && len(tool.input) > 1`:         {"session.mode", "tool.input"},
		`tool?.output == "" && tool["name"] == tool.output`: {"tool.output", "tool.name"},
		`len(keys(tool)) > 9`:                               {"tool"},
		`any(["a", "b"], # matches agent) && agent == ""`:   {"agent"},
		`let mode = session.mode; mode == "a" || mode > ""`: {"session.mode"},
	} {
		program, err := CompileExpression(KeyWhen, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		var got []string
		_, err = program.Run(func(name int) any {
			got = append(got, whenLanguage()[name].Name)
			return whenValue(name, &Facts{Event: &grapnel.Event{}}, nil)
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: asked for %q, %v, want %q", source, got, err, want)
		}
	}
}

// An object as a whole has only the members that are cheap to compute.
func TestWhenObjects(t *testing.T) {
	t.Parallel()
	ev := &grapnel.Event{Kind: "x", Tool: &grapnel.Tool{Name: "ab", Input: json.RawMessage(`{"a":1}`)}, Session: grapnel.Session{Mode: "plan"}}
	for source, want := range map[string]bool{
		`get(tool, "name") == "ab" and session["mo" + "de"] == "plan"`:           true,
		`let t = tool; t.input == nil && t.output == nil && t.class == ""`:       true,
		`"command" in tool && "input" not in tool`:                               true,
		`(tool).input.a == 1 && tool?.["input"].a == 1`:                          true,
		`verdict.decision == "none" and keys(verdict) == ["decision", "reason"]`: true,
	} {
		w := newWhen(source)
		if got, err := w.holds(&Facts{Event: ev}, nil); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", source, got, err, want)
		}
	}
}

// IC-02: an expression can use the conversation, the job and the sender of an event.
func TestWhenOrigin(t *testing.T) {
	t.Parallel()
	session := grapnel.Session{User: "u1", Thread: "t1", Job: "job:7"}
	for source, ev := range map[string]*grapnel.Event{
		`session.thread == "t1" && session.job == "job:7" && sender == "u1"`: {Kind: grapnel.ToolBefore, Session: session},
		`sender == "u2" && session.user == "u1"`:                             {Kind: grapnel.MessageReceived, Session: session, Message: &grapnel.Message{Sender: "u2"}},
		`sender == "" && session.job == "" && session.thread == ""`:          {Kind: grapnel.ToolBefore},
	} {
		w := newWhen(source)
		if got, err := w.holds(&Facts{Event: ev}, nil); err != nil || !got {
			t.Errorf("%s: %v, %v, want true", source, got, err)
		}
	}
}

func BenchmarkWhen(b *testing.B) {
	const source = `session.mode == "plan" && tool.class in ["write", "edit"] && len(tool.input) > 3`
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := CompileExpression(KeyWhen, source); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("run", func(b *testing.B) {
		b.ReportAllocs()
		w := &when{Expression: Expression{Key: KeyWhen, Source: source}}
		f := &Facts{Event: &grapnel.Event{Session: grapnel.Session{Mode: "plan"}, Tool: &grapnel.Tool{Class: grapnel.ClassRead}}}
		for b.Loop() {
			if _, err := w.holds(f, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
