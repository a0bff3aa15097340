package adk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/adk"
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

var ls = map[string]any{"command": "ls"}

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
		ends  int      // number of reported ends, if not one per call
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
			reads: `{"stdout":"from a hook"}`, ends: 1,
		},
		"answered with a text": {
			hook:  on(grapnel.ToolBefore, sets(grapnel.FieldOutput, `"from a hook"`)),
			reads: `{"result":"from a hook"}`, ends: 1,
		},
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
		"failed, and left at that": {
			hook: on(grapnel.ToolFailed, answers(grapnel.Outcome{})), asked: "fail",
			ran: []string{"fail"}, reads: `{"error":"exit status 1"}`,
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
		"an input that is none": {
			hook:  on(grapnel.ToolBefore, sets(grapnel.FieldInput, `"ls"`)),
			reads: `"error":"The call was blocked`, not: "ran ls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{"command": "ls"}
			if test.asked != "" {
				args["command"] = test.asked
			}
			ends := 0
			s := newSetup(t, &test.opts, []grapnel.Spec{test.hook, {
				Name: "ends", On: []grapnel.Kind{grapnel.ToolAfter, grapnel.ToolFailed}, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) { ends++ }),
			}}, wants("shell", args), says("done"))
			if got := s.say(t, "go"); got != "done" {
				t.Errorf("the answer is %q, want done", got)
			}
			if want := max(len(test.ran), test.ends); ends != want {
				t.Errorf("the end of the call was told %d times, want %d", ends, want)
			}
			if got := s.shell.commands(); !slices.Equal(got, test.ran) {
				t.Errorf("the tool ran %q, want %q", got, test.ran)
			}
			has(t, "what the model reads", s.model.saw(t, 1), test.reads)
			if test.not != "" {
				hasNot(t, "what the model reads", s.model.saw(t, 1), test.not)
			}
		})
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
	}{
		"request rewritten": {
			hook: on(grapnel.ModelBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				raw := strings.ReplaceAll(string(ev.Model.Request), "hunter2", "***")
				return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldRequest: json.RawMessage(raw)}}, nil
			}),
			answer: "one", calls: 1, saw: "my password is ***",
		},
		"answered in its place": {hook: on(grapnel.ModelBefore, sets(grapnel.FieldResponse, `{"content":{"role":"model","parts":[{"text":"by a hook"}]}}`)), answer: "by a hook"},
		"answered with a text":  {hook: on(grapnel.ModelBefore, sets(grapnel.FieldResponse, `"by a hook"`)), answer: "by a hook"},
		"refused":               {hook: on(grapnel.ModelBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "too dear"})), answer: "The answer was withheld: too dear"},
		"response rewritten":    {hook: on(grapnel.ModelAfter, sets(grapnel.FieldResponse, `{"content":{"role":"model","parts":[{"text":"nicer"}]}}`)), answer: "nicer", calls: 1},
		"response withheld, another is better": {
			hook: on(grapnel.ModelAfter, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if strings.Contains(string(ev.Model.Response), `"one"`) {
					return grapnel.Outcome{Decision: grapnel.Block, Reason: "not one"}, nil
				}
				return grapnel.Outcome{}, nil
			}),
			answer: "two", calls: 2, saw: "The answer was withheld: not one",
		},
		"answer rewritten": {hook: on(grapnel.ResponseBefore, sets(grapnel.FieldResponse, `"for you"`)), answer: "for you", calls: 1},
		"answer withheld":  {hook: on(grapnel.ResponseBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "no"})), answer: "The answer was withheld: no", calls: 1},
		"not let stop": {
			hook: on(grapnel.AgentAfter, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Stop.LastMessage == "one" && !ev.Stop.Active {
					return grapnel.Outcome{Decision: grapnel.Block, Reason: "the tests fail"}, nil
				}
				return grapnel.Outcome{}, nil
			}),
			answer: "two", calls: 2, saw: `{"parts":[{"text":"one"}],"role":"model"},{"parts":[{"text":"the tests fail"}],"role":"user"}`,
		},
		"begun with more": {
			hook: on(grapnel.AgentBefore, answers(grapnel.Outcome{
				Context: []string{"It is Monday."}, Set: map[grapnel.Field]json.RawMessage{grapnel.FieldModel: json.RawMessage(`"a-better-one"`)},
			})),
			answer: "one", calls: 1, saw: `\n\nIt is Monday."}]`,
		},
		"another system prompt": {hook: on(grapnel.AgentBefore, sets(grapnel.FieldSystem, `"Be long."`)), answer: "one", calls: 1, saw: `"systemInstruction":{"parts":[{"text":"Be long."}]`},
		"no tools":              {hook: on(grapnel.ToolsetBefore, sets(grapnel.FieldTools, `[]`)), answer: "one", calls: 1, saw: `\"root\"."}],"role":"user"}}}`},
		"tools not to be used":  {hook: on(grapnel.ToolsetBefore, sets(grapnel.FieldMode, `"none"`)), answer: "one", calls: 1, saw: `"mode":"NONE"`},
		"session with context":  {hook: on(grapnel.SessionStart, answers(grapnel.Outcome{Context: []string{"House rules."}})), answer: "one", calls: 1, saw: `my password is hunter2\n\nHouse rules.`},
		"prompt rewritten":      {hook: on(grapnel.PromptBefore, sets(grapnel.FieldPrompt, `"hello"`)), answer: "one", calls: 1, saw: `{"parts":[{"text":"hello"}],"role":"user"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, mode := range []agent.StreamingMode{agent.StreamingModeNone, agent.StreamingModeSSE} {
				s := newSetup(t, nil, []grapnel.Spec{test.hook}, says("one"), says("two"))
				answer, err := s.turn(t.Context(), "s1", "my password is hunter2", agent.RunConfig{StreamingMode: mode}, nil)
				if err != nil || answer != test.answer {
					t.Errorf("the answer is %q, %v, want %q", answer, err, test.answer)
				}
				if got := s.model.calls(); got != test.calls {
					t.Fatalf("the model was called %d times, want %d", got, test.calls)
				}
				if test.calls > 0 {
					has(t, "what the model saw", s.model.saw(t, test.calls-1), test.saw)
				}
			}
		})
	}
}

// A response from a hook that cannot be read is the error of the run, which names the hook's
// kind of event.
func TestResponseUnreadable(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.ModelBefore, grapnel.ModelAfter} {
		for response, want := range map[string]string{
			`[]`: "cannot unmarshal array",
			`{"content":{"role":"model","parts":[null]}}`: "a part is null",
		} {
			s := newSetup(t, nil, []grapnel.Spec{on(kind, sets(grapnel.FieldResponse, response))}, says("one"))
			answer, err := s.turn(t.Context(), "s1", "go on", agent.RunConfig{}, nil)
			if err == nil || !strings.Contains(err.Error(), "that hooks changed: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the answer to %s is %q, %v, want %q", kind, response, answer, err, want)
			}
		}
	}
}

// A refused prompt ends the turn with the refusal. The prompt is not stored.
func TestPromptRefused(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil, []grapnel.Spec{on(grapnel.PromptBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if strings.Contains(ev.Prompt.Text, "secret") {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "not in here"}, nil
		}
		return grapnel.Outcome{}, nil
	})}, says("fine"))
	if got, want := s.say(t, "my secret"), "Not done: not in here"; got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	if s.model.calls() != 0 {
		t.Error("the model was called")
	}
	hasNot(t, "what is kept", s.kept(t), "my secret")
	if got := s.say(t, "something else"); got != "fine" {
		t.Errorf("the next turn gives %q, want fine", got)
	}
	has(t, "what the model saw", s.model.saw(t, 0), adk.Withheld)
}

// A message without text is a prompt too. A person's answer to a tool is not a prompt.
func TestPromptOfParts(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, []grapnel.Spec{h.spec(), on(grapnel.PromptBefore, answers(grapnel.Outcome{Context: []string{"a picture"}}))}, says("nice"), says("well"))
	for _, part := range []*genai.Part{genai.NewPartFromBytes([]byte("png"), "image/png"), genai.NewPartFromFunctionResponse("ask", map[string]any{"ok": true})} {
		for _, err := range s.Run(t.Context(), "user", "s1", genai.NewContentFromParts([]*genai.Part{part}, genai.RoleUser), agent.RunConfig{}) {
			if err != nil && part.FunctionResponse == nil { // ADK does not find the call of that response; it is still not a prompt
				t.Fatal(err)
			}
		}
	}
	prompts := 0
	for _, kind := range h.kinds() {
		if kind == string(grapnel.PromptBefore) {
			prompts++
		}
	}
	if prompts != 1 {
		t.Errorf("prompt.before was fired %d times, want once: %v", prompts, h.kinds())
	}
	has(t, "what the model saw", s.model.saw(t, 0), `"text":"a picture"`)
}

// A call of a tool that does not exist is a failed call.
func TestNoSuchTool(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, []grapnel.Spec{h.spec(), on(grapnel.ToolFailed, answers(grapnel.Outcome{Context: []string{"use shell"}}))}, wants("bash", ls), says("done"))
	if got := s.say(t, "go"); got != "done" {
		t.Errorf("the answer is %q, want done", got)
	}
	has(t, "fired", strings.Join(h.kinds(), " "), "model.after tool.failed toolbatch.after")
	has(t, "what the model reads", s.model.saw(t, 1), `"hook_context":"use shell"`)
}

// A halt at any event ends the turn. The next turn starts normally.
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
			})}, wants("shell", ls), says("done"))
			has(t, "the answer", s.say(t, "go"), "enough")
			if got := s.model.calls(); got != calls {
				t.Errorf("the model was called %d times, want %d", got, calls)
			}
			s.model.says = []*genai.Content{says("hello")}
			if got := s.say(t, "again"); got != "hello" {
				t.Errorf("the next turn gives %q, want hello", got)
			}
		})
	}
}

// A refused session does not start. The next prompt tries again.
func TestSessionHalted(t *testing.T) {
	t.Parallel()
	var once sync.Once
	s := newSetup(t, nil, []grapnel.Spec{on(grapnel.SessionStart, func(context.Context, *grapnel.Event) (o grapnel.Outcome, _ error) {
		once.Do(func() { o.Halt = "not today" })
		return o, nil
	})}, says("hello"))
	if got := s.say(t, "go"); got != "not today" {
		t.Errorf("the answer is %q, want not today", got)
	}
	if got := s.say(t, "go"); got != "hello" {
		t.Errorf("the next turn gives %q, want hello", got)
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
		kinds = append(kinds, string(ev.Kind))
	}
	return kinds
}

const turnOfTool = "prompt.before agent.before toolset.before model.before model.after tool.before tool.after toolbatch.after toolset.before model.before model.after agent.after response.before"

// All lifecycle events are fired in order, with the data of the session.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	h := &heard{}
	s := newSetup(t, nil, []grapnel.Spec{h.spec()}, wants("shell", ls), says("done"), wants("shell", map[string]any{"command": "fail"}), says("sorry"))
	if got := s.say(t, "one"); got != "done" {
		t.Fatalf("the answer is %q, want done", got)
	}
	if got := s.say(t, "two"); got != "sorry" {
		t.Fatalf("the answer is %q, want sorry", got)
	}
	s.model.fail = errors.New("no network")
	if _, err := s.turn(t.Context(), "s1", "three", agent.RunConfig{}, nil); err == nil {
		t.Fatal("the model failed and the run did not")
	}
	if err := s.plugin.Close(); err != nil {
		t.Fatal(err)
	}
	want := "session.start " + turnOfTool + " " + strings.Replace(turnOfTool, "tool.after", "tool.failed", 1) +
		" prompt.before agent.before toolset.before model.before agent.failed session.end"
	if got := strings.Join(h.kinds(), " "); got != want {
		t.Errorf("fired\n%s\nwant\n%s", got, want)
	}
	turns := map[string]bool{}
	for _, ev := range h.events {
		if ev.Session.ID != "s1" || ev.Session.User != "user" || ev.Session.CWD == "" {
			t.Errorf("%s has the session %+v", ev.Kind, ev.Session)
		}
		if ev.Kind == grapnel.ModelBefore && ev.Session.Model != "scripted" {
			t.Errorf("%s has the model %q", ev.Kind, ev.Session.Model)
		}
		turns[ev.Session.Turn] = true
	}
	if len(turns) != 4 { // the session's start has an empty turn
		t.Errorf("the events have %d turns, want 4", len(turns))
	}
	if got := h.events[0].Cause; got != "startup" {
		t.Errorf("the session started because of %q", got)
	}
}

// A second process finds the session in ADK's store and resumes it. A session in the context is
// used unchanged, and is not ended.
func TestSessions(t *testing.T) {
	t.Parallel()
	h := &heard{}
	engine, err := grapnel.New([]grapnel.Spec{h.spec()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSetup(t, nil, nil, says("1"))
	s.say(t, "one")
	root, err := llmagent.New(llmagent.Config{Name: "root", Model: &script{says: []*genai.Content{says("2"), says("3")}}})
	if err != nil {
		t.Fatal(err)
	}
	own := host.New(engine, nil)
	hooks := adk.New(own, nil)
	s.Runner, err = runner.New(runner.Config{AppName: "test", Agent: root, SessionService: s.sessions, PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{hooks}}})
	if err != nil {
		t.Fatal(err)
	}
	s.say(t, "two")
	if got := h.events[0]; got.Kind != grapnel.SessionStart || got.Cause != "resume" {
		t.Errorf("first came %s %q, want session.start resume", got.Kind, got.Cause)
	}
	if err := hooks.Close(); err != nil {
		t.Fatal(err)
	}
	h.events = nil
	ctx, _, _, err := own.Start(t.Context(), grapnel.Session{ID: "mine"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.turn(ctx, "s1", "three", agent.RunConfig{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := hooks.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ev := range h.events {
		if ev.Session.ID != "mine" || ev.Kind == grapnel.SessionEnd {
			t.Errorf("%s of the session %q", ev.Kind, ev.Session.ID)
		}
	}
	if got := h.kinds(); got[0] != "session.start" || got[1] != "prompt.before" {
		t.Errorf("fired %v", got)
	}
}

// If hooks judge answers, the pieces of an answer are held until the whole answer was judged.
func TestStreaming(t *testing.T) {
	t.Parallel()
	looking := []grapnel.Spec{{Name: "audit", Phase: grapnel.PhaseObserve, Hook: answers(grapnel.Outcome{})}}
	for name, test := range map[string]struct {
		specs  []grapnel.Spec
		opts   host.Options
		pieces []string
	}{
		"nobody looks":        {pieces: []string{"one", "two"}},
		"nobody has a say":    {specs: looking, pieces: []string{"one", "two"}},
		"nobody, incremental": {specs: looking, opts: host.Options{Incremental: true}, pieces: []string{"one", "two"}},
		"held":                {specs: []grapnel.Spec{on(grapnel.ModelAfter, answers(grapnel.Outcome{}))}},
		"judged one by one": {
			opts: host.Options{Incremental: true},
			specs: []grapnel.Spec{on(grapnel.ModelAfter, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
				if strings.Contains(string(ev.Model.Response), `"text":"one"`) {
					o.Decision = grapnel.Block
				}
				return o, nil
			})},
			pieces: []string{"two"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, &test.opts, test.specs, says("one two"))
			var pieces []string
			answer, err := s.turn(t.Context(), "s1", "go", agent.RunConfig{StreamingMode: agent.StreamingModeSSE}, func(ev *session.Event) {
				if ev.Partial && ev.Content != nil {
					pieces = append(pieces, ev.Content.Parts[0].Text)
				}
			})
			if err != nil || answer != "one two" {
				t.Errorf("the answer is %q, %v", answer, err)
			}
			if !slices.Equal(pieces, test.pieces) {
				t.Errorf("pieces = %q, want %q", pieces, test.pieces)
			}
		})
	}
}

// An agent that gets a transfer is a sub-agent of the first one. Hooks can add to it, refuse
// it, and keep it from stopping.
func TestSubagents(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T, specs ...grapnel.Spec) (*setup, *script) {
		t.Helper()
		engine, err := grapnel.New(specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		expert := &script{says: []*genai.Content{says("42"), says("43")}}
		sub, err := llmagent.New(llmagent.Config{Name: "expert", Description: "knows", Instruction: "Know.", Model: expert})
		if err != nil {
			t.Fatal(err)
		}
		s := &setup{model: &script{says: []*genai.Content{wants("transfer_to_agent", map[string]any{"agent_name": "expert"})}}}
		root, err := llmagent.New(llmagent.Config{Name: "root", Model: s.model, SubAgents: []agent.Agent{sub}})
		if err != nil {
			t.Fatal(err)
		}
		s.run(t, host.New(engine, nil), root)
		return s, expert
	}
	t.Run("told of", func(t *testing.T) {
		t.Parallel()
		h := &heard{}
		s, _ := build(t, h.spec())
		if got := s.say(t, "what?"); got != "42" {
			t.Errorf("the answer is %q, want 42", got)
		}
		var kinds []string
		for _, ev := range h.events {
			kind := string(ev.Kind)
			if ev.Session.Subagent != nil {
				kind += "/" + ev.Session.Subagent.Type
			}
			kinds = append(kinds, kind)
		}
		want := "session.start prompt.before agent.before toolset.before model.before model.after tool.before tool.after" +
			" subagent.start/expert toolset.before/expert model.before/expert model.after/expert subagent.after/expert response.before agent.after"
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("fired\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s, expert := build(t, on(grapnel.SubagentStart, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "do it yourself"})))
		if got := s.say(t, "what?"); got != "do it yourself" || expert.calls() != 0 {
			t.Errorf("the answer is %q after %d calls of the expert", got, expert.calls())
		}
	})
	t.Run("added to and not let stop", func(t *testing.T) {
		t.Parallel()
		s, expert := build(t,
			on(grapnel.SubagentStart, answers(grapnel.Outcome{Context: []string{"Count well."}})),
			on(grapnel.SubagentAfter, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
				if !ev.Stop.Active {
					o = grapnel.Outcome{Decision: grapnel.Block, Reason: "one more"}
				}
				return o, nil
			}))
		if got := s.say(t, "what?"); got != "43" {
			t.Errorf("the answer is %q, want 43", got)
		}
		has(t, "what the expert saw", expert.saw(t, 1), "Count well.")
		has(t, "what the expert saw", expert.saw(t, 1), "one more")
	})
}

// Agents of a workflow are its sub-agents, also if they run in parallel. A halt of one keeps
// the later ones from starting.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	h := &heard{}
	build := func(t *testing.T, specs ...grapnel.Spec) (*setup, *script) {
		t.Helper()
		engine, err := grapnel.New(specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &setup{shell: &shell{}}
		member := func(name string, lines ...*genai.Content) (agent.Agent, *script) {
			m := &script{says: lines}
			a, err := llmagent.New(llmagent.Config{Name: name, Model: m, Tools: []tool.Tool{s.shell.tool(t)}})
			if err != nil {
				t.Fatal(err)
			}
			return a, m
		}
		left, _ := member("left", wants("shell", map[string]any{"command": "l"}), says("left done"))
		right, _ := member("right", wants("shell", map[string]any{"command": "r"}), says("right done"))
		last, lastModel := member("last", says("all done"))
		both, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "both", SubAgents: []agent.Agent{left, right}}})
		if err != nil {
			t.Fatal(err)
		}
		root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "flow", SubAgents: []agent.Agent{both, last}}})
		if err != nil {
			t.Fatal(err)
		}
		s.run(t, host.New(engine, nil), root)
		return s, lastModel
	}
	t.Run("told of", func(t *testing.T) {
		t.Parallel()
		s, _ := build(t, h.spec())
		if got := s.say(t, "go"); got != "all done" {
			t.Errorf("the answer is %q, want all done", got)
		}
		count := map[string]int{}
		for _, ev := range h.events {
			kind := string(ev.Kind)
			if ev.Session.Subagent != nil {
				kind += "/" + ev.Session.Subagent.Type
			}
			count[kind]++
		}
		for _, kind := range []string{
			"agent.before", "agent.after", "subagent.start/both", "subagent.start/left", "subagent.start/right", "subagent.start/last",
			"subagent.after/both", "subagent.after/left", "subagent.after/right", "subagent.after/last",
			"tool.before/left", "tool.after/right", "toolbatch.after/left", "model.before/last",
		} {
			if count[kind] != 1 {
				t.Errorf("%s was fired %d times, want once", kind, count[kind])
			}
		}
	})
	t.Run("halted", func(t *testing.T) {
		t.Parallel()
		h := &heard{}
		s, last := build(t, h.spec(), on(grapnel.ToolBefore, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
			if ev.Session.Subagent.Type == "left" {
				o.Halt = "enough"
			}
			return o, nil
		}))
		has(t, "the answer", s.say(t, "go"), "enough")
		if last.calls() != 0 {
			t.Error("the model of the last agent was called")
		}
		for _, ev := range h.events {
			if ev.Session.Subagent != nil && ev.Session.Subagent.Type == "last" {
				t.Errorf("%s of the last agent", ev.Kind)
			}
		}
	})
}

// An agent that is a function does not run either after the turn has ended. A run has failed
// even if its reader continues after an error.
func TestOtherAgents(t *testing.T) {
	t.Parallel()
	h := &heard{}
	engine, err := grapnel.New([]grapnel.Spec{h.spec(), on(grapnel.PromptBefore, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
		if ev.Prompt.Text == "no" {
			o = grapnel.Outcome{Decision: grapnel.Block, Reason: "as you say"}
		}
		return o, nil
	})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	own, err := agent.New(agent.Config{Name: "own", Run: func(agent.InvocationContext) iter.Seq2[*session.Event, error] {
		ran++
		return func(func(*session.Event, error) bool) {}
	}})
	if err != nil {
		t.Fatal(err)
	}
	broken, err := llmagent.New(llmagent.Config{Name: "broken", Model: &script{fail: errors.New("no network")}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "flow", SubAgents: []agent.Agent{own, broken}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{}
	s.run(t, host.New(engine, nil), own)
	if got := s.say(t, "no"); got != "Not done: as you say" || ran != 0 {
		t.Errorf("the answer is %q, and the agent ran %d times", got, ran)
	}
	s = &setup{}
	s.run(t, host.New(engine, nil), root)
	failed := false
	for _, err := range s.Run(t.Context(), "user", "s1", genai.NewContentFromText("yes", genai.RoleUser), agent.RunConfig{}) {
		failed = failed || err != nil
	}
	if !failed || ran != 1 {
		t.Errorf("the run failed: %v, and the agent ran %d times", failed, ran)
	}
	if got := strings.Join(h.kinds(), " "); strings.Count(got, "agent.failed") != 1 || strings.Count(got, "subagent.after") != 1 {
		t.Errorf("fired %s", got)
	}
}

// An agent that gives a task to another one continues in the same turn and starts only once.
func TestTask(t *testing.T) {
	t.Parallel()
	h := &heard{}
	engine, err := grapnel.New([]grapnel.Spec{h.spec()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	expert, err := llmagent.New(llmagent.Config{
		Name: "expert", Description: "knows", Mode: llmagent.ModeTask,
		Model: &script{says: []*genai.Content{wants("finish_task", map[string]any{"result": "42"})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{model: &script{says: []*genai.Content{wants("expert", map[string]any{"request": "what?"}), says("done")}}}
	root, err := llmagent.New(llmagent.Config{Name: "root", Model: s.model, SubAgents: []agent.Agent{expert}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, host.New(engine, nil), root)
	if got := s.say(t, "go"); got != "done" {
		t.Errorf("the answer is %q, want done", got)
	}
	has(t, "what the model saw", s.model.saw(t, 1), "42")
	count := map[string]int{}
	for _, kind := range h.kinds() {
		count[kind]++
	}
	for _, kind := range []string{"prompt.before", "agent.before", "agent.after", "subagent.start", "subagent.after", "response.before"} {
		if count[kind] != 1 {
			t.Errorf("%s was fired %d times, want once: %v", kind, count[kind], h.kinds())
		}
	}
}

// An agent behind agenttool has a runner without plugins. Its calls are guarded if its config
// has the plugin's callbacks.
func TestAgentTool(t *testing.T) {
	t.Parallel()
	h := &heard{}
	engine, err := grapnel.New([]grapnel.Spec{h.spec(), on(grapnel.ToolBefore, func(_ context.Context, ev *grapnel.Event) (o grapnel.Outcome, _ error) {
		if ev.Tool.Name == "shell" {
			o = grapnel.Outcome{Decision: grapnel.Block, Reason: "not you"}
		}
		return o, nil
	})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := host.New(engine, nil)
	hooks := adk.New(own, nil)
	s := &setup{shell: &shell{}, model: &script{says: []*genai.Content{wants("expert", map[string]any{"request": "what?"}), says("done")}}}
	inner := &script{says: []*genai.Content{wants("shell", ls), says("42")}}
	expert, err := llmagent.New(llmagent.Config{
		Name: "expert", Model: inner, Tools: []tool.Tool{s.shell.tool(t)},
		BeforeAgentCallbacks:  []agent.BeforeAgentCallback{hooks.BeforeAgentCallback()},
		AfterAgentCallbacks:   []agent.AfterAgentCallback{hooks.AfterAgentCallback()},
		BeforeModelCallbacks:  []llmagent.BeforeModelCallback{hooks.BeforeModelCallback()},
		AfterModelCallbacks:   []llmagent.AfterModelCallback{hooks.AfterModelCallback()},
		OnModelErrorCallbacks: []llmagent.OnModelErrorCallback{hooks.OnModelErrorCallback()},
		BeforeToolCallbacks:   []llmagent.BeforeToolCallback{hooks.BeforeToolCallback()},
		AfterToolCallbacks:    []llmagent.AfterToolCallback{hooks.AfterToolCallback()},
		OnToolErrorCallbacks:  []llmagent.OnToolErrorCallback{hooks.OnToolErrorCallback()},
	})
	if err != nil {
		t.Fatal(err)
	}
	root, err := llmagent.New(llmagent.Config{Name: "root", Model: s.model, Tools: []tool.Tool{agenttool.New(expert, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	s.Runner, err = runner.New(runner.Config{
		AppName: "test", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{hooks}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, mine, _, err := own.Start(t.Context(), grapnel.Session{ID: "mine"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := s.turn(ctx, "s1", "go", agent.RunConfig{}, nil); err != nil || answer != "done" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
	mine.End(ctx, "exit")
	if ran := s.shell.commands(); len(ran) != 0 {
		t.Errorf("the tool ran %q", ran)
	}
	has(t, "what the inner model saw", inner.saw(t, 1), "not you")
	has(t, "what the outer model saw", s.model.saw(t, 1), "42")
	for _, ev := range h.events {
		if ev.Session.ID != "mine" {
			t.Errorf("%s of the session %q", ev.Kind, ev.Session.ID)
		}
	}
}

// ADK calls no callbacks for streaming tools. Hooks judge their calls anyway.
func TestStreamingTool(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hooks []grapnel.Spec
		ran   int
		reads string
	}{
		"no hooks": {ran: 1, reads: `"response":{"result":"one two"}`},
		"blocked":  {hooks: []grapnel.Spec{on(grapnel.ToolBefore, answers(grapnel.Outcome{Decision: grapnel.Block, Reason: "not here"}))}, reads: "not here"},
		"redacted": {hooks: []grapnel.Spec{on(grapnel.ToolAfter, sets(grapnel.FieldOutput, `{"result":"***"}`))}, ran: 1, reads: `"response":{"result":"***"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := 0
			tail, err := functiontool.NewStreaming(functiontool.Config{Name: "tail", Description: "Follows a file."}, func(agent.Context, command) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					ran++
					_ = yield("one ", nil) && yield("two", nil)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			engine, err := grapnel.New(test.hooks, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := &setup{model: &script{says: []*genai.Content{wants("tail", map[string]any{"command": "log"}), says("done")}}}
			root, err := llmagent.New(llmagent.Config{Name: "root", Model: s.model, Tools: []tool.Tool{tail}})
			if err != nil {
				t.Fatal(err)
			}
			s.run(t, host.New(engine, nil), root)
			s.say(t, "go")
			if ran != test.ran {
				t.Errorf("the tool ran %d times, want %d", ran, test.ran)
			}
			has(t, "what the model reads", s.model.saw(t, 1), test.reads)
		})
	}
}

