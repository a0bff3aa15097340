package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// redacting returns an engine with a program of a project, the events that the program got, and
// the last Record.
func redacting(t fixture.T, redact string, answer func(*grapnel.Event) (grapnel.Outcome, error)) (*grapnel.Engine, *[]*grapnel.Event, *grapnel.Record) {
	t.Helper()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nredact: "+redact+"\nhooks:\n  - {name: x, on: [tool.before, tool.after, prompt.before], run: x}\n"))
	if len(errs) > 0 {
		t.Fatalf("%s: %v", redact, errs)
	}
	var shown []*grapnel.Event
	specs, err := policy.Build(p, grapnel.Source{Name: "p.yaml", File: "p.yaml", Scope: grapnel.ScopeProject}, func(policyfile.Command) grapnel.Hook {
		return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			shown = append(shown, ev)
			return answer(ev)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	var rec grapnel.Record
	engine, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = *r })}})
	if err != nil {
		t.Fatal(err)
	}
	return engine, &shown, &rec
}

func TestRedactRestores(t *testing.T) {
	t.Parallel()
	const redact = `{fields: [/api_key, "/headers/*/Authorization", /deep, "/list/*/pin"], patterns: ['sk-[a-z0-9]+']}`
	set := func(input string) grapnel.Outcome {
		return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(input)}}
	}
	patch := func(field grapnel.Field, value string) grapnel.Outcome {
		return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{field: json.RawMessage(value)}}
	}
	for name, tt := range map[string]struct {
		input string
		shown string
		out   grapnel.Outcome
		want  string // the call that runs
		wrong bool
	}{
		"no opinion":          {`{"api_key":"hunter22","a":1}`, `{"api_key":"[REDACTED]","a":1}`, grapnel.Outcome{}, `{"api_key":"hunter22","a":1}`, false},
		"no secret":           {`{"a":1}`, `{"a":1}`, set(`{"a":2}`), `{"a":2}`, false},
		"another member":      {`{"api_key":"hunter22","a":1}`, `{"api_key":"[REDACTED]","a":1}`, set(`{"api_key":"[REDACTED]","a":2}`), `{"api_key":"hunter22","a":2}`, false},
		"by a patch":          {`{"api_key":"hunter22","a":1.50}`, `{"api_key":"[REDACTED]","a":1.50}`, patch(grapnel.FieldInput, `{"b":2}`), `{"api_key":"hunter22","a":1.50,"b":2}`, false},
		"replaced":            {`{"api_key":"hunter22","a":1}`, `{"api_key":"[REDACTED]","a":1}`, set(`{"api_key":"mine","a":2}`), `{"api_key":"hunter22","a":2}`, true},
		"patched":             {`{"api_key":"hunter22"}`, `{"api_key":"[REDACTED]"}`, patch(grapnel.FieldInput, `{"api_key":{"x":1}}`), `{"api_key":"hunter22"}`, true},
		"taken away":          {`{"api_key":"hunter22","a":1}`, `{"api_key":"[REDACTED]","a":1}`, set(`{"a":2}`), `{"api_key":"hunter22","a":1}`, true},
		"twice":               {`{"api_key":"hunter22"}`, `{"api_key":"[REDACTED]"}`, set(`{"api_key":"[REDACTED]","api_key":"mine"}`), `{"api_key":"hunter22"}`, true},
		"in other letters":    {`{"api_key":"hunter22"}`, `{"api_key":"[REDACTED]"}`, set(`{"api_key":"[REDACTED]","API_KEY":"mine"}`), `{"api_key":"hunter22"}`, true},
		"the sign for kelvin": {`{"api_\u212aey":"hunter22"}`, "{\"api_\u212aey\":\"[REDACTED]\"}", grapnel.Outcome{}, `{"api_\u212aey":"hunter22"}`, false},
		"put in anew":         {`{"a":1}`, `{"a":1}`, grapnel.Outcome{}, `{"a":1}`, false},
		"moved elsewhere":     {`{"api_key":"hunter22","url":"x"}`, `{"api_key":"[REDACTED]","url":"x"}`, set(`{"api_key":"[REDACTED]","url":"[REDACTED]"}`), `{"api_key":"hunter22","url":"[REDACTED]"}`, false},
		"no object any more":  {`{"api_key":"hunter22"}`, `{"api_key":"[REDACTED]"}`, set(`["x"]`), `{"api_key":"hunter22"}`, true},
		"below a star":        {`{"headers":[{"Authorization":"Basic abc"},{"Authorization":"Basic xyz","n":1}]}`, `{"headers":[{"Authorization":"[REDACTED]"},{"Authorization":"[REDACTED]","n":1}]}`, set(`{"headers":[{"Authorization":"[REDACTED]"},{"Authorization":"[REDACTED]","n":2}]}`), `{"headers":[{"Authorization":"Basic abc"},{"Authorization":"Basic xyz","n":2}]}`, false},
		"one of them gone":    {`{"headers":[{"Authorization":"Basic abc"},{"Authorization":"Basic xyz"}]}`, `{"headers":[{"Authorization":"[REDACTED]"},{"Authorization":"[REDACTED]"}]}`, set(`{"headers":[{"Authorization":"[REDACTED]"}]}`), `{"headers":[{"Authorization":"Basic abc"},{"Authorization":"Basic xyz"}]}`, true},
		"one more of them":    {`{"headers":[{"Authorization":"Basic abc"}]}`, `{"headers":[{"Authorization":"[REDACTED]"}]}`, set(`{"headers":[{"Authorization":"[REDACTED]"},{"Authorization":"x"}]}`), `{"headers":[{"Authorization":"Basic abc"}]}`, true},
		"an object, a number": {`{"deep":{"x":["s3cret",1]},"list":[{"pin":1234}]}`, `{"deep":"[REDACTED]","list":[{"pin":"[REDACTED]"}]}`, set(`{"deep":"[REDACTED]","list":[{"pin":"[REDACTED]"}],"a":1}`), `{"deep":{"x":["s3cret",1]},"list":[{"pin":1234}],"a":1}`, false},
		"also in the command": {`{"api_key":"hunter22","command":"curl -H hunter22 x"}`, `{"api_key":"[REDACTED]","command":"curl -H [REDACTED] x"}`, patch(grapnel.FieldCommand, `"curl -s -H [REDACTED] x"`), `{"api_key":"hunter22","command":"curl -s -H hunter22 x"}`, false},
		"by a pattern":        {`{"command":"a sk-one b sk-two c"}`, `{"command":"a [REDACTED] b [REDACTED] c"}`, patch(grapnel.FieldCommand, `"z [REDACTED] y [REDACTED]"`), `{"command":"z sk-one y sk-two"}`, false},
		"one of two is gone":  {`{"command":"a sk-one b sk-two c"}`, `{"command":"a [REDACTED] b [REDACTED] c"}`, patch(grapnel.FieldCommand, `"z [REDACTED]"`), `{"command":"a sk-one b sk-two c"}`, true},
		"it says so already":  {`{"command":"echo [REDACTED] sk-one"}`, `{"command":"echo [REDACTED] [REDACTED]"}`, patch(grapnel.FieldCommand, `"echo [REDACTED] [REDACTED];"`), `{"command":"echo [REDACTED] sk-one;"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine, shown, rec := redacting(t, redact, func(*grapnel.Event) (grapnel.Outcome, error) { return tt.out, nil })
			ev := fixture.Call("s", "Bash", tt.input, "1")
			ev.Native = json.RawMessage(`{"tool_input":` + tt.input + `}`)
			v := engine.Fire(context.Background(), ev)
			if got := string((*shown)[0].Tool.Input); got != tt.shown {
				t.Errorf("it is shown %s, want %s", got, tt.shown)
			}
			if got, _ := v.Event.Get(grapnel.FieldInput); string(got) != tt.want {
				t.Errorf("what runs is %s, want %s", got, tt.want)
			}
			if got := rec.Hooks[0].Error != ""; got != tt.wrong {
				t.Errorf("the error is %q, want one: %v", rec.Hooks[0].Error, tt.wrong)
			}
			if string(ev.Tool.Input) != tt.input {
				t.Errorf("the event itself became %s", ev.Tool.Input)
			}
		})
	}
}

// TestRedactEverywhere: no text in any part of the event contains a secret, and secrets in
// other fields are restored too.
func TestRedactEverywhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-\"quoted\"\n"
	quoted, _ := json.Marshal(secret)
	inText, _ := json.Marshal(`{"echo":` + string(quoted) + `}`)
	ev := (&grapnel.Event{
		Kind: grapnel.ToolAfter, Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "s"},
		Tool:   &grapnel.Tool{Name: "x", Input: json.RawMessage(`{"key":` + string(quoted) + `}`), Output: inText, Content: "it is " + secret},
		Calls:  []grapnel.Tool{{Name: "y", Input: json.RawMessage(`{"key":"another one"}`)}},
		Prompt: &grapnel.Prompt{Text: secret, System: "another one"},
		Native: json.RawMessage(`{"tool_input":{"key":` + string(quoted) + `}}`),
		Terms:  &grapnel.Terms{Budget: 3},
	}).WithVerdict(&grapnel.Verdict{Reasons: []grapnel.Reason{{Text: secret}}, Changes: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"key":"a third"}`)}})
	r := redact.New([]*policyfile.Redact{{Fields: []string{"/key"}}})
	shown, err := r.Event(ev)
	if err != nil {
		t.Fatal(err)
	}
	text := string(shownAs(wire.Of(shown)))
	for _, part := range []string{"s3cret", "another one", "a third"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is shown: %s", part, text)
		}
	}
	if shown.Terms.Budget != 3 || shown.Verdict() == nil || shown.Tool.Content != "it is [REDACTED]" {
		t.Errorf("lost is too much: %s", text)
	}
	if same, err := r.Event(&grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "hello"}}); err != nil || same.Prompt.Text != "hello" {
		t.Errorf("an event without secrets: %v, %v", same, err)
	}

	engine, seen, _ := redacting(t, "{patterns: ['sk-[a-z]+']}", func(ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Replace(grapnel.FieldPrompt, strings.ToUpper(ev.Prompt.Text[:4])+ev.Prompt.Text[4:])
	})
	v := engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "use sk-abc now"}})
	if v.Event.Prompt.Text != "USE sk-abc now" || (*seen)[0].Prompt.Text != "use [REDACTED] now" {
		t.Errorf("the prompt is %q, shown was %q", v.Event.Prompt.Text, (*seen)[0].Prompt.Text)
	}
}

