package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/eino"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// each runs a test with every way to run an agent.
func each(t *testing.T, f func(t *testing.T, run func(b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent)) {
	t.Helper()
	for name, maker := range makers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, func(b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent {
				return maker(t, b, m, tools)
			})
		})
	}
}

var prompt = []*schema.Message{schema.SystemMessage("Be good."), schema.UserMessage("work")}

// all calls one tool of each type, in two answers, and then answers with last. Eino 0.7.36 has
// a data race if two tools with parts stream in one answer.
func all(argument, last string) *script {
	second := calls([2]string{"rich-streams", argument})
	second.ToolCalls[0].ID = "call-4"
	return says(calls([2]string{"plain", argument}, [2]string{"streams", argument}, [2]string{"rich", argument}), second, text(last))
}

// A refused call does not run, and the model gets the reason.
func TestBlock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		b := bridge(t, nil, hook("no", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return block("not on a Sunday") }))
		m, w := all(`{"text":"dig"}`, "as you like"), &workshop{}
		answer, err := run(b, m, w.tools(t))(t.Context(), prompt)
		if err != nil || answer.Content != "as you like" {
			t.Fatalf("the agent answered %v, %v", answer, err)
		}
		if len(w.done()) > 0 {
			t.Errorf("blocked tools ran with %q", w.done())
		}
		for i := 1; i <= 4; i++ {
			if got := m.result(t, fmt.Sprintf("call-%d", i)); !strings.Contains(got, "not on a Sunday") {
				t.Errorf("the model was told %q of call %d, and not why it did not run", got, i)
			}
		}
	})
}

// The tool gets the input that hooks changed. An unchanged input stays byte by byte as it was
// written.
func TestRewriteInput(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		b := bridge(t, nil, hook("plant", grapnel.ToolBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if ev.Tool.Name == "rich" {
				return grapnel.Outcome{}, nil
			}
			return grapnel.Replace(grapnel.FieldInput, work{"plant"})
		}))
		m, w := all(`{ "text": "dig" }`, "done"), &workshop{}
		if _, err := run(b, m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if want := []string{"dig", "plant", "plant", "plant"}; !slices.Equal(w.done(), want) {
			t.Errorf("the tools got %q, want %q", w.done(), want)
		}
	})
}

// The model gets the result of a hook that answers instead of a tool, and of a hook that
// removes a secret from a tool's output.
func TestResult(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string]struct {
		hook grapnel.Spec
		runs int
		want []string
	}{
		"answered": {
			hook("answer", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Replace(grapnel.FieldOutput, "from the cache")
			}), 0, []string{"from the cache", "from the cache", "from the cache;", "from the cache;"},
		},
		"redacted": {
			hook("redact", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
				clean := strings.ReplaceAll(string(ev.Tool.Output), "hunter2", "***")
				return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldOutput: json.RawMessage(clean)}}, nil
			}), 4, []string{`{"result":"did ***"}`, "did ***", "did ***;", "did ***;"},
		},
		"commented": {
			hook("comment", grapnel.ToolAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "try again", Context: []string{"it is late"}}, nil
			}), 4, []string{
				"{\"result\":\"did hunter2\"}\n\ntry again\n\nit is late", "did hunter2\n\ntry again\n\nit is late",
				"did hunter2;try again\n\nit is late;", "did hunter2;try again\n\nit is late;",
			},
		},
		"commented before": {
			hook("comment", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{Context: []string{"it is late"}}, nil
			}), 4, []string{
				"{\"result\":\"did hunter2\"}\n\nit is late", "did hunter2\n\nit is late", "did hunter2;it is late;", "did hunter2;it is late;",
			},
		},
		"another tool next": {
			hook("next", grapnel.ToolAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Replace(grapnel.FieldNext, map[string]any{"name": "other", "input": map[string]any{}})
			}), 4, []string{
				"{\"result\":\"did hunter2\"}\n\nCall the tool other next, with {}.", "did hunter2\n\nCall the tool other next, with {}.",
				"did hunter2;Call the tool other next, with {}.;", "did hunter2;Call the tool other next, with {}.;",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
				b := bridge(t, nil, hooks.hook)
				m, w := all(`{"text":"hunter2"}`, "done"), &workshop{}
				if _, err := run(b, m, w.tools(t))(t.Context(), prompt); err != nil {
					t.Fatal(err)
				}
				if len(w.done()) != hooks.runs {
					t.Errorf("%d tools ran, want %d", len(w.done()), hooks.runs)
				}
				for i, want := range hooks.want {
					if got := m.result(t, fmt.Sprintf("call-%d", i+1)); got != want {
						t.Errorf("the model was told %q of call %d, want %q", got, i+1, want)
					}
				}
			})
		})
	}
}

