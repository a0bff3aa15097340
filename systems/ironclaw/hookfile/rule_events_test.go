package hookfile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// onePointEach has an event for each of IronClaw's points, with the text that rules see. The other
// data of the event must not match.
var onePointEach = []struct {
	point, text string
	ev          grapnel.Event
}{
	{"beforeInbound", "hello", grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}}},
	{"beforeToolCall", `{"a":1.0,"b":"<x>"}`, grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "hello", Input: json.RawMessage(`{ "b": "<x>", "a": 1.0 }`)}}},
	{"beforeOutbound", "hello", grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Channel: "web", Content: "hello"}}},
	{"transformResponse", "hello", grapnel.Event{Kind: grapnel.ResponseBefore, Model: &grapnel.Model{Response: json.RawMessage(`"hello"`)}}},
	{"onSessionStart", "s1", grapnel.Event{Kind: grapnel.SessionStart}},
	{"onSessionEnd", "s1", grapnel.Event{Kind: grapnel.SessionEnd}},
}

// A rule sees one text of an event, and nothing else of it: the guard matches the whole text.
//
// Proves: IC-01, IC-03, IC-48, IC-55
func TestIronClawPrimaryText(t *testing.T) {
	t.Parallel()
	for _, tt := range onePointEach {
		ev := tt.ev
		ev.Session = grapnel.Session{ID: "s1", User: "ada", Channel: "chat"}
		for guard, want := range map[string]grapnel.Decision{"^" + tt.text + "$": grapnel.Block, "ada|chat|web": grapnel.None} {
			bundle, err := json.Marshal([]map[string]any{{"name": "r", "points": []string{tt.point}, "when_regex": guard, "reject_reason": "seen"}})
			if err != nil {
				t.Fatal(err)
			}
			set := loadIronClaw(workspace, string(bundle))
			if len(set.Errors) > 0 {
				t.Fatal(set.Errors)
			}
			_, rec := fireRules(t, set, ev)
			got := grapnel.None
			if answer := rec.Hooks[0].Outcome; answer != nil { // at a session event it has no effect
				got = answer.Decision
			}
			if got != want {
				t.Errorf("%s, guard %s: the rule answers %s, want %s", tt.point, guard, got, want)
			}
		}
	}
}

// Rules whose changes cancel each other, and a rule that replaces a text by itself, change nothing.
//
// Proves: IC-18, IC-51
func TestIronClawNoNetChange(t *testing.T) {
	t.Parallel()
	for name, bundle := range map[string]string{
		"same text":      `[{"name": "a", "points": ["beforeInbound", "beforeToolCall"], "replacements": [{"pattern": "hello", "replacement": "hello"}]}]`,
		"there and back": `[{"name": "a", "points": ["beforeInbound", "beforeToolCall"], "replacements": [{"pattern": "l", "replacement": "1"}, {"pattern": "1", "replacement": "l"}]}]`,
		"two rules": `[{"name": "a", "points": ["beforeInbound", "beforeToolCall"], "replacements": [{"pattern": "l", "replacement": "1"}]},
			{"name": "b", "points": ["beforeInbound", "beforeToolCall"], "replacements": [{"pattern": "1", "replacement": "l"}]}]`,
	} {
		set := loadIronClaw(workspace, bundle)
		for _, ev := range []grapnel.Event{
			{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}},
			{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "t", Input: json.RawMessage(`{"b": "hello", "a": null}`)}},
		} {
			if v, _ := fireRules(t, set, ev); v.Decision != grapnel.None || len(v.Changes) > 0 {
				t.Errorf("%s, %s: %s, changes %s", name, ev.Kind, v.Decision, v.Changes)
			}
		}
	}
}

// A pattern that takes exponential time with backtracking ends at once: this test would not end.
// A pattern that needs too much memory is an error.
//
// Proves: IC-54
func TestIronClawLinearTime(t *testing.T) {
	t.Parallel()
	set := loadIronClaw(workspace, `[{"name": "r", "points": ["beforeInbound"], "when_regex": "^(a+)+$", "reject_reason": "only a"}]`)
	many := strings.Repeat("a", 1<<16)
	for text, want := range map[string]grapnel.Decision{many: grapnel.Block, many + "b": grapnel.None} {
		if v, _ := fireRules(t, set, grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}}); v.Decision != want {
			t.Errorf("%d bytes: %s, want %s", len(text), v.Decision, want)
		}
	}
	large := loadIronClaw(workspace, fmt.Sprintf(`[{"name": "r", "points": ["beforeInbound"], "when_regex": %q, "reject_reason": "no"}]`, "((a{100}){100}){100}"))
	if len(large.Errors) != 1 || len(large.Specs) != 0 {
		t.Errorf("a pattern that is too large: %v, %d hooks", large.Errors, len(large.Specs))
	}
}

func fireRules(t *testing.T, set ironclaw.Set, ev grapnel.Event) (grapnel.Verdict, grapnel.Record) {
	t.Helper()
	var rec grapnel.Record
	engine := engineOf(t, set.Specs)
	remove := engine.AddObserver(grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = *r }))
	defer remove()
	v := engine.Fire(t.Context(), &ev)
	return v, rec
}

// Text around an unchanged prompt is context for an agent that cannot change prompts. A replacement
// stays a block there, because the model must not see the original.
func TestIronClawPromptOfAgentThatAddsOnly(t *testing.T) {
	t.Parallel()
	const payload = `{"hook_event_name":"UserPromptSubmit","session_id":"s1","prompt":"hello"}`
	for name, tt := range map[string]struct {
		rule string
		says string // part of the reply
		not  string
	}{
		"prepend":             {`"prepend": "Be brief.\n"`, `"additionalContext":"Be brief."`, `"block"`},
		"append":              {`"append": "\n\nSay why."`, `"additionalContext":"Say why."`, `"block"`},
		"both":                {`"prepend": "Be brief. ", "append": " Say why."`, "Be brief.", `"block"`},
		"only white space":    {`"prepend": "  "`, "", "additionalContext"},
		"no such replacement": {`"replacements": [{"pattern": "bye", "replacement": "x"}], "prepend": "Be brief."`, "Be brief.", `"block"`},
		"replacement":         {`"replacements": [{"pattern": "hello", "replacement": "x"}], "prepend": "Be brief."`, `"decision":"block"`, "additionalContext"},
	} {
		set := loadIronClaw(workspace, `[{"name": "r", "points": ["beforeInbound"], `+tt.rule+`}]`)
		if len(set.Errors) > 0 {
			t.Fatalf("%s: %v", name, set.Errors)
		}
		got := string(dialect.Answer(t.Context(), engineOf(t, set.Specs), dialect.ClaudeCode(), dialect.Input{Payload: []byte(payload)}).Stdout)
		if !strings.Contains(got, tt.says) || strings.Contains(got, tt.not) {
			t.Errorf("%s: the reply is %s, want %q and not %q", name, got, tt.says, tt.not)
		}
		v, _ := fireRules(t, set, grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}})
		if len(v.Changes) == 0 || len(v.Context) > 0 {
			t.Errorf("%s: IronClaw itself changes the prompt; the verdict is %+v", name, v)
		}
	}
}