// Without hooks, requests and answers are the same to the byte.
func TestNoHooks(t *testing.T) {
	t.Parallel()
	lines := func() []*genai.Content {
		return []*genai.Content{wants("shell", map[string]any{"command": "ls", "n": 1.0}), wants("shell", map[string]any{"command": "fail"}), says("done")}
	}
	with := newSetup(t, nil, nil, lines()...)
	without := &setup{model: &script{says: lines()}, shell: &shell{}}
	root, err := llmagent.New(llmagent.Config{Name: "root", Model: without.model, Instruction: "Be brief.", Tools: []tool.Tool{without.shell.tool(t)}})
	if err != nil {
		t.Fatal(err)
	}
	without.Runner, err = runner.New(runner.Config{AppName: "test", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := with.say(t, "go"), without.say(t, "go"); a != b {
		t.Errorf("with the plugin %q, without it %q", a, b)
	}
	for i := range 3 {
		if a, b := withoutIDs(with.model.saw(t, i)), withoutIDs(without.model.saw(t, i)); a != b {
			t.Errorf("call %d: with the plugin the model sees\n%s\nwithout it\n%s", i, a, b)
		}
	}
}

// withoutIDs removes the call ids that ADK generates.
func withoutIDs(request string) string {
	for {
		i := strings.Index(request, `"id":"`)
		if i < 0 {
			return request
		}
		j := strings.Index(request[i+6:], `"`)
		request = request[:i] + request[i+6+j+1:]
	}
}

// Sessions and tools run in parallel. A change by one hook does not affect events that other
// hooks are reading.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil, []grapnel.Spec{
		on(grapnel.ToolBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			var in command
			if err := json.Unmarshal(ev.Tool.Input, &in); err != nil {
				return grapnel.Outcome{}, err
			}
			return grapnel.Replace(grapnel.FieldInput, command{Command: in.Command + " in " + ev.Session.ID})
		}),
		on(grapnel.ToolBatchAfter, answers(grapnel.Outcome{Context: []string{"all done"}})),
	})
	both := func() *genai.Content {
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{
			genai.NewPartFromFunctionCall("shell", map[string]any{"command": "a"}), genai.NewPartFromFunctionCall("shell", map[string]any{"command": "b"}),
		}}
	}
	root := func(id string) *setup {
		other := *s
		other.model = &script{says: []*genai.Content{both(), both(), says("done " + id)}}
		return &other
	}
	var running sync.WaitGroup
	for i := range 4 {
		id := fmt.Sprint("s", i)
		mine := root(id)
		a, err := llmagent.New(llmagent.Config{Name: "root", Model: mine.model, Tools: []tool.Tool{s.shell.tool(t)}})
		if err != nil {
			t.Fatal(err)
		}
		mine.Runner, err = runner.New(runner.Config{
			AppName: "test", Agent: a, SessionService: s.sessions, AutoCreateSession: true,
			PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{s.plugin}},
		})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			answer, err := mine.turn(t.Context(), id, "go", agent.RunConfig{}, func(ev *session.Event) {
				if _, err := json.Marshal(ev); err != nil {
					t.Error(err)
				}
			})
			if err != nil || answer != "done "+id {
				t.Errorf("%s: %q, %v", id, answer, err)
			}
			has(t, "what the model saw", mine.model.saw(t, 2), "all done")
		})
	}
	running.Wait()
	ran := s.shell.commands()
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