// A hook can request the same tool again with another input. The second result replaces the
// first.
func TestNext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		b := bridge(t, nil, hook("next", grapnel.ToolAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if strings.Contains(string(ev.Tool.Input), "again") {
				return grapnel.Outcome{}, nil
			}
			return grapnel.Replace(grapnel.FieldNext, map[string]any{"name": ev.Tool.Name, "input": work{"again"}})
		}))
		m, w := says(calls([2]string{"streams", `{"text":"once"}`}), text("done")), &workshop{}
		if _, err := run(b, m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := m.result(t, "call-1"); got != "did again" {
			t.Errorf("the model was told %q, want what the second call gave", got)
		}
		if want := []string{"again", "once"}; !slices.Equal(w.done(), want) {
			t.Errorf("the tool got %q, want %q", w.done(), want)
		}
	})
}

// A failure ends the run as without hooks, unless a hook adds something.
func TestToolFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("out of paint")
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		var told atomic.Int32
		quiet := hook("quiet", grapnel.ToolFailed, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			if strings.Contains(string(ev.Tool.Output), "out of paint") {
				told.Add(1)
			}
			return grapnel.Outcome{}, nil
		})
		m, w := says(calls([2]string{"plain", `{"text":"x"}`}), text("done")), &workshop{fails: bad}
		if _, err := run(bridge(t, nil, quiet), m, w.tools(t))(t.Context(), prompt); !errors.Is(err, bad) {
			t.Errorf("the run ended with %v, want that of the tool", err)
		}
		if told.Load() != 1 {
			t.Errorf("the hook heard of %d failures, want 1", told.Load())
		}
		// Context that was added before the call does not turn the failure into a result.
		early := hook("early", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Context: []string{"mind the ladder"}}, nil
		})
		m = says(calls([2]string{"plain", `{"text":"x"}`}), text("done"))
		if _, err := run(bridge(t, nil, early), m, w.tools(t))(t.Context(), prompt); !errors.Is(err, bad) {
			t.Errorf("with context of tool.before the run ended with %v, want that of the tool", err)
		}
		helps := hook("helps", grapnel.ToolFailed, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Context: []string{"there is more in the cellar"}}, nil
		})
		m = says(calls([2]string{"plain", `{"text":"x"}`}), text("done"))
		if _, err := run(bridge(t, nil, helps), m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := m.result(t, "call-1"); !strings.Contains(got, "out of paint") || !strings.Contains(got, "in the cellar") {
			t.Errorf("the model was told %q, want the failure and what the hook knows", got)
		}
	})
}

// A hook that halts ends the run with a Refusal, and nothing runs after it.
func TestHalt(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolBatchAfter, grapnel.ModelBefore, grapnel.ModelAfter, grapnel.ToolsetBefore} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
				b := bridge(t, nil, hook("stop", kind, func(*grapnel.Event) (grapnel.Outcome, error) {
					return grapnel.Outcome{Halt: "the budget is spent"}, nil
				}))
				m, w := says(calls([2]string{"plain", `{"text":"x"}`}), text("done")), &workshop{}
				_, err := run(b, m, w.tools(t))(t.Context(), prompt)
				if no := host.Refused(err); no == nil || !no.Halt || no.Kind != kind || no.Reason != "the budget is spent" {
					t.Errorf("the run ended with %v, want a halt of %s", err, kind)
				}
				if m.times() > 1 {
					t.Errorf("the model was asked %d times", m.times())
				}
				if ran := len(w.done()); ran > 0 && kind != grapnel.ToolAfter && kind != grapnel.ToolBatchAfter {
					t.Errorf("%d tools ran", ran)
				}
			})
		})
	}
}