// TestRedactDeep: an event that cannot be redacted is not shown.
func TestRedactDeep(t *testing.T) {
	t.Parallel()
	engine, shown, rec := redacting(t, "{fields: [/key]}", func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
	deep := strings.Repeat(`{"a":`, 2*redact.MaxDepth) + `"x"` + strings.Repeat("}", 2*redact.MaxDepth)
	engine.Fire(context.Background(), fixture.Call("s", "Bash", `{"key":"hunter22","b":`+deep+`}`, "1"))
	if len(*shown) > 0 || !strings.Contains(rec.Hooks[0].Error, "nested deeper than 128") {
		t.Errorf("it was shown %d events, recorded is %+v", len(*shown), rec.Hooks)
	}
}

// TestRedactTrust checks which hooks get redacted events.
func TestRedactTrust(t *testing.T) {
	t.Parallel()
	r := redact.New([]*policyfile.Redact{{Fields: []string{"/key"}}})
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		for phase := grapnel.PhaseStep; phase <= grapnel.PhaseObserve; phase++ {
			specs := []grapnel.Spec{{Name: "x", Phase: phase, Source: grapnel.Source{Scope: scope}, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) {})}}
			r.Guard(specs, policy.SeesRedacted)
			_, got := specs[0].Hook.(*redact.Hook)
			want := (scope == grapnel.ScopeProject || scope == grapnel.ScopePlugin) && phase != grapnel.PhaseRule
			if got != want {
				t.Errorf("%v hook of the phase %v: redacted is %v, want %v", scope, phase, got, want)
			}
		}
	}
}

