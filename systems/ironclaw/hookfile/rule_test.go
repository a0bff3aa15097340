package hookfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	ironclaw "github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

func bundleHook(t testing.TB, rule string) grapnel.Hook {
	t.Helper()
	var r ironclaw.Rule
	if err := json.Unmarshal([]byte(rule), &r); err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	hook, err := r.Hook()
	if err != nil {
		t.Fatalf("%s: %v", rule, err)
	}
	return hook
}

func TestIronClawRule(t *testing.T) {
	t.Parallel()
	prompt := func(text string) *grapnel.Event {
		return &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: text}}
	}
	call := func(input string) *grapnel.Event {
		return &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(input)}}
	}
	response := func(raw string) *grapnel.Event {
		return &grapnel.Event{Kind: grapnel.ResponseBefore, Model: &grapnel.Model{Response: json.RawMessage(raw)}}
	}
	session := &grapnel.Event{Kind: grapnel.SessionStart, Session: grapnel.Session{ID: "s-1"}}
	const abc = `"replacements":[{"pattern":"(a)(?P<two>b)(c)?","replacement":`
	for name, tt := range map[string]struct {
		rule string
		ev   *grapnel.Event
		want string // the Outcome as JSON
		err  string
	}{
		"replace":             {`{"replacements":[{"pattern":"secret","replacement":"***"}]}`, prompt("a secret, a secret"), `{"set":{"prompt":"a ***, a ***"}}`, ""},
		"one after the other": {`{"replacements":[{"pattern":"a","replacement":"b"},{"pattern":"b+","replacement":"c"}]}`, prompt("ab"), `{"set":{"prompt":"c"}}`, ""},
		"replace, prepend, append": {
			`{"replacements":[{"pattern":"secret","replacement":"safe"}],"prepend":"[","append":"]"}`, prompt("secret"), `{"set":{"prompt":"[safe]"}}`, "",
		},
		"prepend is not replaced": {`{"replacements":[{"pattern":"x","replacement":"y"}],"prepend":"x"}`, prompt("a"), `{"set":{"prompt":"xa"}}`, ""},
		"no change":               {`{"replacements":[{"pattern":"zzz","replacement":"y"}]}`, prompt("hello"), `{}`, ""},
		"changed back":            {`{"replacements":[{"pattern":"a","replacement":"b"},{"pattern":"b","replacement":"a"}]}`, prompt("a"), `{}`, ""},
		"guard":                   {`{"when_regex":"for","reject_reason":"no"}`, prompt("a forbidden word"), `{"decision":"block","reason":"no"}`, ""},
		"guard does not match":    {`{"when_regex":"forbidden","reject_reason":"no","append":"!"}`, prompt("fine"), `{}`, ""},
		"guard looks before":      {`{"when_regex":"^a","prepend":"a"}`, prompt("b"), `{}`, ""},
		"reject always":           {`{"reject_reason":"closed"}`, prompt(""), `{"decision":"block","reason":"closed"}`, ""},
		"reject beats rewriting":  {`{"reject_reason":"no","append":"!"}`, prompt("a"), `{"decision":"block","reason":"no"}`, ""},
		"reject without a reason": {`{"reject_reason":""}`, prompt("a"), `{"decision":"block"}`, ""},
		"null is absent":          {`{"when_regex":null,"reject_reason":null,"append":"!"}`, prompt("a"), `{"set":{"prompt":"a!"}}`, ""},
		"guard without action":    {`{"when_regex":"a"}`, prompt("a"), `{}`, ""},
		"fields of a bundle":      {`{"name":"r","points":["beforeInbound"],"priority":3,"timeout_ms":9,"append":"!"}`, prompt("a"), `{"set":{"prompt":"a!"}}`, ""},

		"groups":            {`{"replacements":[{"pattern":"(\\w+)@(\\w+)","replacement":"$2 at ${1}"}]}`, prompt("user@host"), `{"set":{"prompt":"host at user"}}`, ""},
		"name":              {`{` + abc + `"$two-${two}"}]}`, prompt("ab"), `{"set":{"prompt":"b-b"}}`, ""},
		"whole match":       {`{` + abc + `"<$0>"}]}`, prompt("ab"), `{"set":{"prompt":"<ab>"}}`, ""},
		"dollar":            {`{` + abc + `"$$1"}]}`, prompt("ab"), `{"set":{"prompt":"$1"}}`, ""},
		"dollars alone":     {`{` + abc + `"$-${1$"}]}`, prompt("ab"), `{"set":{"prompt":"$-${1$"}}`, ""},
		"longest name":      {`{` + abc + `"$1x ${1}x"}]}`, prompt("ab"), `{"set":{"prompt":" ax"}}`, ""},
		"name in ASCII":     {`{` + abc + `"$1é"}]}`, prompt("ab"), `{"set":{"prompt":"aé"}}`, ""},
		"no such group":     {`{` + abc + `"($9$none${a-b}${}${-1})"}]}`, prompt("ab"), `{"set":{"prompt":"()"}}`, ""},
		"group not matched": {`{` + abc + `"[$3]"}]}`, prompt("ab"), `{"set":{"prompt":"[]"}}`, ""},
		"empty matches":     {`{"replacements":[{"pattern":"b*","replacement":"-"}]}`, prompt("abc"), `{"set":{"prompt":"-a-c-"}}`, ""},

		"message":           {`{"append":"!"}`, &grapnel.Event{Kind: grapnel.MessageBefore, Message: &grapnel.Message{Content: "hi"}}, `{"set":{"content":"hi!"}}`, ""},
		"response":          {`{"append":"!"}`, response(`"hi"`), `{"set":{"response":"hi!"}}`, ""},
		"response as JSON":  {`{"replacements":[{"pattern":"a","replacement":"b"}]}`, response(`{"text": "a"}`), `{"set":{"response":{"text":"b"}}}`, ""},
		"session, rejected": {`{"when_regex":"s-1","reject_reason":"no"}`, session, `{"decision":"block","reason":"no"}`, ""},
		"session is fixed":  {`{"append":"!"}`, session, `{}`, ""},
		"other events":      {`{"reject_reason":"no"}`, &grapnel.Event{Kind: grapnel.ToolAfter, Tool: &grapnel.Tool{Output: json.RawMessage(`"a"`)}}, `{}`, ""},

		"sorted":           {`{"when_regex":"^\\{\"a\":\\[1,\\{\"x\":null,\"y\":true\\}\\],\"b\":\"\"\\}$","reject_reason":"no"}`, call(`{"b": "", "a": [1, {"y": true, "x": null}]}`), `{"decision":"block","reason":"no"}`, ""},
		"not escaped":      {`{"when_regex":"a && b <c> é /","reject_reason":"no"}`, call(`{"command":"a \u0026\u0026 b \u003cc\u003e \u00e9 \/"}`), `{"decision":"block","reason":"no"}`, ""},
		"line separators":  {"{\"when_regex\":\"^.\\\"a\\\":\\\"\u2028\\\".$\",\"reject_reason\":\"no\"}", call(`{"a":"\u2028"}`), `{"decision":"block","reason":"no"}`, ""},
		"escaped":          {`{"when_regex":"^.\"a\":\"\\\\n\\\\t\\\\u0001\\\\\"\\\\\\\\\".$","reject_reason":"no"}`, call(`{"a":"\n\t\u0001\"\\"}`), `{"decision":"block","reason":"no"}`, ""},
		"numbers stay":     {`{"replacements":[{"pattern":"ls","replacement":"pwd"}]}`, call(`{"command":"ls","id":9007199254740993,"f":1.50}`), `{"set":{"tool.input":{"command":"pwd","f":1.50,"id":9007199254740993}}}`, ""},
		"order is nothing": {`{"replacements":[{"pattern":"zzz","replacement":"y"}]}`, call(`{"b": 1, "a": 2}`), `{}`, ""},
		"any JSON":         {`{"prepend":"[","append":"]"}`, call(`{"a":1}`), `{"set":{"tool.input":[{"a":1}]}}`, ""},
		"no input":         {`{"when_regex":"^null$","reject_reason":"no"}`, call(""), `{"decision":"block","reason":"no"}`, ""},
		"not JSON":         {`{"append":"!"}`, call(`{"a":1}`), `{}`, `tool.input is no longer JSON: {"a":1}!`},
		"never was JSON":   {`{"append":"!"}`, call(`{"a":1} x`), `{}`, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.ev.Tool != nil && string(tt.ev.Tool.Input) == "" {
				tt.ev.Tool.Input = nil
			}
			out, err := bundleHook(t, tt.rule).Handle(t.Context(), tt.ev)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %q", tt.rule, err, tt.err)
			}
			raw, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(numbers(t, tt.want), numbers(t, string(raw))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.rule, diff)
			}
		})
	}
}