// The model gets the request that hooks changed: messages, options and tools.
func TestRewriteRequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		b := bridge(t, nil, hook("rewrite", grapnel.ModelBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			var r eino.Request
			if err := json.Unmarshal(ev.Model.Request, &r); err != nil {
				return grapnel.Outcome{}, err
			}
			if len(r.Tools) != 4 || !strings.Contains(string(r.Tools[0].Parameters), `"text"`) {
				return grapnel.Outcome{}, fmt.Errorf("the request has other tools: %s", ev.Model.Request)
			}
			r.Messages[len(r.Messages)-1].Content = "rest"
			r.Tools = r.Tools[1:]
			r.Tools[0].Desc = "is not for you"
			cold := float32(0)
			r.Temperature = &cold
			return grapnel.Replace(grapnel.FieldRequest, r)
		}))
		m, w := says(text("I rest")), &workshop{}
		if _, err := run(b, m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		got := m.last(t)
		if got.messages[1].Content != "rest" || got.messages[0] != prompt[0] {
			t.Errorf("the model got %v, want the changed message, and the other one as it was", got.messages)
		}
		if want := []string{"streams", "rich", "rich-streams"}; !slices.Equal(got.tools, want) {
			t.Errorf("the model got the tools %q, want %q", got.tools, want)
		}
		if got.options.Temperature == nil || *got.options.Temperature != 0 {
			t.Errorf("the model got the temperature %v, want 0", got.options.Temperature)
		}
	})
}

// A hook of toolset.before removes some or all tools.
func TestToolset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		only := hook("only", grapnel.ToolsetBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldTools, []string{"rich"})
		})
		m, w := says(text("done")), &workshop{}
		if _, err := run(bridge(t, nil, only), m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := m.last(t).tools; !slices.Equal(got, []string{"rich"}) {
			t.Errorf("the model got the tools %q, want rich only", got)
		}
		none := hook("none", grapnel.ToolsetBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Replace(grapnel.FieldMode, "none") })
		m = says(text("done"))
		if _, err := run(bridge(t, nil, none), m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := m.last(t); len(got.tools) > 0 || got.options.ToolChoice == nil || *got.options.ToolChoice != schema.ToolChoiceForbidden {
			t.Errorf("the model got the tools %q and the choice %v, want none", got.tools, got.options.ToolChoice)
		}
	})
}

// Text that hooks add after all calls of an answer is below their results.
func TestToolBatch(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		b := bridge(t, nil, hook("sum", grapnel.ToolBatchAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			var names []string
			for _, c := range ev.Calls {
				if !strings.Contains(string(c.Output), "did ") {
					return block("without output: " + c.Name)
				}
				names = append(names, c.Name+string(c.Input))
			}
			return grapnel.Outcome{Context: []string{strings.Join(names, " ")}}, nil
		}))
		m, w := says(calls([2]string{"plain", `{"text":"a"}`}, [2]string{"streams", `{"text":"b"}`}, [2]string{"rich", `{}`}), text("done")), &workshop{}
		if _, err := run(b, m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		messages := m.last(t).messages
		if got, want := messages[len(messages)-1].Content, `plain{"text":"a"} streams{"text":"b"} rich{}`; got != want {
			t.Errorf("the model read %q last, want %q", got, want)
		}
	})
}

// A hook answers instead of the model, with a text or a message, including tool calls.
func TestAnswerForModel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		var times atomic.Int32
		b := bridge(t, nil, hook("answer", grapnel.ModelBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			if times.Add(1) == 1 {
				return grapnel.Replace(grapnel.FieldResponse, calls([2]string{"plain", `{"text":"mine"}`}))
			}
			return grapnel.Replace(grapnel.FieldResponse, "all by myself")
		}))
		m, w := says(), &workshop{}
		answer, err := run(b, m, w.tools(t))(t.Context(), prompt)
		if err != nil || answer.Content != "all by myself" || m.times() != 0 {
			t.Errorf("the agent answered %v, %v, and the model was asked %d times", answer, err, m.times())
		}
		if !slices.Equal(w.done(), []string{"mine"}) {
			t.Errorf("the tools got %q, want what the hook wanted", w.done())
		}
	})
}

