package genkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/grapnel-dev/grapnel"
	grapnelgenkit "github.com/grapnel-dev/grapnel/bridge/genkit"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func has(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s = %s\nwant it to contain %q", what, text, want)
	}
}

func hasNot(t *testing.T, what, text, not string) {
	t.Helper()
	if strings.Contains(text, not) {
		t.Errorf("%s = %s\nwant it not to contain %q", what, text, not)
	}
}

// A hook's verdict on a tool call decides the call, and the model gets the result.
func TestTool(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hook  grapnel.Spec
		opts  host.Options
		asked string   // input that the tool receives
		ran   []string // calls that reached the tool
		reads string   // text that the model must read
		not   string   // text that the model must not read
	}{
		"blocked": {
			hook:  on(grapnel.ToolBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "not here"})),
			reads: `"error":"The call was blocked: not here"`, not: "ran ls",
		},
		"its input rewritten": {
			hook: on(grapnel.ToolBefore, sets(grapnel.FieldInput, `{"command":"ls -a"}`)),
			ran:  []string{"ls -a"}, reads: "ran ls -a",
		},
		"answered in its place": {
			hook:  on(grapnel.ToolBefore, sets(grapnel.FieldOutput, `{"stdout":"from a hook"}`)),
			reads: `"output":{"stdout":"from a hook"}`,
		},
		"answered with a text": {hook: on(grapnel.ToolBefore, sets(grapnel.FieldOutput, `"from a hook"`)), reads: `"output":"from a hook"`},
		"its output redacted": {
			hook: on(grapnel.ToolAfter, sets(grapnel.FieldOutput, `{"stdout":"***"}`)),
			ran:  []string{"ls"}, reads: `{"stdout":"***"}`, not: "ran ls",
		},
		"told about": {
			hook: on(grapnel.ToolAfter, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "look again", Context: []string{"it is late"}})),
			ran:  []string{"ls"}, reads: `{"hook_context":"it is late","hook_feedback":"look again","stdout":"ran ls"}`,
		},
		"told about before it runs": {
			hook: on(grapnel.ToolBefore, answers(grapnel.Outcome{Context: []string{"it is late"}})),
			ran:  []string{"ls"}, reads: `{"hook_context":"it is late","stdout":"ran ls"}`,
		},
		"another one to be called": {
			hook: on(grapnel.ToolAfter, sets(grapnel.FieldNext, `{"name":"shell","input":{"command":"pwd"}}`)),
			ran:  []string{"ls"}, reads: `Call the tool shell next, with {\"command\":\"pwd\"}.`,
		},
		"failed": {
			hook: on(grapnel.ToolFailed, sets(grapnel.FieldOutput, `"it did not work"`)), asked: "fail",
			ran: []string{"fail"}, reads: `{"error":"it did not work"}`, not: "exit status",
		},
		"asked about, and nobody there": {
			hook:  on(grapnel.ToolBefore, answers(grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"})),
			reads: "the agent has no way to ask",
		},
		"asked about, and agreed to": {
			hook: on(grapnel.ToolBefore, answers(grapnel.Outcome{Decision: grapnel.Ask})),
			opts: host.Options{Approve: host.ApproverFunc(func(context.Context, *host.Question) (host.Consent, error) { return host.Consent{Yes: true}, nil })},
			ran:  []string{"ls"}, reads: "ran ls",
		},
		"not to be chosen, and called all the same": {
			hook:  on(grapnel.ToolsetBefore, sets(grapnel.FieldTools, `[]`)),
			reads: "may not be used now",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := "ls"
			if test.asked != "" {
				asked = test.asked
			}
			s := newSetup(t, &test.opts, []grapnel.Spec{test.hook}, wants(asked), says("done"))
			if got := s.say(t, "go"); got != "done" {
				t.Errorf("the answer is %q, want done", got)
			}
			if got := s.commands(); !slices.Equal(got, test.ran) {
				t.Errorf("the tool ran %q, want %q", got, test.ran)
			}
			has(t, "what the model reads", s.model.saw(t, 1), test.reads)
			if test.not != "" {
				hasNot(t, "what the model reads", s.model.saw(t, 1), test.not)
			}
		})
	}
}