// TestRedactProperty: for any input and any answer of a hook, its program gets no secret in any
// format, and the call that runs has each secret in its place.
func TestRedactProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := 0
		secret := func() string {
			n++
			text := fmt.Sprintf("SECRET%d%s", n, rapid.SampledFrom([]string{"", `"`, "\n", "é", "</", "\\", "[REDACTED]"}).Draw(t, "tail"))
			return text
		}
		var value func(depth int) any
		value = func(depth int) any {
			switch k := rapid.IntRange(0, 6).Draw(t, "kind"); {
			case k == 0:
				return rapid.IntRange(0, 9).Draw(t, "number")
			case k <= 3 || depth > 3:
				return rapid.SampledFrom([]string{"x", "curl", "[REDACTED]", ""}).Draw(t, "text")
			case k == 4:
				return []any{value(depth + 1), value(depth + 1)}
			}
			m := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				m[rapid.SampledFrom([]string{"a", "b", "command", "list"}).Draw(t, "name")] = value(depth + 1)
			}
			if rapid.Bool().Draw(t, "secret") {
				m["token"] = secret()
			}
			return m
		}
		input := map[string]any{"command": "curl x", "token": secret(), "in": value(0)}
		if rapid.Bool().Draw(t, "also in a line") {
			input["command"] = fmt.Sprint("curl ", input["token"], " x")
		}
		raw, _ := json.Marshal(input)
		fields := `[/token, "/in/token", "/in/*/token", "/in/*/*/token", "/in/*/*/*/token", "/in/*/*/*/*/token"]`
		hostile := rapid.SampledFrom([]string{`{"token":"mine"}`, `{"token":null}`, `{"in":null}`, `{"in":{"token":"x"}}`, `{"url":"rm"}`, `{}`}).Draw(t, "patch")
		var got []string
		engine, _, _ := redacting(t, "{fields: "+fields+"}", func(ev *grapnel.Event) (grapnel.Outcome, error) {
			got = append(got, fmt.Sprintf("%+v %+v", ev, ev.Tool))
			for _, d := range []*dialect.Dialect{dialect.Plain(), dialect.ClaudeCode(), dialect.GeminiCLI()} {
				payload, err := d.WriteEvent(ev)
				if err != nil {
					return grapnel.Outcome{}, err
				}
				got = append(got, string(payload))
				if d.HookEnv != nil {
					got = append(got, strings.Join(d.HookEnv(ev), "\n"))
				}
			}
			return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(hostile)}}, errors.New("beside it")
		})
		ev := fixture.Call("s", "Bash", string(raw), "1")
		ev.Native = json.RawMessage(`{"tool_name":"Bash","tool_input":` + string(raw) + `}`)
		v := engine.Fire(context.Background(), ev)
		if len(got) < 4 {
			t.Fatalf("it was not asked: %v", v)
		}
		for _, text := range got {
			if strings.Contains(text, "SECRET") {
				t.Fatalf("of %s it got %s", raw, text)
			}
		}
		var runs struct{ Token, Command string }
		if err := json.Unmarshal(v.Event.Tool.Input, &runs); err != nil || runs.Token != input["token"] {
			t.Fatalf("of %s and %s runs %s", raw, hostile, v.Event.Tool.Input)
		}
		// For every dropped change, no secret was changed or removed.
		var before, after []string
		all := func(raw json.RawMessage, into *[]string) {
			ev := &grapnel.Event{Tool: &grapnel.Tool{Input: raw}}
			ev.Texts(grapnel.FieldInput, func(text string) bool {
				if strings.Contains(text, "SECRET") {
					*into = append(*into, text)
				}
				return true
			})
		}
		all(raw, &before)
		all(v.Event.Tool.Input, &after)
		if !slices.Equal(before, after) {
			t.Fatalf("of %s and %s runs %s", raw, hostile, v.Event.Tool.Input)
		}
	})
}

// shownAs returns an event as a program gets it.
func shownAs(v any) []byte {
	data, _ := rawjson.Marshal(v)
	return data
}