// A response is changed, or it is withheld and the model is called again.
func TestResponse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		b := bridge(t, nil, hook("judge", grapnel.ModelAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			switch response := string(ev.Model.Response); {
			case strings.Contains(response, "damn"):
				return block("mind your language")
			default:
				return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldResponse: raw(t, map[string]string{"content": "Sorry, Sir."})}}, nil
			}
		}))
		m, w := says(text("damn it all"), text("sorry")), &workshop{}
		answer, err := run(b, m, w.tools(t))(t.Context(), prompt)
		if err != nil || answer.Content != "Sorry, Sir." {
			t.Errorf("the agent answered %v, %v", answer, err)
		}
		messages := m.last(t).messages
		if got := messages[len(messages)-1].Content; m.times() != 2 || !strings.Contains(got, "mind your language") {
			t.Errorf("the model was asked %d times, at last %q; want the reason", m.times(), got)
		}
	})
}

// If every answer of a model is withheld, the run ends after a few more calls.
func TestWithheldForGood(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("no", grapnel.ModelAfter, func(*grapnel.Event) (grapnel.Outcome, error) { return block("no") }))
	m := says(slices.Repeat([]*schema.Message{text("damn")}, 20)...)
	_, err := b.Model(m).Generate(t.Context(), prompt)
	if no := host.Refused(err); no == nil || no.Kind != grapnel.ModelAfter || m.times() != grapnel.MaxStops+1 {
		t.Errorf("the model was asked %d times, and then %v; want %d and a Refusal", m.times(), err, grapnel.MaxStops+1)
	}
}

// Pieces that are released while the model still answers: all if no hook listens to
// model.after, none if one does, and the judged ones if the host is Incremental.
func TestStreaming(t *testing.T) {
	t.Parallel()
	seen := func(r *schema.StreamReader[*schema.Message]) (list []string, err error) {
		defer r.Close()
		for {
			m, err := r.Recv()
			if err != nil {
				return list, err
			}
			list = append(list, m.Content)
		}
	}
	before := hook("before", grapnel.ModelBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })
	var heard atomic.Int32
	after := hook("after", grapnel.ModelAfter, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		heard.Add(1)
		if strings.Contains(string(ev.Model.Response), "secret") {
			return block("that is a secret")
		}
		return grapnel.Outcome{}, nil
	})
	for name, tt := range map[string]struct {
		specs       []grapnel.Spec
		incremental bool
		says        []string
		want        []string
		refused     bool
	}{
		"nobody":              {nil, false, []string{"one two three"}, []string{"one ", "two ", "three"}, false},
		"before":              {[]grapnel.Spec{before}, false, []string{"one two three"}, []string{"one ", "two ", "three"}, false},
		"after":               {[]grapnel.Spec{after}, false, []string{"one two three"}, []string{"one ", "two ", "three"}, false},
		"after, withheld":     {[]grapnel.Spec{after}, false, []string{"one secret three", "four five"}, []string{"four ", "five"}, false},
		"incremental":         {[]grapnel.Spec{after}, true, []string{"one two three"}, []string{"one ", "two ", "three", ""}, false},
		"incremental refused": {[]grapnel.Spec{after}, true, []string{"one secret three"}, []string{"one "}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m *script
			for _, s := range tt.says {
				if m == nil {
					m = says()
				}
				m.says = append(m.says, text(s))
			}
			r, err := bridge(t, &host.Options{Incremental: tt.incremental}, tt.specs...).Model(m).Stream(t.Context(), prompt)
			if err != nil {
				t.Fatal(err)
			}
			got, err := seen(r)
			if !slices.Equal(got, tt.want) || (host.Refused(err) != nil) != tt.refused {
				t.Errorf("let go %q, then %v; want %q", got, err, tt.want)
			}
		})
	}
}

