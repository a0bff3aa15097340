package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/eino"
	"github.com/grapnel-dev/grapnel/host"
)

func nothing(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil }

// After hooks refuse the session, it has no model, no tools and no turns.
func TestSessionRefused(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("no", grapnel.SessionStart, func(*grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Halt: "we are closed"}, nil
	}))
	m, w := says(text("hello")), &workshop{}
	node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: w.tools(t), ToolCallMiddlewares: []compose.ToolMiddleware{b.Tools()}})
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"generate": func() error { _, err := b.Model(m).Generate(t.Context(), prompt); return err },
		"stream":   func() error { _, err := b.Model(m).Stream(t.Context(), prompt); return err },
		"turn": func() error {
			_, err := b.Turn(t.Context(), prompt, func(context.Context, []*schema.Message) (*schema.Message, error) { return text("ran"), nil })
			return err
		},
		"plain":   func() error { _, err := node.Invoke(t.Context(), calls([2]string{"plain", "{}"})); return err },
		"streams": func() error { _, err := node.Stream(t.Context(), calls([2]string{"streams", "{}"})); return err },
		"rich":    func() error { _, err := node.Invoke(t.Context(), calls([2]string{"rich", "{}"})); return err },
		"rich-streams": func() error {
			_, err := node.Stream(t.Context(), calls([2]string{"rich-streams", "{}"}))
			return err
		},
	} {
		if no := host.Refused(try()); no == nil || no.Kind != grapnel.SessionStart {
			t.Errorf("%s: want a Refusal of session.start, got %v", name, no)
		}
	}
	if m.times() > 0 || len(w.done()) > 0 {
		t.Errorf("the model was asked %d times and the tools got %q", m.times(), w.done())
	}
}

// Hooks see and change all options that Eino defines for all models, including the options and
// tools of a single call.
func TestOptions(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("rewrite", grapnel.ModelBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		var r eino.Request
		if err := json.Unmarshal(ev.Model.Request, &r); err != nil {
			return grapnel.Outcome{}, err
		}
		if *r.Model != "small" || len(r.Tools) != 2 {
			return block(string(ev.Model.Request))
		}
		name, limit, top, choice := "big", 7, float32(0.5), schema.ToolChoiceForced
		r.Model, r.MaxTokens, r.TopP, r.Stop, r.ToolChoice = &name, &limit, &top, []string{"."}, &choice
		r.Tools = append(r.Tools[1:], eino.Tool{Name: "new", Parameters: json.RawMessage(`{"type":"object"}`)})
		return grapnel.Replace(grapnel.FieldRequest, r)
	}))
	m := says(text("done"))
	tools := []*schema.ToolInfo{{Name: "a"}, {Name: "b", Extra: map[string]any{"kept": true}}}
	if _, err := b.Model(m).Generate(t.Context(), prompt, model.WithModel("small"), model.WithTools(tools)); err != nil {
		t.Fatal(err)
	}
	o := m.last(t).options
	if *o.Model != "big" || *o.MaxTokens != 7 || *o.TopP != 0.5 || !slices.Equal(o.Stop, []string{"."}) || *o.ToolChoice != schema.ToolChoiceForced {
		t.Errorf("the model got the options %+v", o)
	}
	if len(o.Tools) != 2 || o.Tools[0] != tools[1] || o.Tools[1].Name != "new" {
		t.Errorf("the model got the tools %+v, want b as it was, and new", o.Tools)
	}
}

// If a hook returns an invalid request, response or tool, that is an error and nothing replaces
// it.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind  grapnel.Kind
		field grapnel.Field
		value any
	}{
		"request":  {grapnel.ModelBefore, grapnel.FieldRequest, []int{1}},
		"tool":     {grapnel.ModelBefore, grapnel.FieldRequest, map[string]any{"tools": []any{map[string]any{"name": "x", "parameters": 1}}}},
		"answer":   {grapnel.ModelBefore, grapnel.FieldResponse, 1},
		"response": {grapnel.ModelAfter, grapnel.FieldResponse, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bridge(t, nil, hook("bad", tt.kind, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Replace(tt.field, tt.value) }))
			if m, err := b.Model(says(text("done"))).Generate(t.Context(), prompt); err == nil || !strings.Contains(err.Error(), "that hooks changed") {
				t.Errorf("the model said %v, %v", m, err)
			}
		})
	}
}