// If hooks change nothing, a failed tool fails the Generate call, as always in Genkit.
func TestToolFails(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, []grapnel.Spec{h.spec()}, wants("fail"))
	_, err := s.generate(t.Context(), "go")
	if !errors.Is(err, ai.ErrToolFailed) {
		t.Errorf("the error is %v, want %v", err, ai.ErrToolFailed)
	}
	kinds := strings.Join(h.kinds(), " ")
	has(t, "fired", kinds, "tool.before tool.failed agent.failed")
}

// If a tool returns several parts, hooks judge the texts and pictures with the output.
func TestManyParts(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil, []grapnel.Spec{on(grapnel.ToolAfter, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		raw := strings.ReplaceAll(string(ev.Tool.Output), "hunter2", "***")
		return grapnel.Outcome{
			Set: map[grapnel.Field]json.RawMessage{grapnel.FieldOutput: json.RawMessage(raw)}, Context: []string{"it is late"},
		}, nil
	})}, &ai.Message{Role: ai.RoleModel, Content: []*ai.Part{ai.NewToolRequestPart(&ai.ToolRequest{Name: "look", Input: map[string]any{}})}}, says("done"))
	look := genkit.DefineMultipartTool(s.g, "look", "Looks.", func(*ai.ToolContext, struct{}) (*ai.MultipartToolResponse, error) {
		return &ai.MultipartToolResponse{Output: "hunter2", Content: []*ai.Part{ai.NewTextPart("it is hunter2")}}, nil
	})
	if _, err := genkit.Generate(t.Context(), s.g, ai.WithPrompt("go"), ai.WithTools(look), ai.WithUse(s.hooks)); err != nil {
		t.Fatal(err)
	}
	got := s.model.saw(t, 1)
	has(t, "what the model reads", got, `{"hook_context":"it is late","output":"***"}`)
	has(t, "what the model reads", got, "it is ***")
	hasNot(t, "what the model reads", got, "hunter2")
}

// A tool that interrupts has not ended. When it is called again, it is judged again.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, []grapnel.Spec{h.spec()},
		&ai.Message{Role: ai.RoleModel, Content: []*ai.Part{ai.NewToolRequestPart(&ai.ToolRequest{Name: "pay", Input: map[string]any{}})}}, says("paid"))
	pay := genkit.DefineTool(s.g, "pay", "Pays.", func(ctx *ai.ToolContext, _ struct{}) (string, error) {
		if !ai.IsToolResumed(ctx) {
			return "", ai.NewToolInterruptError(map[string]any{"why": "money"})
		}
		return "done", nil
	})
	first, err := genkit.Generate(t.Context(), s.g, ai.WithPrompt("go"), ai.WithTools(pay), ai.WithUse(s.hooks))
	if err != nil || first.FinishReason != ai.FinishReasonInterrupted {
		t.Fatalf("the first call gave %+v, %v", first, err)
	}
	restart, err := pay.RestartWith(first.Interrupts()[0])
	if err != nil {
		t.Fatal(err)
	}
	second, err := genkit.Generate(t.Context(), s.g, ai.WithMessages(first.History()...), ai.WithTools(pay), ai.WithToolRestarts(restart), ai.WithUse(s.hooks))
	if err != nil || second.Text() != "paid" {
		t.Fatalf("the second call gave %+v, %v", second, err)
	}
	want := "session.start prompt.before agent.before toolset.before model.before model.after tool.before" +
		" agent.before tool.before tool.after toolbatch.after toolset.before model.before model.after agent.after response.before"
	if got := strings.Join(h.kinds(), " "); got != want {
		t.Errorf("fired\n%s\nwant\n%s", got, want)
	}
}