// A stream gives nothing before a hook of model.after has judged all of it.
func TestStreamIsHeld(t *testing.T) {
	t.Parallel()
	slow := &slowModel{script: says(), pieces: make(chan string)}
	returned := make(chan struct{})
	b := bridge(t, nil, hook("after", grapnel.ModelAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
		select {
		case <-returned:
			t.Error("the stream was let go before it was judged")
		default:
		}
		return grapnel.Outcome{}, nil
	}))
	go func() {
		defer close(slow.pieces)
		for _, piece := range []string{"a", "b", "c"} {
			slow.pieces <- piece
		}
	}()
	r, err := b.Model(slow).Stream(t.Context(), prompt)
	close(returned)
	m, err := whole(r, err)
	if err != nil || m.Content != "abc" {
		t.Errorf("got %v, %v, want abc", m, err)
	}
}

// A reader that stops early leaves no goroutine of an Incremental stream running. goleak checks
// it.
func TestStreamAbandoned(t *testing.T) {
	t.Parallel()
	b := bridge(t, &host.Options{Incremental: true}, hook("after", grapnel.ModelAfter, func(*grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil }))
	r, err := b.Model(says(text(strings.Repeat("word ", 100)))).Stream(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recv(); err != nil {
		t.Fatal(err)
	}
	r.Close()
}

// A slowModel answers with the pieces from a channel.
type slowModel struct {
	*script
	pieces chan string
}

func (m *slowModel) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	r, w := schema.Pipe[*schema.Message](0)
	go func() {
		defer w.Close()
		for piece := range m.pieces {
			w.Send(text(piece), nil)
		}
	}()
	return r, nil
}

// Without hooks, requests, results and answers are the same as without the bridge.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		script := func() *script { return all(`{ "text":"x" }`, "all is done") }
		bare := script()
		want, err := run(nil, bare, (&workshop{}).tools(t))(t.Context(), prompt)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []*eino.Bridge{bridge(t, nil), eino.New(host.New(nil, nil), nil)} {
			m := script()
			got, err := run(b, m, (&workshop{}).tools(t))(t.Context(), prompt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the answer differs (-without, +with):\n%s", diff)
			}
			if diff := cmp.Diff(bare.last(t).messages, m.last(t).messages); diff != "" {
				t.Errorf("the request differs (-without, +with):\n%s", diff)
			}
		}
	})
}