// A value that cannot be shown to hooks is an error. It does not skip the hooks.
func TestUnshowable(t *testing.T) {
	t.Parallel()
	odd := schema.UserMessage("hello")
	odd.Extra = map[string]any{"f": func() {}}
	m := says(odd)
	if _, err := bridge(t, nil, hook("before", grapnel.ModelBefore, nothing)).Model(m).Generate(t.Context(), []*schema.Message{odd}); err == nil || m.times() > 0 {
		t.Errorf("the model was asked what hooks could not be shown: %v", err)
	}
	if _, err := bridge(t, nil, hook("after", grapnel.ModelAfter, nothing)).Model(m).Generate(t.Context(), prompt); err == nil {
		t.Error("the model said what hooks could not be shown")
	}
}

// Errors of the model are returned unchanged, for every way to call it.
func TestModelFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("out of tokens")
	for name, tt := range map[string]struct {
		opts *host.Options
		spec grapnel.Spec
	}{
		"before":      {nil, hook("before", grapnel.ModelBefore, nothing)},
		"held":        {nil, hook("after", grapnel.ModelAfter, nothing)},
		"incremental": {&host.Options{Incremental: true}, hook("after", grapnel.ModelAfter, nothing)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, at := range []string{"once", "begin", "middle"} {
				m := bridge(t, tt.opts, tt.spec).Model(&failing{says(), at, bad})
				var err error
				if at == "once" {
					_, err = m.Generate(t.Context(), prompt)
				} else {
					_, err = whole(m.Stream(t.Context(), prompt))
				}
				if !errors.Is(err, bad) {
					t.Errorf("%s: the error is %v, want that of the model", at, err)
				}
			}
		})
	}
}

type failing struct {
	*script
	at  string
	err error
}

func (f *failing) IsCallbacksEnabled() bool { return f.at != "begin" } // both ways fail alike

func (f *failing) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	return nil, f.err
}

func (f *failing) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	if f.at == "begin" {
		return nil, f.err
	}
	r, w := schema.Pipe[*schema.Message](2)
	w.Send(text("one "), nil)
	w.Send(nil, f.err)
	w.Close()
	return r, nil
}

// Incremental: tool calls wait for the end, an empty piece is not an answer, and text that was
// shown stays.
func TestIncremental(t *testing.T) {
	t.Parallel()
	opts := &host.Options{Incremental: true}
	m := calls([2]string{"plain", `{"text":"x"}`})
	m.Content = "I will work"
	got, err := whole(bridge(t, opts, hook("after", grapnel.ModelAfter, nothing)).Model(says(m)).Stream(t.Context(), prompt))
	if err != nil || got.Content != "I will work" || len(got.ToolCalls) != 1 {
		t.Errorf("let go %v, %v, want text and call", got, err)
	}
	closed := make(chan string)
	close(closed)
	if got, err := whole(bridge(t, opts, hook("after", grapnel.ModelAfter, nothing)).Model(&slowModel{says(), closed}).Stream(t.Context(), prompt)); err == nil {
		t.Errorf("a model that said nothing said %v", got)
	}
	fickle := hook("fickle", grapnel.ModelAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		if strings.Contains(string(ev.Model.Response), "two") {
			return grapnel.Replace(grapnel.FieldResponse, "never mind")
		}
		return grapnel.Outcome{}, nil
	})
	if got, err := whole(bridge(t, opts, fickle).Model(says(text("one two"))).Stream(t.Context(), prompt)); err == nil || !strings.Contains(err.Error(), "already shown") {
		t.Errorf("let go %v, %v, want an error", got, err)
	}
}