// Hooks rewrite requests and responses, answer instead of the model, and refuse.
func TestModel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hook   grapnel.Spec
		answer string
		calls  int
		saw    string // text in the model's last request
		reason ai.FinishReason
	}{
		"request rewritten": {
			hook: on(grapnel.ModelBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				raw := strings.ReplaceAll(string(ev.Model.Request), "hunter2", "***")
				return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldRequest: json.RawMessage(raw)}}, nil
			}),
			answer: "one", calls: 1, saw: "my password is ***",
		},
		"answered in its place": {hook: on(grapnel.ModelBefore, sets(grapnel.FieldResponse, `{"message":{"content":[{"text":"by a hook"}]}}`)), answer: "by a hook"},
		"answered with a text":  {hook: on(grapnel.ModelBefore, sets(grapnel.FieldResponse, `"by a hook"`)), answer: "by a hook"},
		"refused": {
			hook:   on(grapnel.ModelBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "too dear"})),
			answer: "The answer was withheld: too dear", reason: ai.FinishReasonBlocked,
		},
		"response rewritten": {hook: on(grapnel.ModelAfter, sets(grapnel.FieldResponse, `{"message":{"role":"model","content":[{"text":"nicer"}]}}`)), answer: "nicer", calls: 1},
		"response withheld, another is better": {
			hook: on(grapnel.ModelAfter, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
				if strings.Contains(string(ev.Model.Response), `"one"`) {
					o = grapnel.Outcome{Decision: grapnel.Block, Reason: "not one"}
				}
				return o, nil
			}),
			answer: "two", calls: 2, saw: "The answer was withheld: not one",
		},
		"answer rewritten": {hook: on(grapnel.ResponseBefore, sets(grapnel.FieldResponse, `"for you"`)), answer: "for you", calls: 1},
		"answer withheld": {
			hook:   on(grapnel.ResponseBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "no"})),
			answer: "The answer was withheld: no", calls: 1, reason: ai.FinishReasonBlocked,
		},
		"not let stop": {
			hook: on(grapnel.AgentAfter, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
				if ev.Stop.LastMessage == "one" && !ev.Stop.Active {
					o = grapnel.Outcome{Decision: grapnel.Block, Reason: "the tests fail"}
				}
				return o, nil
			}),
			answer: "two", calls: 2, saw: `{"content":[{"text":"one"}],"role":"model"},{"content":[{"text":"the tests fail"}],"role":"user"}`,
		},
		"begun with more":       {hook: on(grapnel.AgentBefore, answers(grapnel.Outcome{Context: []string{"It is Monday."}})), answer: "one", calls: 1, saw: `hunter2\n\nIt is Monday.`},
		"another system prompt": {hook: on(grapnel.AgentBefore, sets(grapnel.FieldSystem, `"Be long."`)), answer: "one", calls: 1, saw: `{"content":[{"text":"Be long."}],"role":"system"}`},
		"no tools":              {hook: on(grapnel.ToolsetBefore, sets(grapnel.FieldTools, `[]`)), answer: "one", calls: 1, saw: `"role":"user"}],"output"`},
		"tools not to be used":  {hook: on(grapnel.ToolsetBefore, sets(grapnel.FieldMode, `"none"`)), answer: "one", calls: 1, saw: `"toolChoice":"none"`},
		"session with context":  {hook: on(grapnel.SessionStart, answers(grapnel.Outcome{Context: []string{"House rules."}})), answer: "one", calls: 1, saw: `hunter2\n\nHouse rules.`},
		"prompt rewritten":      {hook: on(grapnel.PromptBefore, sets(grapnel.FieldPrompt, `"hello"`)), answer: "one", calls: 1, saw: `{"content":[{"text":"hello"}],"role":"user"}`},
		"prompt refused": {
			hook:   on(grapnel.PromptBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "not in here"})),
			answer: "Not done: not in here", reason: ai.FinishReasonBlocked,
		},
		"session not begun": {hook: on(grapnel.SessionStart, answers(grapnel.Outcome{Halt: "not today"})), answer: "not today", reason: ai.FinishReasonBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, nil, []grapnel.Spec{test.hook}, says("one"), says("two"))
			response, err := s.generate(t.Context(), "my password is hunter2")
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Text(); got != test.answer {
				t.Errorf("the answer is %q, want %q", got, test.answer)
			}
			if test.reason != "" && response.FinishReason != test.reason {
				t.Errorf("it finished with %q, want %q", response.FinishReason, test.reason)
			}
			if got := s.model.calls(); got != test.calls {
				t.Fatalf("the model was called %d times, want %d", got, test.calls)
			}
			if test.calls > 0 {
				has(t, "what the model saw", s.model.saw(t, test.calls-1), test.saw)
			}
		})
	}
}