// A policy identifies the tools by class and facts.
func TestPolicy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	err := os.WriteFile(file, []byte(`version: 1
hooks:
  - name: no-delete
    on: tool.before
    match: {tool: shell, command: rm -rf}
    block: Move it to the trash.
  - name: hide-keys
    on: tool.after
    replace: [{pattern: 'sk-[a-z0-9]+', with: sk-***}]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}})
	if set.Files[0].Hooks != 2 {
		t.Fatalf("%+v", set.Files)
	}
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		var ran atomic.Int32
		sh, err := utils.InferTool("sh", "runs", func(_ context.Context, in struct {
			Line string `json:"line"`
		},
		) (string, error) {
			ran.Add(1)
			return "the key is sk-abc123", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b := bridge(t, &host.Options{Tools: []host.ToolInfo{
			{Name: "sh", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}},
		}}, set.Specs...)
		m := says(calls([2]string{"sh", `{"line":"cd /tmp && rm -r -f build"}`}, [2]string{"sh", `{"line":"cat key"}`}), text("done"))
		if _, err := run(b, m, []tool.BaseTool{sh})(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := m.result(t, "call-1"); !strings.Contains(got, "Move it to the trash.") || ran.Load() != 1 {
			t.Errorf("the model was told %q of the first call, and %d calls ran", got, ran.Load())
		}
		if got, want := m.result(t, "call-2"), "the key is sk-***"; got != want {
			t.Errorf("the model was told %q of the second call, want %q", got, want)
		}
	})
}

// The host's Approver decides an ask.
func TestAsk(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		approve := host.ApproverFunc(func(_ context.Context, q *host.Question) (host.Consent, error) {
			return host.Consent{Yes: strings.Contains(string(q.Event.Tool.Input), "yes"), Reason: "I would rather not"}, nil
		})
		b := bridge(t, &host.Options{Approve: approve}, hook("ask", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}, nil
		}))
		m, w := says(calls([2]string{"plain", `{"text":"yes"}`}, [2]string{"plain", `{"text":"no"}`}), text("done")), &workshop{}
		if _, err := run(b, m, w.tools(t))(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := m.result(t, "call-2"); !slices.Equal(w.done(), []string{"yes"}) || !strings.Contains(got, "I would rather not") {
			t.Errorf("the tool got %q, and the model was told %q", w.done(), got)
		}
	})
}

// A custom graph: a model and a ToolsNode in a chain.
func TestGraph(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("no", grapnel.ToolBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return block("not today") }))
	w := &workshop{}
	node, err := compose.NewToolNode(t.Context(), &compose.ToolsNodeConfig{Tools: w.tools(t), ToolCallMiddlewares: []compose.ToolMiddleware{b.Tools()}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := compose.NewChain[[]*schema.Message, []*schema.Message]().
		AppendChatModel(b.Model(says(calls([2]string{"plain", ""})))).AppendToolsNode(node).Compile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results, err := run.Invoke(t.Context(), prompt)
	if err != nil || len(results) != 1 || !strings.Contains(results[0].Content, "not today") || len(w.done()) > 0 {
		t.Errorf("the chain gave %v, %v, and the tools got %q", results, err, w.done())
	}
}

// A tool that interrupts the run has not failed: the interrupt is passed on, and the call is
// judged again when it continues.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	var before, failed, after atomic.Int32
	count := func(n *atomic.Int32) func(*grapnel.Event) (grapnel.Outcome, error) {
		return func(*grapnel.Event) (grapnel.Outcome, error) {
			n.Add(1)
			return grapnel.Outcome{}, nil
		}
	}
	b := bridge(t, nil, hook("before", grapnel.ToolBefore, count(&before)), hook("failed", grapnel.ToolFailed, count(&failed)), hook("after", grapnel.ToolAfter, count(&after)))
	waits, err := utils.InferTool("waits", "waits", func(ctx context.Context, _ work) (string, error) {
		if was, _, _ := compose.GetInterruptState[string](ctx); !was {
			return "", compose.StatefulInterrupt(ctx, "may I?", "asked")
		}
		return "went on", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m := says(calls([2]string{"waits", `{"text":"x"}`}), text("done"))
	a, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{
		Name: "worker", Description: "works", Model: b.Model(m),
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: compose.ToolsNodeConfig{
			Tools: []tool.BaseTool{waits}, ToolCallMiddlewares: []compose.ToolMiddleware{b.Tools()},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: a, CheckPointStore: &store{}})
	var interrupted bool
	for events := runner.Run(t.Context(), prompt, adk.WithCheckPointID("1")); ; {
		event, ok := events.Next()
		if !ok {
			break
		}
		interrupted = interrupted || event.Action != nil && event.Action.Interrupted != nil
	}
	if !interrupted || before.Load() != 1 || failed.Load() != 0 {
		t.Fatalf("interrupted: %v; hooks heard of %d calls and %d failures, want 1 and 0", interrupted, before.Load(), failed.Load())
	}
	events, err := runner.Resume(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := last(events); err != nil || answer.Content != "done" || before.Load() != 2 || after.Load() != 1 {
		t.Errorf("went on to %v, %v; hooks heard of %d calls and %d results, want 2 and 1", answer, err, before.Load(), after.Load())
	}
}

type store struct{ data []byte }

func (s *store) Get(context.Context, string) ([]byte, bool, error) { return s.data, s.data != nil, nil }

func (s *store) Set(_ context.Context, _ string, data []byte) error {
	s.data = data
	return nil
}

// Callbacks get the values that hooks approved, once, even if the model fires callbacks itself.
// adk makes its events from them.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	for name, hooks := range map[string][]grapnel.Spec{
		"no hooks": nil,
		"hooks": {hook("clean", grapnel.ModelAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldResponse, "clean")
		})},
	} {
		want := "clean"
		if hooks == nil {
			want = "dirty"
		}
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprint(name, streaming), func(t *testing.T) {
				t.Parallel()
				m := &calling{says(text("dirty"))}
				a, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{Name: "worker", Description: "works", Model: bridge(t, nil, hooks...).Model(m)})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for events := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: a, EnableStreaming: streaming}).Run(t.Context(), prompt); ; {
					event, ok := events.Next()
					if !ok {
						break
					}
					if event.Err != nil {
						t.Fatal(event.Err)
					}
					message, err := event.Output.MessageOutput.GetMessage()
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, message.Content)
				}
				if !slices.Equal(got, []string{want}) {
					t.Errorf("the events say %q, want %q once", got, want)
				}
			})
		}
	}
}

// A calling model fires callbacks itself.
type calling struct{ *script }

func (*calling) IsCallbacksEnabled() bool { return true }

func (c *calling) Generate(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	ctx = callbacks.EnsureRunInfo(ctx, "calling", "ChatModel")
	ctx = callbacks.OnStart(ctx, &model.CallbackInput{Messages: input})
	out, err := c.script.Generate(ctx, input, opts...)
	if err == nil {
		callbacks.OnEnd(ctx, &model.CallbackOutput{Message: out})
	}
	return out, err
}

func (c *calling) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	ctx = callbacks.EnsureRunInfo(ctx, "calling", "ChatModel")
	ctx = callbacks.OnStart(ctx, &model.CallbackInput{Messages: input})
	out, err := c.script.Stream(ctx, input, opts...)
	if err == nil {
		_, out = callbacks.OnEndWithStreamOutput(ctx, out)
	}
	return out, err
}

// Turn fires the events around a run.
func TestTurn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		var stops atomic.Int32
		b := bridge(t, nil,
			hook("prompt", grapnel.PromptBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Replace(grapnel.FieldPrompt, "work well")
			}),
			hook("begin", grapnel.AgentBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Prompt.Text != "work well" || ev.Prompt.System != "Be good." {
					return grapnel.Outcome{}, fmt.Errorf("began with %+v", ev.Prompt)
				}
				return grapnel.Outcome{Context: []string{"It is Monday."}, Set: map[grapnel.Field]json.RawMessage{
					grapnel.FieldSystem: raw(t, "Be better."), grapnel.FieldModel: raw(t, "big"),
				}}, nil
			}),
			hook("stop", grapnel.AgentAfter, func(*grapnel.Event) (grapnel.Outcome, error) {
				if stops.Add(1) == 1 {
					return block("the tests fail")
				}
				return grapnel.Outcome{}, nil
			}),
			hook("respond", grapnel.ResponseBefore, func(*grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Replace(grapnel.FieldResponse, "Done, Sir.")
			}),
		)
		m, w := says(text("done"), text("now it is")), &workshop{}
		answer, err := b.Turn(t.Context(), prompt, run(b, m, w.tools(t)))
		if err != nil || answer.Content != "Done, Sir." {
			t.Fatalf("the turn gave %v, %v", answer, err)
		}
		var got []string
		for _, message := range m.last(t).messages {
			got = append(got, message.Content)
		}
		if want := []string{"Be better.", "work well", "It is Monday.", "done", "the tests fail"}; !slices.Equal(got, want) {
			t.Errorf("the model was asked %q, want %q", got, want)
		}
		if name := m.last(t).options.Model; name == nil || *name != "big" {
			t.Errorf("the model's name is %v, want big", name)
		}
		if prompt[1].Content != "work" {
			t.Error("the caller's message was changed")
		}
	})
}

// A refused prompt does not reach the model, and an error is reported.
func TestTurnEnds(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("no", grapnel.PromptBefore, func(*grapnel.Event) (grapnel.Outcome, error) { return block("not now") }))
	_, err := b.Turn(t.Context(), prompt, func(context.Context, []*schema.Message) (*schema.Message, error) {
		t.Error("the agent ran")
		return nil, nil
	})
	if no := host.Refused(err); no == nil || no.Text != "Not done: not now" {
		t.Errorf("the turn ended with %v, want a Refusal", err)
	}
	var told atomic.Int32
	b = bridge(t, nil, hook("failed", grapnel.AgentFailed, func(ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Cause == "no power" {
			told.Add(1)
		}
		return grapnel.Outcome{}, nil
	}))
	_, err = b.Turn(t.Context(), prompt, func(context.Context, []*schema.Message) (*schema.Message, error) { return nil, errors.New("no power") })
	if _, none := b.Turn(t.Context(), prompt, func(context.Context, []*schema.Message) (*schema.Message, error) { return nil, nil }); none == nil {
		t.Error("no answer and no error is no error")
	}
	if err == nil || told.Load() != 1 {
		t.Errorf("the turn ended with %v, and hooks heard of %d failures", err, told.Load())
	}
}

// The session in a context is used. Without one, the bridge has its own session, which Close
// ends.
func TestSession(t *testing.T) {
	t.Parallel()
	var ids []string
	var ended atomic.Int32
	engine, err := grapnel.New([]grapnel.Spec{
		hook("who", grapnel.ModelBefore, func(ev *grapnel.Event) (grapnel.Outcome, error) {
			ids = append(ids, ev.Session.ID)
			return grapnel.Outcome{}, nil
		}),
		hook("end", grapnel.SessionEnd, func(*grapnel.Event) (grapnel.Outcome, error) {
			ended.Add(1)
			return grapnel.Outcome{}, nil
		}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := host.New(engine, nil)
	b := eino.New(h, &eino.Options{Session: grapnel.Session{ID: "own"}})
	ctx, _, _, err := h.Start(t.Context(), grapnel.Session{ID: "given"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	m := b.Model(says(text("a"), text("b")))
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := m.Generate(ctx, prompt); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"given", "own"}; !slices.Equal(ids, want) {
		t.Errorf("the sessions were %q, want %q", ids, want)
	}
	b.Close(t.Context())
	if ended.Load() != 1 {
		t.Errorf("%d sessions ended, want the bridge's own", ended.Load())
	}
}

// Context that hooks add at the start of the bridge's own session is below the first prompt.
func TestStartContext(t *testing.T) {
	t.Parallel()
	b := bridge(t, nil, hook("rules", grapnel.SessionStart, func(*grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Context: []string{"Wipe your feet."}}, nil
	}))
	for _, want := range []int{3, 2} {
		_, err := b.Turn(t.Context(), prompt, func(_ context.Context, messages []*schema.Message) (*schema.Message, error) {
			if len(messages) != want || want == 3 && messages[2].Content != "Wipe your feet." {
				t.Errorf("the agent got %v, want %d messages", messages, want)
			}
			return text("done"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Many concurrent turns, each with many concurrent calls, use one bridge.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
		var judged atomic.Int32
		seen := func(*grapnel.Event) (grapnel.Outcome, error) {
			judged.Add(1)
			return grapnel.Outcome{}, nil
		}
		b := bridge(t, nil, hook("tool", grapnel.ToolBefore, seen), hook("result", grapnel.ToolAfter, seen), hook("model", grapnel.ModelAfter, seen))
		const turns, each = 8, 6
		errs := make(chan error, turns)
		w := &workshop{}
		for range turns {
			var list [][2]string
			for i := range each {
				list = append(list, [2]string{[]string{"plain", "streams", "plain", "streams", "rich", "streams"}[i], `{"text":"x"}`})
			}
			a := run(b, says(calls(list...), text("done")), w.tools(t))
			go func() {
				_, err := a(t.Context(), prompt)
				errs <- err
			}()
		}
		for range turns {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if want := int32(turns * (2*each + 2)); judged.Load() != want || len(w.done()) != turns*each {
			t.Errorf("hooks judged %d times and %d calls ran, want %d and %d", judged.Load(), len(w.done()), want, turns*each)
		}
	})
}