type line struct {
	Line string `json:"line"`
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
	var ran []string
	execute, err := functiontool.New(functiontool.Config{Name: "execute", Description: "Runs a line."},
		func(_ agent.Context, in line) (map[string]any, error) {
			ran = append(ran, in.Line)
			return map[string]any{"ok": true}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	run := func(line string) *genai.Content { return wants("execute", map[string]any{"line": line}) }
	s := &setup{model: &script{says: []*genai.Content{run("cd x && git push -f"), run("git push"), says("done")}}}
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	root, err := llmagent.New(llmagent.Config{Name: "root", Model: s.model, Tools: []tool.Tool{execute}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, host.New(engine, opts), root)
	s.say(t, "push it")
	if !slices.Equal(ran, []string{"git push"}) {
		t.Errorf("ran %q", ran)
	}
	has(t, "what the model reads", s.model.saw(t, 1), "Push a new branch instead.")
}

// Tools read a member in any letter case. A guard sees it, too, and a call with two such members is
// refused.
func TestLetterCase(t *testing.T) {
	t.Parallel()
	guard := on(grapnel.ToolBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if slices.Contains(ev.Tool.Commands, "rm") {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "not here"}, nil
		}
		return grapnel.Outcome{}, nil
	})
	for _, test := range []struct {
		input map[string]any
		reads string
		ran   []string
	}{
		{map[string]any{"command": "ls"}, "ran ls", []string{"ls"}},
		{map[string]any{"COMMAND": "rm"}, "not here", nil},
		{map[string]any{"command": "ls", "Command": "rm"}, "could use either value", nil},
	} {
		s := newSetup(t, nil, []grapnel.Spec{guard}, wants("shell", test.input), says("done"))
		s.say(t, "go")
		if got := s.shell.commands(); !slices.Equal(got, test.ran) {
			t.Errorf("%v: the tool ran %q, want %q", test.input, got, test.ran)
		}
		has(t, "what the model reads", s.model.saw(t, 1), test.reads)
	}
}