// A guard cannot judge arguments that are not JSON. A hook that only observes gets them as a
// text, and the tool gets them unchanged.
func TestBrokenArguments(t *testing.T) {
	t.Parallel()
	var shown atomic.Value
	for kind, want := range map[grapnel.Kind]string{grapnel.ToolBefore: "", grapnel.ToolAfter: `{"text":"cut o`} {
		b := bridge(t, nil, hook("see", kind, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			shown.Store(string(ev.Tool.Input))
			return grapnel.Outcome{}, nil
		}))
		got := ""
		raw := &rawTool{run: func(arguments string) { got = arguments }}
		node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: []tool.BaseTool{raw}, ToolCallMiddlewares: []compose.ToolMiddleware{b.Tools()}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := node.Invoke(t.Context(), calls([2]string{"raw", `{"text":"cut o`}))
		if err != nil {
			t.Fatal(err)
		}
		if got != want || (want == "") != strings.Contains(result[0].Content, "not a JSON object") {
			t.Errorf("%s: the tool got %q and the model %q, want %q", kind, got, result[0].Content, want)
		}
	}
	if want := `"{\"text\":\"cut o"`; shown.Load() != want {
		t.Errorf("hooks were shown %v, want %s", shown.Load(), want)
	}
}

type rawTool struct{ run func(string) }

func (*rawTool) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: "raw"}, nil
}

func (r *rawTool) InvokableRun(_ context.Context, arguments string, _ ...tool.Option) (string, error) {
	r.run(arguments)
	return "ran", nil
}

// Hooks that request the same tool again and again do not keep the agent running forever.
func TestNextForEver(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("again", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Replace(grapnel.FieldNext, map[string]any{"name": ev.Tool.Name, "input": work{"x"}})
	}))
	w := &workshop{}
	node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: w.tools(t), ToolCallMiddlewares: []compose.ToolMiddleware{b.Tools()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.Invoke(t.Context(), calls([2]string{"plain", `{"text":"x"}`})); err == nil || len(w.done()) != grapnel.MaxStops {
		t.Errorf("the tool ran %d times, and then %v; want %d and an error", len(w.done()), err, grapnel.MaxStops)
	}
}

// A streaming tool of any type can fail too, also after a hook has added context.
func TestStreamingToolFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("out of paint")
	said := hook("before", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Context: []string{"be brief"}}, nil
	})
	for _, specs := range [][]grapnel.Spec{nil, {hook("failed", grapnel.ToolFailed, nothing)}, {said}} {
		w := &workshop{fails: bad}
		node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: w.tools(t), ToolCallMiddlewares: []compose.ToolMiddleware{bridge(t, nil, specs...).Tools()}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"plain", "streams", "rich", "rich-streams"} {
			if _, err := node.Stream(t.Context(), calls([2]string{name, `{"text":"x"}`})); !errors.Is(err, bad) {
				t.Errorf("%s: the error is %v, want that of the tool", name, err)
			}
		}
	}
}

// Each hook around a turn can end it, and one can clear the conversation.
func TestTurnHooks(t *testing.T) {
	t.Parallel()
	run := func(_ context.Context, messages []*schema.Message) (*schema.Message, error) {
		var said []string
		for _, m := range messages {
			said = append(said, m.Content)
		}
		return text(strings.Join(said, "|")), nil
	}
	for _, kind := range []grapnel.Kind{grapnel.PromptBefore, grapnel.AgentBefore, grapnel.AgentAfter, grapnel.ResponseBefore} {
		b := bridge(t, nil, hook("halt", kind, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{Halt: "enough"}, nil }))
		if m, err := b.Turn(t.Context(), prompt, run); host.Refused(err) == nil || host.Refused(err).Kind != kind {
			t.Errorf("%s: the turn gave %v, %v, want a Refusal", kind, m, err)
		}
	}
	var stops atomic.Int32
	b := bridge(t, nil,
		hook("system", grapnel.AgentBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldSystem, "Be brief.")
		}),
		hook("forget", grapnel.AgentAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
			if stops.Add(1) > 1 {
				return grapnel.Outcome{}, nil
			}
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "again", Context: []string{"afresh"}, Set: map[grapnel.Field]json.RawMessage{grapnel.FieldClear: json.RawMessage("true")}}, nil
		}))
	m, err := b.Turn(t.Context(), prompt[1:], run)
	if err != nil || m.Content != "Be brief.|again\nafresh" {
		t.Errorf("the turn gave %v, %v, want the agent to know the system prompt and the reason only", m, err)
	}
}