// A halt at any event ends the call with the hook's text. It does not affect the next call.
func TestHalt(t *testing.T) {
	t.Parallel()
	for kind, calls := range map[grapnel.Kind]int{
		grapnel.PromptBefore: 0, grapnel.AgentBefore: 0, grapnel.ModelBefore: 0, grapnel.ToolsetBefore: 0,
		grapnel.ModelAfter: 1, grapnel.ToolBefore: 1, grapnel.ToolAfter: 1, grapnel.ToolBatchAfter: 1,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			s := newSetup(t, nil, []grapnel.Spec{on(kind, func(context.Context, *grapnel.Event) (o grapnel.Outcome, _ error) {
				once.Do(func() { o.Halt = "enough" })
				return o, nil
			})}, wants("ls"), says("done"))
			response, err := s.generate(t.Context(), "go")
			if err != nil {
				t.Fatal(err)
			}
			has(t, "the answer", response.Text(), "enough")
			if response.FinishReason != ai.FinishReasonBlocked {
				t.Errorf("it finished with %q", response.FinishReason)
			}
			if got := s.model.calls(); got != calls {
				t.Errorf("the model was called %d times, want %d", got, calls)
			}
			s.model.says = []*ai.Message{says("hello")}
			if got := s.say(t, "again"); got != "hello" {
				t.Errorf("the next call gives %q, want hello", got)
			}
		})
	}
}

// heard collects the fired events.
type heard struct {
	mu     sync.Mutex
	events []*grapnel.Event
}

func (h *heard) spec() grapnel.Spec {
	return grapnel.Spec{Name: "heard", Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, ev)
	})}
}