// numbers decodes JSON and keeps numbers as text.
func numbers(t *testing.T, raw string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// A pattern that Go cannot run, or would run differently, is refused.
func TestIronClawBadPatterns(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"(": "missing closing", "(?x) a": "invalid or unsupported", "a(?=b)": "invalid or unsupported", `\Z`: "invalid escape",
		"[a-z&&[^b]]": "&&", "[a-z--b]": "--", "[a~~b]": "~~", "[[a-z]&&b]": "[", "[^]&&a]": "&&", "x[[:alpha:]--a]": "--", `[\]&&]`: "&&",
		`\b{start}x`: `\b{`, `a\B{end-half}`: `\B{`, `\<x`: `\<`, `x\>`: `\>`, "a{,3}": "{,", "(?!a)": "look-around", "(?<=a)b": "look-around",
	} {
		for _, rule := range []ironclaw.Rule{
			{WhenRegex: pattern},
			{Replacements: []ironclaw.Replacement{{Pattern: "ok"}, {Pattern: pattern}}},
		} {
			if hook, err := rule.Hook(); err == nil || hook != nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Hook of %q: %v, %v, want an error with %q", pattern, hook, err, want)
			}
		}
	}
	for _, pattern := range []string{`\[&&]`, "[&]&[&]", "[[:alpha:]_-]", "[]a]", "[^]a]", "[a-]", `[\[]`, "a&&b", "a--b", "[", "", `\\b{`, `\{,`, `\\<`, "<a>", "[{,]", "a{2,}"} {
		_, err := ironclaw.Rule{WhenRegex: pattern}.Hook()
		if (err != nil) != (pattern == "[") {
			t.Errorf("Hook of %q: %v", pattern, err)
		}
	}
}

