package policy_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// TestRedactTakenOut: a value that a stronger hook removed or replaced in the input is still in
// the agent's original payload and in other places. It is redacted there too.
func TestRedactTakenOut(t *testing.T) {
	t.Parallel()
	for name, native := range map[string]string{
		"as an object": `{"tool_input":{"api_key":"hunter22x"},"tool_name":"x"}`,
		"as a text":    `{"tool_input":"{\"api_key\":\"hunter22x\"}","tool_name":"x"}`,
	} {
		for _, input := range []string{`{"b":1}`, `{"api_key":"other"}`} {
			r := redact.New([]*policyfile.Redact{{Fields: []string{"/api_key"}}})
			ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(input)}, Native: json.RawMessage(native), Prompt: &grapnel.Prompt{Text: "it is hunter22x"}}
			shown, err := r.Event(ev)
			if err != nil || strings.Contains(string(shownAs(shown)), "hunter22x") {
				t.Errorf("%s, %s: %v, shown is %s", name, input, err, shownAs(shown))
			}
		}
	}
}

// TestRedactNames: secrets in names of members and in numbers are redacted too.
func TestRedactNames(t *testing.T) {
	t.Parallel()
	r := redact.New([]*policyfile.Redact{{Fields: []string{"/api_key", "/pin"}, Patterns: []policyfile.Replacement{{Pattern: "sk-[a-z]{4,}"}}}})
	for name, ev := range map[string]*grapnel.Event{
		"a pattern in a name of the input":  {Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"env":{"sk-abcdefgh":1}}`)}},
		"a pattern in a name of the output": {Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "x", Output: json.RawMessage(`{"sk-abcdefgh":{"sk-abcdefgh":1}}`)}},
		"a pattern in a name of the native": {Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "x"}, Native: json.RawMessage(`{"sk-abcdefgh":1}`)},
		"a value in a name":                 {Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"api_key":"sk-abcdefgh"}`), Output: json.RawMessage(`{"of sk-abcdefgh":1}`)}},
		"a value as a number":               {Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"pin":12345678}`), Output: json.RawMessage(`{"pin":12345678}`)}},
		"a text as a number":                {Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"pin":"12345678"}`), Output: json.RawMessage(`[12345678]`)}},
	} {
		shown, err := r.Event(ev)
		if text := ""; err == nil {
			text = string(shownAs(shown))
			if strings.Contains(text, "sk-abcdefgh") || strings.Contains(text, "12345678") {
				t.Errorf("%s: shown is %s", name, text)
			}
		}
	}
}

// TestRedactNamesRestored: if a program changes values next to a redacted name, the name is
// restored. A change of the name itself is refused.
func TestRedactNamesRestored(t *testing.T) {
	t.Parallel()
	set := func(input string) grapnel.Outcome {
		return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(input)}}
	}
	const input = `{"env":{"a sk-abcdefgh":{"b":"sk-ijklmnop"},"c":1},"command":"ls"}`
	for name, tt := range map[string]struct {
		out   grapnel.Outcome
		want  string
		wrong bool
	}{
		"beside it":  {set(`{"env":{"a [REDACTED]":{"b":"[REDACTED]"},"c":2},"command":"pwd"}`), `{"env":{"a sk-abcdefgh":{"b":"sk-ijklmnop"},"c":2},"command":"pwd"}`, false},
		"inside":     {set(`{"env":{"a [REDACTED]":{"b":"is [REDACTED]"},"c":1},"command":"ls"}`), `{"env":{"a sk-abcdefgh":{"b":"is sk-ijklmnop"},"c":1},"command":"ls"}`, false},
		"taken away": {set(`{"env":{"c":1},"command":"ls"}`), input, true},
		"renamed":    {set(`{"env":{"x":{"b":"[REDACTED]"},"c":1},"command":"ls"}`), input, true},
		"moved":      {set(`{"env":{"c":1},"a [REDACTED]":{"b":"[REDACTED]"},"command":"ls"}`), input, true},
	} {
		e, shown, rec := redacting(t, `{patterns: ['sk-[a-z]{4,}']}`, func(*grapnel.Event) (grapnel.Outcome, error) { return tt.out, nil })
		v := e.Fire(context.Background(), fixture.Call("s", "Bash", input, "1"))
		if len(*shown) == 0 || strings.Contains(string(shownAs((*shown)[0])), "sk-") {
			t.Fatalf("%s: shown is %s", name, shownAs(*shown))
		}
		if got := string(v.Event.Tool.Input); got != tt.want || (rec.Hooks[0].Error != "") != tt.wrong {
			t.Errorf("%s: %s, want %s; recorded %+v", name, got, tt.want, rec.Hooks)
		}
	}
}

// TestRecordsNames: `replace:` also applies to member names in data of others, but not to the
// member names of a Record.
func TestRecordsNames(t *testing.T) {
	t.Parallel()
	k := &redact.Keeping{}
	k.Add(&policyfile.Records{Replace: []policyfile.Replacement{{Pattern: "customer-\\d+|tool|input", With: "***"}}}, grapnel.ScopeUser)
	got, err := k.Edit()([]byte(`{"kind":"tool.after","tool":{"name":"x","input":{"of customer-4711":{"customer-4712":[1]}},"output":{"customer-4713":1}}}`), true)
	const want = `{"kind":"tool.after","tool":{"name":"x","input":{"of ***":{"***":[1]}},"output":{"***":1}}}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
}