func (h *heard) kinds() (kinds []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ev := range h.events {
		kind := string(ev.Kind)
		if ev.Session.Subagent != nil {
			kind += "/" + ev.Session.Subagent.Type
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// All lifecycle events are fired in order, in a flow too. A Generate inside a tool is a
// sub-agent.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	h := &heard{}
	ask := &ai.Message{Role: ai.RoleModel, Content: []*ai.Part{ai.NewToolRequestPart(&ai.ToolRequest{Name: "expert", Input: map[string]any{"question": "what?"}})}}
	s := newSetup(t, nil, []grapnel.Spec{h.spec()}, wants("ls"), ask, wants("pwd"), says("42"), says("done"))
	expert := genkit.DefineTool(s.g, "expert", "Knows.", func(ctx *ai.ToolContext, in struct {
		Question string `json:"question"`
	},
	) (string, error) {
		return genkit.GenerateText(ctx, s.g, ai.WithPrompt(in.Question), ai.WithTools(s.shell), ai.WithUse(s.hooks))
	})
	flow := genkit.DefineFlow(s.g, "work", func(ctx context.Context, prompt string) (string, error) {
		return genkit.GenerateText(ctx, s.g, ai.WithPrompt(prompt), ai.WithTools(s.shell, expert), ai.WithUse(s.hooks))
	})
	if got, err := flow.Run(t.Context(), "go"); err != nil || got != "done" {
		t.Fatalf("the flow gave %q, %v", got, err)
	}
	s.model.fail = errors.New("no network")
	if _, err := flow.Run(t.Context(), "again"); err == nil {
		t.Fatal("the model failed and the flow did not")
	}
	s.hooks.Close(t.Context())
	want := "session.start prompt.before agent.before toolset.before model.before model.after tool.before tool.after" +
		" toolbatch.after toolset.before model.before model.after tool.before" +
		" subagent.start/expert toolset.before/expert model.before/expert model.after/expert tool.before/expert tool.after/expert" +
		" toolbatch.after/expert toolset.before/expert model.before/expert model.after/expert subagent.after/expert" +
		" tool.after toolbatch.after toolset.before model.before model.after agent.after response.before" +
		" prompt.before agent.before toolset.before model.before agent.failed session.end"
	if got := strings.Join(h.kinds(), " "); got != want {
		t.Errorf("fired\n%s\nwant\n%s", got, want)
	}
	for _, ev := range h.events {
		if ev.Kind == grapnel.ModelAfter {
			hasNot(t, "what hooks see of a response", string(ev.Model.Response), `"request"`)
		}
	}
	if got := h.events[1].Session; got.Turn != "1" || got.Model != "test/scripted" || got.ID == "" || got.CWD == "" {
		t.Errorf("the first prompt has the session %+v", got)
	}
	has(t, "what the model saw last", s.model.saw(t, 4), `"output":"42"`)
}

// A session in the context is used unchanged, and is not ended.
func TestSession(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, nil, says("1"))
	engine, err := grapnel.New([]grapnel.Spec{h.spec()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := host.New(engine, nil)
	s.hooks = grapnelgenkit.New(own, nil)
	ctx, _, _, err := own.Start(t.Context(), grapnel.Session{ID: "mine"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.generate(ctx, "go"); err != nil {
		t.Fatal(err)
	}
	s.hooks.Close(ctx)
	for _, ev := range h.events {
		if ev.Session.ID != "mine" || ev.Kind == grapnel.SessionEnd {
			t.Errorf("%s of the session %q", ev.Kind, ev.Session.ID)
		}
	}
	if got := len(h.kinds()); got != 8 {
		t.Errorf("fired %v", h.kinds())
	}
}

// If hooks judge answers, the chunks of an answer are held until the whole answer was judged.
func TestStreaming(t *testing.T) {
	t.Parallel()
	looking := []grapnel.Spec{{Name: "audit", Phase: grapnel.PhaseObserve, Hook: answers(grapnel.Outcome{})}}
	for name, test := range map[string]struct {
		specs  []grapnel.Spec
		opts   host.Options
		chunks []string
	}{
		"nobody looks":        {chunks: []string{"one", "two"}},
		"nobody has a say":    {specs: looking, chunks: []string{"one", "two"}},
		"nobody, incremental": {specs: looking, opts: host.Options{Incremental: true}, chunks: []string{"one", "two"}},
		"held":                {specs: []grapnel.Spec{on(grapnel.ModelAfter, answers(grapnel.Outcome{}))}, chunks: []string{"one two"}},
		"held until the end": {
			specs:  []grapnel.Spec{on(grapnel.ResponseBefore, sets(grapnel.FieldResponse, `"one three"`))},
			chunks: []string{"one three"},
		},
		"answered by a hook": {
			specs:  []grapnel.Spec{on(grapnel.ModelBefore, sets(grapnel.FieldResponse, `"by a hook"`))},
			chunks: []string{"by a hook"},
		},
		"judged one by one": {
			opts: host.Options{Incremental: true},
			specs: []grapnel.Spec{on(grapnel.ModelAfter, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
				if strings.Contains(string(ev.Model.Response), `"text":"one"`) {
					o.Decision = grapnel.Block
				}
				return o, nil
			})},
			chunks: []string{"two"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, &test.opts, test.specs, says("one two"))
			var chunks []string
			_, err := s.generate(t.Context(), "go", ai.WithStreaming(func(_ context.Context, chunk *ai.ModelResponseChunk) error {
				chunks = append(chunks, chunk.Text())
				return nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(chunks, test.chunks) {
				t.Errorf("chunks = %q, want %q", chunks, test.chunks)
			}
		})
	}
}

// Without hooks, requests and answers are the same to the byte.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	with := newSetup(t, nil, nil, wants("ls"), says("done"))
	without := newSetup(t, nil, nil, wants("ls"), says("done"))
	if got := with.say(t, "go"); got != "done" {
		t.Errorf("with the middleware %q", got)
	}
	response, err := genkit.Generate(t.Context(), without.g, ai.WithSystem("Be brief."), ai.WithPrompt("go"), ai.WithTools(without.shell))
	if err != nil || response.Text() != "done" {
		t.Fatalf("without it %+v, %v", response, err)
	}
	for i := range 2 {
		if a, b := withoutRefs(with.model.saw(t, i)), withoutRefs(without.model.saw(t, i)); a != b {
			t.Errorf("call %d: with the middleware the model sees\n%s\nwithout it\n%s", i, a, b)
		}
	}
}

// withoutRefs removes the call names that Genkit generates.
func withoutRefs(request string) string {
	for {
		i := strings.Index(request, `"ref":"`)
		if i < 0 {
			return request
		}
		j := strings.Index(request[i+7:], `"`)
		request = request[:i] + request[i+7+j+1:]
	}
}

// Sessions and tools run in parallel.
func TestTogether(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, nil)
	engine, err := grapnel.New([]grapnel.Spec{h.spec(), on(grapnel.ToolBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		var in command
		if err := json.Unmarshal(ev.Tool.Input, &in); err != nil {
			return grapnel.Outcome{}, err
		}
		return grapnel.Replace(grapnel.FieldInput, command{Command: in.Command + " in " + ev.Session.ID})
	}), on(grapnel.ToolBatchAfter, answers(grapnel.Outcome{Context: []string{"all done"}}))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := host.New(engine, nil)
	hooks := grapnelgenkit.New(own, nil)
	var running sync.WaitGroup
	for i := range 4 {
		id := fmt.Sprint("s", i)
		model := &script{says: []*ai.Message{wants("a", "b"), wants("a", "b"), says("done " + id)}}
		genkit.DefineModelAction(s.g, "test/"+id, &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, model.answer)
		running.Go(func() {
			ctx, session, _, err := own.Start(t.Context(), grapnel.Session{ID: id}, "startup")
			if err != nil {
				t.Error(err)
				return
			}
			defer session.End(ctx, "exit")
			answer, err := genkit.GenerateText(ctx, s.g, ai.WithModelName("test/"+id), ai.WithPrompt("go"), ai.WithTools(s.shell), ai.WithUse(hooks))
			if err != nil || answer != "done "+id {
				t.Errorf("%s: %q, %v", id, answer, err)
			}
			has(t, "what the model saw", model.saw(t, 2), "all done")
		})
	}
	running.Wait()
	for _, ev := range h.events {
		if ev.Kind == grapnel.ToolBatchAfter && len(ev.Calls) != 2 {
			t.Errorf("%s tells of %d calls, want 2", ev.Kind, len(ev.Calls))
		}
	}
	ran := s.commands()
	slices.Sort(ran)
	var want []string
	for _, c := range []string{"a", "b"} {
		for i := range 4 {
			want = append(want, fmt.Sprint(c, " in s", i), fmt.Sprint(c, " in s", i))
		}
	}
	if !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

// A policy identifies a tool by its class, and finds the command at any place in the input.
func TestPolicy(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	text := `
version: 1
hooks:
  - name: no-force-push
    on: tool.before
    match: {tool: shell, command: git push --force}
    block: Push a new branch instead.
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: true}}})
	if set.Files[0].State != load.Valid {
		t.Fatalf("the policy is %v", set.Files[0])
	}
	opts := &host.Options{Tools: []host.ToolInfo{{
		Name: "execute", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}},
	}}}
	run := func(line string) *ai.Message {
		return &ai.Message{Role: ai.RoleModel, Content: []*ai.Part{ai.NewToolRequestPart(&ai.ToolRequest{Name: "execute", Input: map[string]any{"line": line}})}}
	}
	s := newSetup(t, opts, set.Specs, run("cd x && git push -f"), run("git push"), says("done"))
	var ran []string
	execute := genkit.DefineTool(s.g, "execute", "Runs a line.", func(_ *ai.ToolContext, in line) (bool, error) {
		ran = append(ran, in.Line)
		return true, nil
	})
	if _, err := genkit.Generate(t.Context(), s.g, ai.WithPrompt("push it"), ai.WithTools(execute), ai.WithUse(s.hooks)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ran, []string{"git push"}) {
		t.Errorf("ran %q", ran)
	}
	has(t, "what the model reads", s.model.saw(t, 1), "Push a new branch instead.")
}

type line struct {
	Line string `json:"line"`
}

// Tools read a member in any letter case. A guard sees it, too, and a call with two such members is
// refused.
func TestLetterCase(t *testing.T) {
	t.Parallel()
	guard := on(grapnel.ToolBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if slices.Contains(ev.Tool.Commands, "rm") {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "not here"}, nil
		}
		return grapnel.Outcome{}, nil
	}))
	for _, test := range []struct {
		input map[string]any
		reads string
		ran   []string
	}{
		{map[string]any{"command": "ls"}, "ran ls", []string{"ls"}},
		{map[string]any{"COMMAND": "rm"}, "not here", nil},
		{map[string]any{"command": "ls", "Command": "rm"}, "could use either value", nil},
	} {
		s := newSetup(t, nil, []grapnel.Spec{guard}, &ai.Message{Role: ai.RoleModel, Content: []*ai.Part{ai.NewToolRequestPart(&ai.ToolRequest{Name: "shell", Input: test.input})}}, says("done"))
		s.say(t, "go")
		if got := s.commands(); !slices.Equal(got, test.ran) {
			t.Errorf("%v: the tool ran %q, want %q", test.input, got, test.ran)
		}
		has(t, "what the model reads", s.model.saw(t, 1), test.reads)
	}
}