// Hooks see the turn's number and the session's model. Requests do not get that
// model.
func TestTurnIsTold(t *testing.T) {
	t.Parallel()
	var turns []string
	engine, err := grapnel.New([]grapnel.Spec{hook("see", grapnel.AgentBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		turns = append(turns, ev.Session.Turn+ev.Session.Model)
		return grapnel.Outcome{}, nil
	})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := eino.New(host.New(engine, nil), &eino.Options{Session: grapnel.Session{Model: " of gold"}})
	m := says(text("a"), text("b"))
	for range 2 {
		_, err := b.Turn(t.Context(), prompt, func(ctx context.Context, messages []*schema.Message) (*schema.Message, error) {
			return b.Model(m).Generate(ctx, messages)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"1 of gold", "2 of gold"}; !slices.Equal(turns, want) || m.last(t).options.Model != nil {
		t.Errorf("hooks heard of %q, and the model of %v; want %q and nothing", turns, m.last(t).options.Model, want)
	}
}

// For a prompt with pictures, hooks see and change the text.
func TestPromptWithPicture(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("prompt", grapnel.PromptBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Prompt.Text != "What is this?\nMy key is sk-1." {
			return block("other text: " + ev.Prompt.Text)
		}
		return grapnel.Replace(grapnel.FieldPrompt, "What is this?")
	}))
	words := func(text string) schema.MessageInputPart {
		return schema.MessageInputPart{Type: schema.ChatMessagePartTypeText, Text: text}
	}
	picture := schema.MessageInputPart{Type: schema.ChatMessagePartTypeImageURL}
	asked := &schema.Message{Role: schema.User, UserInputMultiContent: []schema.MessageInputPart{words("What is this?"), picture, words("My key is sk-1.")}}
	_, err := b.Turn(t.Context(), []*schema.Message{asked}, func(_ context.Context, messages []*schema.Message) (*schema.Message, error) {
		if got, want := messages[0].UserInputMultiContent, []schema.MessageInputPart{words("What is this?"), picture}; messages[0].Content != "" || !cmp.Equal(got, want) {
			t.Errorf("the agent got %+v, want %+v", got, want)
		}
		return text("a cat"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Tools read a member in any letter case. A guard sees it, too, and a call with two such members is
// refused.
func TestLetterCase(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("guard", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		switch {
		case slices.Contains(ev.Tool.Commands, "rm"):
			return block("not here")
		case slices.Contains(ev.Tool.Commands, "change"):
			return grapnel.Replace(grapnel.FieldCommand, "changed")
		}
		return grapnel.Outcome{}, nil
	}))
	for _, test := range []struct{ input, want, reads string }{
		{`{"command": "ls"}`, `{"command": "ls"}`, "ran"},
		{`{"COMMAND":"change"}`, `{"COMMAND":"changed"}`, "ran"},
		{`{"COMMAND": "rm"}`, "", "not here"},
		{`{"command": "ls", "Command": "rm"}`, "", "could use either value"},
		{`{"command": "rm", "command": null}`, "", "could use either value"},
	} {
		got := ""
		raw := &rawTool{run: func(arguments string) { got = arguments }}
		node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: []tool.BaseTool{raw}, ToolCallMiddlewares: []compose.ToolMiddleware{b.Tools()}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := node.Invoke(t.Context(), calls([2]string{"raw", test.input}))
		if err != nil {
			t.Fatal(err)
		}
		if got != test.want || !strings.Contains(result[0].Content, test.reads) {
			t.Errorf("%s: the tool got %q and the model %q, want %q and %q", test.input, got, result[0].Content, test.want, test.reads)
		}
	}
}