// In an engine, a change that results in invalid JSON is dropped and recorded, and the next
// hooks get the unchanged input.
func TestIronClawIllegalChange(t *testing.T) {
	t.Parallel()
	var rec grapnel.Record
	spec := func(name, rule string) grapnel.Spec {
		return grapnel.Spec{Name: name, On: []grapnel.Kind{grapnel.ToolBefore}, Phase: grapnel.PhaseRewrite, OnError: grapnel.OnErrorOpen, Hook: bundleHook(t, rule)}
	}
	engine, err := grapnel.New([]grapnel.Spec{
		spec("bad", `{"append":"!"}`),
		spec("good", `{"replacements":[{"pattern":"ls","replacement":"pwd"}]}`),
	}, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = *r })}})
	if err != nil {
		t.Fatal(err)
	}
	ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(`{"command":"ls"}`)}}
	v := engine.Fire(t.Context(), ev)
	if got := string(v.Changes[grapnel.FieldInput]); v.Decision != grapnel.None || got != `{"command":"pwd"}` {
		t.Errorf("Verdict = %v, input %s", v.Decision, got)
	}
	if h := rec.Hooks[0]; h.Name != "bad" || !h.FailOpen || !strings.Contains(h.Error, grapnel.ErrIllegal.Error()) {
		t.Errorf("Record of the bad rule = %+v", h)
	}
}

// The result of a rewrite is a string or valid JSON. A rule that changes nothing accepts any
// spelling of the input.
func FuzzIronClawRule(f *testing.F) {
	f.Add(`{"b":[1.50,"<é\u2028>"],"a":null}`, "a", "$0$1${b}$$", false)
	f.Add(`plain text`, `(\w)|x*`, "[$1", true)
	f.Fuzz(func(t *testing.T, input, pattern, replacement string, prompt bool) {
		rule := ironclaw.Rule{Replacements: []ironclaw.Replacement{{Pattern: pattern, Replacement: replacement}}}
		hook, err := rule.Hook()
		if err != nil || len(input) > 1000 || len(pattern)+len(replacement) > 100 {
			return
		}
		ev := &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: input}}
		if !prompt {
			if !json.Valid([]byte(input)) {
				return
			}
			ev = &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "shell", Input: json.RawMessage(input)}}
		}
		out, err := hook.Handle(t.Context(), ev)
		if err != nil && (prompt || !errors.Is(err, grapnel.ErrIllegal)) {
			t.Fatalf("%q -> %q on %q: %v", pattern, replacement, input, err)
		}
		for field, value := range out.Set {
			if !json.Valid(value) {
				t.Errorf("%q -> %q on %q sets %s to %s", pattern, replacement, input, field, value)
			}
		}
		same, err := ironclaw.Rule{}.Hook()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := same.Handle(t.Context(), ev); err != nil || out.Set != nil {
			t.Errorf("the empty rule makes %v of %q, %v", out.Set, input, err)
		}
	})
}
