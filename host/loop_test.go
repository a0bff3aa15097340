package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// agent is a Loop with tools of all types, and its output.
type agent struct {
	*world
	loop  *host.Loop
	model *model

	mu    sync.Mutex
	ran   []string
	shown []string
}

func newAgent(t *testing.T, opts *host.Options, m *model, specs ...grapnel.Spec) *agent {
	t.Helper()
	a := &agent{model: m}
	run := func(name string, f host.ToolFunc) host.AgentTool {
		return host.AgentTool{ToolInfo: host.ToolInfo{Name: name}, Run: func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			a.mu.Lock()
			a.ran = append(a.ran, name+string(input))
			a.mu.Unlock()
			return f(ctx, input)
		}}
	}
	tools := []host.AgentTool{
		run("echo", echo), run("other", echo),
		run("fails", func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errBroken }),
		run("panics", func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("oops") }),
	}
	o := host.Options{}
	if opts != nil {
		o = *opts
	}
	o.Tools = host.Infos(tools)
	a.world = newWorld(t, &o)
	a.add(specs...)
	a.loop = &host.Loop{
		Provider: m, Name: "m1", System: "be good", Tools: tools,
		Show: func(_ context.Context, piece string) error { a.shown = append(a.shown, piece); return nil },
	}
	return a
}

// run runs the loop, and checks that a model would accept the conversation.
func (a *agent) run(prompt string) (*host.Answer, error) {
	a.t.Helper()
	answer, err := a.loop.Run(a.ctx, host.Text("user", prompt))
	open := map[string]bool{}
	for i := range a.loop.Messages {
		m := &a.loop.Messages[i]
		if raw, err := json.Marshal(m); err != nil {
			a.t.Errorf("message %d: %v for %s", i, err, raw)
		}
		switch {
		case m.Role == "tool" && !open[m.ToolCallID]:
			a.t.Errorf("message %d answers call %q, which is not open", i, m.ToolCallID)
		case m.Role == "tool":
			delete(open, m.ToolCallID)
		case len(open) > 0:
			a.t.Errorf("message %d comes before the calls %v are answered", i, open)
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		a.t.Errorf("the calls %v are not answered", open)
	}
	return answer, err
}

func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }

// Each event of a turn is fired once, in order, around its action.
func TestLoopLifecycle(t *testing.T) {
	t.Parallel()
	m := &model{replies: []host.Response{wants("echo", "fails"), {Content: text("done")}}}
	a := newAgent(t, &host.Options{Approve: person(true, "", nil)}, m)
	a.watch()
	a.loop.Deliver = func(context.Context, host.Outgoing) error { return nil }
	a.loop.Store = func(context.Context, host.ChatMessage) error { return nil }
	answer, err := a.run("hello")
	if err != nil || answer.Status != host.StatusCompleted || answer.Text() != "done" {
		t.Errorf("Run = %+v, %v", answer, err)
	}
	want := []grapnel.Kind{
		grapnel.PromptBefore, grapnel.AgentBefore, grapnel.TranscriptBefore,
		grapnel.ToolsetBefore, grapnel.ModelBefore, grapnel.ModelAfter, grapnel.TranscriptBefore,
		grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolBefore, grapnel.ToolFailed, grapnel.TranscriptBefore, grapnel.TranscriptBefore, grapnel.ToolBatchAfter,
		grapnel.ToolsetBefore, grapnel.ModelBefore, grapnel.ModelAfter, grapnel.TranscriptBefore,
		grapnel.AgentAfter, grapnel.ResponseBefore, grapnel.MessageBefore, grapnel.MessageSent,
	}
	if got := a.kinds(); !slices.Equal(got, want) {
		t.Errorf("fired\n%v, want\n%v", got, want)
	}
	for _, ev := range a.events {
		if ev.Session.Turn != "1" || ev.Session.Model != "m1" && ev.Kind != grapnel.PromptBefore {
			t.Errorf("%s: session %+v", ev.Kind, ev.Session)
		}
	}
	if got, want := written(a.loop.Messages), lines(
		"user: hello", `assistant echo({"n":1}) fails({"n":2}): `, `tool call1: {"n":1}`, "tool call2 failed: broken", "assistant: done",
	); got != want {
		t.Errorf("conversation\n%swant\n%s", got, want)
	}
	if system := m.asked[0].Messages[0]; system.Role != "system" || system.Text() != "be good" || len(m.asked[0].Tools) != 4 || m.asked[0].Model != "m1" {
		t.Errorf("asked %+v", m.asked[0])
	}
	if fmt.Sprint(a.shown) != "[done]" {
		t.Errorf("shown %q", a.shown)
	}
	if _, err := a.run("again"); err != nil || a.s.Info().Turn != "2" {
		t.Errorf("second Run: %v, turn %s", err, a.s.Info().Turn)
	}
}

// The effect of a hook's answer on a turn.
//
// Proves: IC-27, IC-28, IC-30, IC-31, MC-13, GC-04, GC-05, GC-06, GC-07, GC-08, FL-26, FL-33
func TestLoopVerdicts(t *testing.T) {
	t.Parallel()
	calls := func(names ...string) []host.Response {
		return []host.Response{wants(names...), {Content: text("done")}}
	}
	just := []host.Response{{Content: text("done"), Attachments: []string{"a.png"}}}
	halt := grapnel.Outcome{Halt: "enough"}
	about2 := func(on grapnel.Kind, out grapnel.Outcome) grapnel.Spec {
		return hook("h", on, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			if string(ev.Tool.Input) == `{"n":2}` {
				return out, nil
			}
			return grapnel.Outcome{}, nil
		}))
	}
	next := func(name, input string) string { return fmt.Sprintf(`{"name":%q,"input":%s}`, name, input) }
	tests := map[string]struct {
		replies  []host.Response
		specs    []grapnel.Spec
		outcome  host.Status
		answer   string
		ran      []string
		talk     string
		messages int
	}{
		"prompt refused": {
			replies: just, specs: []grapnel.Spec{blocks(grapnel.PromptBefore, "no")}, outcome: host.StatusBlocked, answer: "Not done: no", talk: "\n",
		},
		"prompt changed, context added": {
			replies: just, outcome: host.StatusCompleted, answer: "done", talk: lines("user: bye\n\na\nb", "assistant: done"),
			specs: []grapnel.Spec{sets(grapnel.PromptBefore, grapnel.FieldPrompt, `"bye"`), returning("p", grapnel.PromptBefore, grapnel.Outcome{Context: []string{"a"}}), returning("b", grapnel.AgentBefore, grapnel.Outcome{Context: []string{"b"}})},
		},
		"halted before it begins": {replies: just, specs: []grapnel.Spec{returning("h", grapnel.AgentBefore, halt)}, outcome: host.StatusBlocked, answer: "enough", talk: "\n"},
		"model refused":           {replies: just, specs: []grapnel.Spec{blocks(grapnel.ModelBefore, "no")}, outcome: host.StatusBlocked, answer: "The answer was withheld: no", talk: lines("user: hello")},
		"a hook answers": {
			replies: just, specs: []grapnel.Spec{sets(grapnel.ModelBefore, grapnel.FieldResponse, `{"content":"mine"}`)},
			outcome: host.StatusCompleted, answer: "mine", talk: lines("user: hello", "assistant: mine"),
		},
		"response refused at last": {
			replies: just, specs: []grapnel.Spec{blocks(grapnel.ResponseBefore, "no")}, outcome: host.StatusBlocked, answer: "The answer was withheld: no",
			talk: lines("user: hello", "assistant: done"),
		},
		"a call refused, the other made": {
			replies: calls("echo", "other"), specs: []grapnel.Spec{about2(grapnel.ToolBefore, grapnel.Outcome{Decision: grapnel.Block, Reason: "no"})},
			outcome: host.StatusCompleted, answer: "done", ran: []string{`echo{"n":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}) other({"n":2}): `, `tool call1: {"n":1}`, "tool call2 failed: The call was blocked: no", "assistant: done"),
		},
		"halt before the second of three": {
			replies: calls("echo", "other", "echo"), specs: []grapnel.Spec{about2(grapnel.ToolBefore, halt)},
			outcome: host.StatusBlocked, answer: "The call was blocked: enough", ran: []string{`echo{"n":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}) other({"n":2}) echo({"n":3}): `, `tool call1: {"n":1}`, "tool call2 failed: The call was blocked: enough", "tool call3 failed: the turn ended before this call"),
		},
		"halt after the second of three": {
			replies: calls("echo", "other", "echo"), specs: []grapnel.Spec{about2(grapnel.ToolAfter, halt)},
			outcome: host.StatusBlocked, answer: "enough", ran: []string{`echo{"n":1}`, `other{"n":2}`},
			talk: lines("user: hello", `assistant echo({"n":1}) other({"n":2}) echo({"n":3}): `, `tool call1: {"n":1}`, `tool call2: {"n":2}`, "tool call3 failed: the turn ended before this call"),
		},
		"feedback and context": {
			replies: calls("echo"), specs: []grapnel.Spec{returning("h", grapnel.ToolAfter, grapnel.Outcome{Decision: grapnel.Block, Reason: "format it", Context: []string{"gofmt"}})},
			outcome: host.StatusCompleted, answer: "done", ran: []string{`echo{"n":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}): `, "tool call1: {\"n\":1}\n\nformat it\n\ngofmt", "assistant: done"),
		},
		"context after the batch": {
			replies: calls("echo"), specs: []grapnel.Spec{returning("h", grapnel.ToolBatchAfter, grapnel.Outcome{Context: []string{"go on"}})},
			outcome: host.StatusCompleted, answer: "done", ran: []string{`echo{"n":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1: {"n":1}`, "user: go on", "assistant: done"),
		},
		"refused after the batch": {
			replies: calls("echo"), specs: []grapnel.Spec{blocks(grapnel.ToolBatchAfter, "look first")},
			outcome: host.StatusBlocked, answer: "look first", ran: []string{`echo{"n":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1: {"n":1}`),
		},
		"a tool that there is not, and one that panics": {
			replies: calls("nothing", "panics"), outcome: host.StatusCompleted, answer: "done", ran: []string{`panics{"n":2}`},
			talk: lines("user: hello", `assistant nothing({"n":1}) panics({"n":2}): `, `tool call1 failed: tool "nothing" is not available`, "tool call2 failed: the tool panicked: oops", "assistant: done"),
		},
		"a tool that may not be chosen": {
			replies: calls("echo", "other"), specs: []grapnel.Spec{sets(grapnel.ToolsetBefore, grapnel.FieldTools, `["other"]`)},
			outcome: host.StatusCompleted, answer: "done", ran: []string{`other{"n":2}`},
			talk: lines("user: hello", `assistant echo({"n":1}) other({"n":2}): `, `tool call1 failed: tool "echo" is not available`, `tool call2: {"n":2}`, "assistant: done"),
		},
		"no tools": {
			replies: calls("echo"), specs: []grapnel.Spec{sets(grapnel.ToolsetBefore, grapnel.FieldMode, `"none"`)}, outcome: host.StatusCompleted, answer: "done",
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1 failed: tool "echo" is not available`, "assistant: done"),
		},
		"content that is no JSON": {
			replies: []host.Response{{Content: json.RawMessage("done")}}, outcome: host.StatusCompleted, answer: "done", talk: lines("user: hello", "assistant: done"),
			specs: []grapnel.Spec{returning("h", grapnel.ModelAfter, grapnel.Outcome{})},
		},
		"arguments that are no JSON": {
			replies: []host.Response{{ToolCalls: []host.ToolCall{{ID: "call1", Name: "echo", Args: json.RawMessage(`{"n":`)}}}, {Content: text("done")}}, outcome: host.StatusCompleted, answer: "done",
			specs: []grapnel.Spec{returning("h", grapnel.ToolBefore, grapnel.Outcome{})},
			talk:  lines("user: hello", `assistant echo("{\"n\":"): `, "tool call1 failed: The call was blocked, since a guard could not answer: the input is not a JSON object, so hooks cannot judge it", "assistant: done"),
		},
		"next": {
			replies: calls("echo"), specs: []grapnel.Spec{returning("h", grapnel.ToolAfter, grapnel.Outcome{}), hook("n", grapnel.ToolAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Tool.Name != "echo" {
					return grapnel.Outcome{}, nil
				}
				return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldNext: json.RawMessage(next("other", `{"m":1}`))}}, nil
			}))},
			outcome: host.StatusCompleted, answer: "done", ran: []string{`echo{"n":1}`, `other{"m":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1: {"m":1}`, "assistant: done"),
		},
		"next is not for the model to choose": {
			replies: calls("echo"), outcome: host.StatusCompleted, answer: "done", ran: []string{`other{"n":2}`},
			specs: []grapnel.Spec{sets(grapnel.ToolsetBefore, grapnel.FieldTools, `["fails"]`), hook("o", grapnel.ToolBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Tool.Name != "echo" {
					return grapnel.Outcome{}, nil
				}
				return grapnel.Replace(grapnel.FieldOutput, "in its place")
			})), hook("n", grapnel.ToolAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Tool.Name != "echo" {
					return grapnel.Outcome{}, nil
				}
				return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldNext: json.RawMessage(next("other", `{"n":2}`))}}, nil
			}))},
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1: {"n":2}`, "assistant: done"),
		},
		"next without end": {
			replies: calls("echo"), specs: []grapnel.Spec{sets(grapnel.ToolAfter, grapnel.FieldNext, next("other", `{}`))},
			outcome: host.StatusCompleted, answer: "done", ran: append([]string{`echo{"n":1}`}, slices.Repeat([]string{`other{}`}, 7)...), messages: 1,
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1: {}`, "assistant: done"),
		},
		"next is judged too": {
			replies: calls("echo"), specs: []grapnel.Spec{sets(grapnel.ToolAfter, grapnel.FieldNext, next("other", `{"n":2}`)), about2(grapnel.ToolBefore, grapnel.Outcome{Decision: grapnel.Block, Reason: "no"})},
			outcome: host.StatusCompleted, answer: "done", ran: []string{`echo{"n":1}`},
			talk: lines("user: hello", `assistant echo({"n":1}): `, `tool call1 failed: The call was blocked: no`, "assistant: done"),
		},
		"withheld, and better then": {
			replies: []host.Response{{Content: text("sk-1")}, {Content: text("done")}}, outcome: host.StatusCompleted, answer: "done",
			specs: []grapnel.Spec{hook("h", grapnel.ModelAfter, grapnel.Guard(func(ev *grapnel.Event) string {
				if strings.Contains(string(ev.Model.Response), "sk-") {
					return "a key"
				}
				return ""
			}))},
			talk: lines("user: hello", "user: The answer was withheld: a key", "assistant: done"),
		},
		"withheld for ever": {
			replies: just, specs: []grapnel.Spec{blocks(grapnel.ModelAfter, "no")}, outcome: host.StatusBlocked, answer: "The answer was withheld: no",
			talk: lines(append([]string{"user: hello"}, slices.Repeat([]string{"user: The answer was withheld: no"}, 8)...)...),
		},
		"halted after the model": {replies: just, specs: []grapnel.Spec{returning("h", grapnel.ModelAfter, halt)}, outcome: host.StatusBlocked, answer: "The answer was withheld: enough", talk: lines("user: hello")},
		"goes on": {
			replies: []host.Response{{Content: text("done?")}, {Content: text("done")}}, outcome: host.StatusCompleted, answer: "done",
			specs: []grapnel.Spec{hook("h", grapnel.AgentAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Stop.Active != (ev.Stop.LastMessage == "done") {
					return grapnel.Outcome{Halt: "Active is wrong"}, nil
				}
				if ev.Stop.Active {
					return grapnel.Outcome{}, nil
				}
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "no test was run", Context: []string{"make test"}}, nil
			}))},
			talk: lines("user: hello", "assistant: done?", "user: no test was run\n\nmake test", "assistant: done"),
		},
		"goes on, with nothing in mind": {
			replies: []host.Response{{Content: text("done?")}, {Content: text("done")}}, outcome: host.StatusCompleted, answer: "done",
			specs: []grapnel.Spec{hook("h", grapnel.AgentAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if ev.Stop.Active {
					return grapnel.Outcome{}, nil
				}
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "again", Set: map[grapnel.Field]json.RawMessage{grapnel.FieldClear: json.RawMessage("true")}}, nil
			}))},
			talk: lines("user: again", "assistant: done"),
		},
		"kept from stopping for ever": {
			replies: just, specs: []grapnel.Spec{blocks(grapnel.AgentAfter, "more")}, outcome: host.StatusCompleted, answer: "done", messages: 1,
			talk: lines(append(append([]string{"user: hello"}, slices.Repeat([]string{"assistant: done", "user: more"}, 8)...), "assistant: done")...),
		},
		"halt beats going on": {
			replies: just, specs: []grapnel.Spec{blocks(grapnel.AgentAfter, "more"), returning("h", grapnel.AgentAfter, halt)}, outcome: host.StatusCompleted, answer: "done", messages: 1,
			talk: lines("user: hello", "assistant: done"),
		},
		"halted by the tools there are": {replies: just, specs: []grapnel.Spec{returning("h", grapnel.ToolsetBefore, halt)}, outcome: host.StatusBlocked, answer: "enough", talk: lines("user: hello")},
	}
	for name, tt := range tests {
		for _, parallel := range []int{0, 3} {
			if parallel > 1 && strings.HasPrefix(name, "halt") {
				continue // see TestLoopHaltInParallel
			}
			t.Run(fmt.Sprintf("%s/%d", name, parallel), func(t *testing.T) {
				t.Parallel()
				a := newAgent(t, nil, &model{replies: tt.replies}, tt.specs...)
				a.loop.Parallel = parallel
				var delivered []host.Outgoing
				a.loop.Deliver = func(_ context.Context, m host.Outgoing) error { delivered = append(delivered, m); return nil }
				answer, err := a.run("hello")
				if err != nil || answer.Status != tt.outcome || answer.Text() != tt.answer || (answer.Refusal != nil) != (tt.outcome == host.StatusBlocked) {
					t.Fatalf("Run = %+v, %q, %v, want %s, %q", answer, answer.Text(), err, tt.outcome, tt.answer)
				}
				slices.Sort(a.ran)
				want := slices.Clone(tt.ran)
				slices.Sort(want)
				if !slices.Equal(a.ran, want) {
					t.Errorf("ran %q, want %q", a.ran, want)
				}
				if got := written(a.loop.Messages); got != tt.talk && got != strings.TrimPrefix(tt.talk, "\n") {
					t.Errorf("conversation\n%swant\n%s", got, tt.talk)
				}
				if len(delivered) != 1 || delivered[0].Text != tt.answer || (len(delivered[0].Attachments) > 0) != (tt.outcome == host.StatusCompleted && len(tt.replies[len(tt.replies)-1].Attachments) > 0 && tt.answer != "mine") {
					t.Errorf("delivered %+v, want %q, attachments only of what was not refused", delivered, tt.answer)
				}
				if got := strings.Join(a.shown, ""); answer.Status == host.StatusCompleted && !strings.HasSuffix(got, tt.answer) {
					t.Errorf("shown %q, want it to end in %q", a.shown, tt.answer)
				}
				if got := a.messages(); len(got) != tt.messages {
					t.Errorf("told %q, want %d messages", got, tt.messages)
				}
			})
		}
	}
}

// If parallel calls are halted, running calls end normally, no other call starts, and each call
// has a result.
func TestLoopHaltInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := slices.Repeat([]string{"echo"}, 20)
		a := newAgent(t, nil, &model{replies: []host.Response{wants(names...), {Content: text("done")}}},
			hook("h", grapnel.ToolBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				if string(ev.Tool.Input) == `{"n":1}` {
					time.Sleep(time.Millisecond) // until the other three calls have begun
					return grapnel.Outcome{Halt: "enough"}, nil
				}
				time.Sleep(time.Second) // until the first call has ended the turn
				return grapnel.Outcome{}, nil
			})))
		a.loop.Parallel = 4
		answer, err := a.run("hello")
		if err != nil || answer.Status != host.StatusBlocked || !answer.Refusal.Halt {
			t.Errorf("Run = %+v, %v", answer, err)
		}
		talk := written(a.loop.Messages)
		if n := strings.Count(talk, "the turn ended before this call"); len(a.loop.Messages) != 22 || len(a.ran) != 3 || n != 16 {
			t.Errorf("%d ran, %d were left out, want 3 and 16, and an answer to each:\n%s", len(a.ran), n, talk)
		}
	})
}

// Calls run in parallel up to the limit.
func TestLoopParallel(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, &model{replies: []host.Response{wants(slices.Repeat([]string{"echo"}, 6)...), {Content: text("done")}}})
	var mu sync.Mutex
	running, most, both := 0, 0, make(chan struct{})
	a.loop.Tools[0].Run = func(context.Context, json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		if running++; running == 2 && most < 2 {
			close(both)
		}
		most = max(most, running)
		mu.Unlock()
		<-both
		mu.Lock()
		running--
		mu.Unlock()
		return nil, nil
	}
	a.loop.Parallel = 2
	if _, err := a.run("go"); err != nil || most != 2 {
		t.Errorf("%v, %d at once, want 2", err, most)
	}
}

// The shown parts of an answer and their time.
func TestLoopShow(t *testing.T) {
	t.Parallel()
	upper := hook("upper", grapnel.ModelAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldResponse: json.RawMessage(`{"content":"ABC"}`)}}, nil
	}))
	late := hook("late", grapnel.ModelAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if strings.Contains(string(ev.Model.Response), host.FinishIncremental) {
			return grapnel.Outcome{}, nil
		}
		return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldResponse: json.RawMessage(`{"content":"***"}`)}}, nil
	}))
	looks := func(on grapnel.Kind) grapnel.Spec { return returning("looks", on, grapnel.Outcome{}) }
	incremental := &host.Options{Incremental: true}
	tests := map[string]struct {
		opts  *host.Options
		spec  grapnel.Spec
		shown []string // including withdrawn parts
	}{
		"nobody listens":              {spec: looks(native), shown: []string{"a", "b", "c"}},
		"model.after":                 {spec: looks(grapnel.ModelAfter), shown: []string{"abc"}},
		"model.after changes":         {spec: upper, shown: []string{"ABC"}},
		"response.before":             {spec: looks(grapnel.ResponseBefore), shown: []string{"abc"}},
		"response.before changes":     {spec: sets(grapnel.ResponseBefore, grapnel.FieldResponse, `"x"`), shown: []string{"x"}},
		"response.before refuses":     {spec: blocks(grapnel.ResponseBefore, "no")},
		"message.before changes":      {spec: sets(grapnel.MessageBefore, grapnel.FieldText, `"y"`), shown: []string{"y"}},
		"message.before refuses":      {spec: blocks(grapnel.MessageBefore, "no")},
		"piece by piece":              {opts: incremental, spec: looks(grapnel.ModelAfter), shown: []string{"a", "b", "c"}},
		"piece by piece, at the end":  {opts: incremental, spec: looks(grapnel.ResponseBefore), shown: []string{"a", "b", "c"}},
		"piece by piece, all changed": {opts: incremental, spec: sets(grapnel.ResponseBefore, grapnel.FieldResponse, `"x"`), shown: []string{"a", "b", "c", "-abc", "x"}},
		"piece by piece, all refused": {opts: incremental, spec: blocks(grapnel.ResponseBefore, "no"), shown: []string{"a", "b", "c", "-abc"}},
		"piece by piece, not let out": {opts: incremental, spec: blocks(grapnel.MessageBefore, "no"), shown: []string{"a", "b", "c", "-abc"}},
		"changed after it was shown":  {opts: incremental, spec: late, shown: []string{"a", "b", "-ab", "***"}},
		"changed before it was shown": {opts: incremental, spec: upper, shown: []string{"ABC"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := answers("abc")
			m.pieces = []string{"", "a", "b", "c"}
			a := newAgent(t, tt.opts, m, tt.spec)
			a.loop.Withdraw = func(_ context.Context, shown string) { a.shown = append(a.shown, "-"+shown) }
			a.loop.Deliver = func(context.Context, host.Outgoing) error { return nil }
			if answer, err := a.run("go"); err != nil {
				t.Errorf("Run = %+v, %v", answer, err)
			}
			if !slices.Equal(a.shown, tt.shown) {
				t.Errorf("shown %q, want %q", a.shown, tt.shown)
			}
		})
	}
}

// If a hook is added or removed in the middle of an answer, the answer is shown exactly once.
func TestLoopShowWhileHooksChange(t *testing.T) {
	t.Parallel()
	looks := returning("looks", grapnel.ResponseBefore, grapnel.Outcome{})
	for _, before := range []bool{true, false} {
		m := answers("abc")
		m.pieces = []string{"a", "b", "c"}
		a := newAgent(t, nil, m)
		if before {
			a.add(looks)
		}
		a.add(hook("swaps", grapnel.AgentAfter, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			if before {
				a.engine.Remove(func(s *grapnel.Spec) bool { return s.Name == looks.Name })
				return grapnel.Outcome{}, nil
			}
			return grapnel.Outcome{}, a.engine.Add(looks)
		})))
		if _, err := a.run("go"); err != nil || strings.Join(a.shown, "") != "abc" {
			t.Errorf("there before: %t: shown %q, %v", before, a.shown, err)
		}
	}
}

// Hooks get the reason for a missing answer, even if the caller no longer waits.
func TestLoopFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(a *agent)
		want   string
	}{
		"the model":  {func(a *agent) { a.model.replies, a.model.err = nil, errBroken }, "broken"},
		"neither":    {func(a *agent) { a.model.replies = nil }, "neither a response nor an error"},
		"broken off": {func(a *agent) { a.model.replies[0].FinishReason = host.FinishIncomplete }, "was cut off"},
		"Show":       {func(a *agent) { a.loop.Show = func(context.Context, string) error { return errBroken } }, "broken"},
		"Store":      {func(a *agent) { a.loop.Store = func(context.Context, host.ChatMessage) error { return errBroken } }, "broken"},
		"Deliver":    {func(a *agent) { a.loop.Deliver = func(context.Context, host.Outgoing) error { return errBroken } }, "broken"},
		"Summarize": {func(a *agent) {
			a.loop.CompactAt, a.loop.Messages, a.loop.Summarize = 1, slices.Repeat([]host.ChatMessage{host.Text("user", "x")}, 3), func(context.Context, []host.ChatMessage, string) (string, error) { return "", errBroken }
		}, "broken"},
		"too many calls":      {func(a *agent) { a.model.replies, a.loop.MaxCalls = []host.Response{wants("echo")}, 3 }, "after 3 calls"},
		"nobody waits":        {func(a *agent) { var cancel context.CancelFunc; a.ctx, cancel = context.WithCancel(a.ctx); cancel() }, "canceled"},
		"canceled in a batch": {func(a *agent) { cancelInBatch(a) }, "canceled"},
		"stored as no message": {func(a *agent) {
			a.loop.Store = func(context.Context, host.ChatMessage) error { return nil }
			a.add(sets(grapnel.TranscriptBefore, grapnel.FieldMessage, `[]`))
		}, "cannot decode a message"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, nil, answers("done"))
			a.watch(grapnel.AgentFailed, grapnel.ModelAfter)
			tt.change(a)
			answer, err := a.run("hello")
			if err == nil || !strings.Contains(err.Error(), tt.want) || answer.Status != host.StatusFailed {
				t.Fatalf("Run = %+v, %v, want %q", answer, err, tt.want)
			}
			last := a.events[len(a.events)-1]
			if last.Kind != grapnel.AgentFailed || last.Cause != err.Error() {
				t.Errorf("fired %v, the last because of %q, want agent.failed because of %q", a.kinds(), last.Cause, err)
			}
			if name == "broken off" && len(a.events) != 2 {
				t.Errorf("fired %v, want that hooks hear of what came", a.kinds())
			}
		})
	}
}

// cancelInBatch cancels the agent's context in the first of three calls.
func cancelInBatch(a *agent) {
	var cancel context.CancelFunc
	a.ctx, cancel = context.WithCancel(a.ctx)
	a.model.replies = []host.Response{wants("echo", "echo", "echo")}
	a.loop.Tools[0].Run = func(context.Context, json.RawMessage) (json.RawMessage, error) {
		if cancel(); len(a.ran) > 0 {
			a.t.Error("a call began after the context was done")
		}
		a.ran = append(a.ran, "echo")
		return nil, nil
	}
}

// Only consecutive withheld answers count.
func TestLoopWithheldNowAndThen(t *testing.T) {
	t.Parallel()
	m := &model{}
	for range 10 {
		m.replies = append(m.replies, host.Response{Content: text("sk-1")}, wants("echo"))
	}
	m.replies = append(m.replies, host.Response{Content: text("done")})
	a := newAgent(t, nil, m, hook("h", grapnel.ModelAfter, grapnel.Guard(func(ev *grapnel.Event) string {
		return map[bool]string{true: "a key"}[strings.Contains(string(ev.Model.Response), "sk-")]
	})))
	if answer, err := a.run("go"); err != nil || answer.Text() != "done" || len(a.ran) != 10 {
		t.Errorf("Run = %+v, %v, %d calls", answer, err, len(a.ran))
	}
}

// The stored conversation has the hooks' changes. The model still gets the original.
func TestLoopStore(t *testing.T) {
	t.Parallel()
	halts := false
	a := newAgent(t, nil, &model{replies: []host.Response{wants("echo", "other"), {Content: text("done")}}},
		hook("h", grapnel.TranscriptBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			switch {
			case halts:
				return grapnel.Outcome{Halt: "disk full"}, nil
			case ev.Message.Role == "tool":
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "no outputs"}, nil
			case ev.Message.Content == "done":
				return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldMessage: json.RawMessage(`{"content":"***"}`)}}, nil
			}
			return grapnel.Outcome{}, nil
		})))
	var stored []host.ChatMessage
	a.loop.Store = func(_ context.Context, m host.ChatMessage) error { stored = append(stored, m); return nil }
	if _, err := a.run("hello"); err != nil {
		t.Fatal(err)
	}
	if got, want := written(stored), lines("user: hello", `assistant echo({"n":1}) other({"n":2}): `, "assistant: ***"); got != want {
		t.Errorf("stored\n%swant\n%s", got, want)
	}
	if !strings.HasSuffix(written(a.loop.Messages), "assistant: done\n") || len(a.loop.Messages) != 5 {
		t.Errorf("conversation\n%s", written(a.loop.Messages))
	}
	halts = true
	if answer, err := a.run("more"); err != nil || answer.Status != host.StatusBlocked || answer.Text() != "disk full" {
		t.Errorf("Run = %+v, %v, want that the turn was ended", answer, err)
	}
}

// A conversation is shortened before it grows too long, at a place where it stays valid.
func TestLoopCompact(t *testing.T) {
	t.Parallel()
	fill := func(a *agent) {
		a.loop.Messages = []host.ChatMessage{host.Text("user", "one"), host.Text("assistant", "two")}
		a.loop.CompactAt = 3
		a.loop.Summarize = func(_ context.Context, messages []host.ChatMessage, instructions string) (string, error) {
			return fmt.Sprintf("%d messages, %q", len(messages), instructions), nil
		}
	}
	conversation := []host.Response{wants("echo"), {Content: text("done")}}
	tests := map[string]struct {
		specs []grapnel.Spec
		want  []string
	}{
		"by itself":  {nil, []string{"user: What happened so far:\n3 messages, \"\"", `assistant echo({"n":1}): `, `tool call1: {"n":1}`, "assistant: done"}},
		"with hooks": {[]grapnel.Spec{returning("b", grapnel.CompactBefore, grapnel.Outcome{Context: []string{"keep names"}}), sets(grapnel.CompactAfter, grapnel.FieldSummary, `"more"`)}, []string{"user: What happened so far:\n3 messages, \"keep names\"\nmore", `assistant echo({"n":1}): `, `tool call1: {"n":1}`, "assistant: done"}},
		"refused":    {[]grapnel.Spec{blocks(grapnel.CompactBefore, "no")}, []string{"user: one", "assistant: two", "user: hello", `assistant echo({"n":1}): `, `tool call1: {"n":1}`, "assistant: done"}},
	}
	for name, tt := range tests {
		a := newAgent(t, nil, &model{replies: conversation}, tt.specs...)
		fill(a)
		if _, err := a.run("hello"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := written(a.loop.Messages); got != lines(tt.want...) {
			t.Errorf("%s: conversation\n%swant\n%s", name, got, lines(tt.want...))
		}
	}
	a := newAgent(t, nil, &model{replies: conversation}, returning("h", grapnel.CompactBefore, grapnel.Outcome{Halt: "enough"}))
	fill(a)
	if answer, err := a.run("hello"); err != nil || answer.Status != host.StatusBlocked {
		t.Errorf("halted: %+v, %v", answer, err)
	}
	a.loop.Messages = nil
	if err := a.loop.Compact(a.ctx, "manual", ""); err != nil {
		t.Errorf("nothing to shorten: %v", err)
	}
	a.loop.Summarize = nil
	if err := a.loop.Compact(a.ctx, "manual", ""); err == nil || !strings.Contains(err.Error(), "Loop.Summarize") {
		t.Errorf("without Summarize: %v", err)
	}
}

// The model gets context that a hook adds at the stop in the next turn. It gets context from
// the start of the session once.
func TestLoopContext(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, answers("done"), returning("h", grapnel.AgentAfter, grapnel.Outcome{Context: []string{"the build is red"}}))
	a.loop.Context = []string{"house rules"}
	for _, want := range []string{"user: one\n\nhouse rules\nassistant: done\n", "user: two\n\nthe build is red\nassistant: done\n"} {
		a.loop.Messages = nil
		if _, err := a.run(map[bool]string{true: "one", false: "two"}[a.s.Info().Turn == ""]); err != nil || written(a.loop.Messages) != want {
			t.Errorf("%v, conversation\n%swant\n%s", err, written(a.loop.Messages), want)
		}
	}
}

// Content that is a list of parts stays a list, even if hooks change a part. Context that they
// add is below it.
func TestLoopParts(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, answers("done"), hook("h", grapnel.PromptBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		out, err := grapnel.Replace(grapnel.FieldPrompt, strings.ReplaceAll(ev.Prompt.Text, "sk-1", "***"))
		out.Context = []string{"no keys"}
		return out, err
	})))
	answer, err := a.loop.Run(a.ctx, host.ChatMessage{Role: "user", Content: json.RawMessage(`[{"type":"text","text":"sk-1"},{"type":"image"}]`)})
	if got := string(a.loop.Messages[0].Content); err != nil || answer.Status != host.StatusCompleted || got != `[{"type":"text","text":"***"},{"type":"image"}]` || a.loop.Messages[1].Text() != "no keys" {
		t.Errorf("%v, %v: conversation\n%s", answer, err, written(a.loop.Messages))
	}
}

// A Loop also works without hooks.
func TestLoopWithoutHooks(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, &model{replies: []host.Response{wants("echo"), {Content: text("done")}}})
	a.loop.Deliver = func(context.Context, host.Outgoing) error { return nil }
	ctx := host.ContextWithSession(context.Background(), nil)
	answer, err := a.loop.Run(ctx, host.Text("user", "hello"))
	if err != nil || answer.Text() != "done" || len(a.loop.Messages) != 4 {
		t.Errorf("%+v, %v\n%s", answer, err, written(a.loop.Messages))
	}
	a.model.replies, a.model.err, a.model.asked = nil, errBroken, nil
	if _, err := a.loop.Run(ctx, host.Text("user", "hello")); !errors.Is(err, errBroken) {
		t.Errorf("the model fails: %v", err)
	}
}

// An answer that was shown and then refused is withdrawn before the next one is shown.
func TestLoopWithdraw(t *testing.T) {
	t.Parallel()
	guard := hook("guard", grapnel.ModelAfter, grapnel.Guard(func(ev *grapnel.Event) string {
		if strings.Contains(string(ev.Model.Response), "secret") {
			return "keep it"
		}
		return ""
	}))
	for _, reported := range []bool{false, true} {
		n := 0
		a := newAgent(t, &host.Options{Incremental: true}, nil, guard)
		a.loop.Provider = host.ProviderFunc(func(_ context.Context, _ *host.Request, yield func(string) error) (*host.Response, error) {
			n++
			for _, piece := range []string{"it ", "is ", map[int]string{1: "secret", 2: "late"}[n], "!"} {
				if err := yield(piece); err != nil {
					return nil, err
				}
			}
			return &host.Response{Content: text("it is late!")}, nil
		})
		want := []string{"it ", "is ", "-it is ", "it ", "is ", "late", "!"}
		if reported {
			want = slices.DeleteFunc(want, func(s string) bool { return s[0] == '-' })
		} else {
			a.loop.Withdraw = func(_ context.Context, shown string) { a.shown = append(a.shown, "-"+shown) }
		}
		if answer, err := a.run("go"); err != nil || answer.Text() != "it is late!" || !slices.Equal(a.shown, want) {
			t.Errorf("Run = %+v, %v, shown %q, want %q", answer, err, a.shown, want)
		}
		if messages := a.messages(); reported != slices.Contains(messages, "grapnel: part of an answer was shown, but is no longer valid: keep it") {
			t.Errorf("told %q", messages)
		}
	}
}

// Nothing is held back for a hook that will not run.
func TestLoopHoldsNothing(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]grapnel.Kind{"no channel": grapnel.MessageBefore, "a sub-agent": grapnel.ResponseBefore, "who only looks": native} {
		m := answers("abc")
		m.pieces = []string{"a", "b", "c"}
		a := newAgent(t, nil, m, returning("h", on, grapnel.Outcome{}))
		a.engine.AddObserver(grapnel.ObserverFunc(func(context.Context, *grapnel.Record) {}))
		work := func(ctx context.Context, _ string) (string, error) {
			_, err := a.loop.Run(ctx, host.Text("user", "go"))
			return "", err
		}
		var err error
		if on == grapnel.ResponseBefore {
			_, err = host.Subagent(a.ctx, grapnel.Subagent{ID: "a1"}, "go", work)
		} else {
			_, err = work(a.ctx, "go")
		}
		if want := []string{"a", "b", "c"}; err != nil || !slices.Equal(a.shown, want) {
			t.Errorf("%s: shown %q, %v, want %q", name, a.shown, err, want)
		}
	}
}

// Each call has a result even if the message with the calls could not be stored; run checks
// that. None of the calls is made.
func TestLoopKeepsCallsAnswered(t *testing.T) {
	t.Parallel()
	assistant := func(raw string) bool { return strings.Contains(raw, `"role":"assistant"`) }
	tests := map[string]func(a *agent){
		"a hook ends the turn": func(a *agent) {
			a.add(hook("h", grapnel.TranscriptBefore, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (out grapnel.Outcome, _ error) {
				if assistant(string(ev.Message.Raw)) {
					out.Halt = "enough"
				}
				return out, nil
			})))
			a.loop.Store = func(context.Context, host.ChatMessage) error { return nil }
		},
		"the disk is full": func(a *agent) {
			a.loop.Store = func(_ context.Context, m host.ChatMessage) error {
				if m.Role == "assistant" {
					return errBroken
				}
				return nil
			}
		},
	}
	for name, change := range tests {
		a := newAgent(t, nil, &model{replies: []host.Response{wants("echo", "echo")}})
		change(a)
		answer, err := a.run("go")
		if answer.Status == host.StatusCompleted || len(a.ran) > 0 || len(a.loop.Messages) != 4 {
			t.Errorf("%s: Run = %+v, %v, ran %q\n%s", name, answer, err, a.ran, written(a.loop.Messages))
		}
	}
}

// A panic or the end of a goroutine around a tool does not end the program, and each call has a
// result.
func TestLoopPanics(t *testing.T) {
	t.Parallel()
	native := func(ev *grapnel.Event) json.RawMessage {
		if ev.Kind == grapnel.ToolBefore && ev.Tool.Name == "other" {
			panic("oops")
		}
		return nil
	}
	a := newAgent(t, &host.Options{Native: native}, &model{replies: []host.Response{wants("echo", "other"), {Content: text("done")}}}, returning("h", grapnel.ToolBefore, grapnel.Outcome{}))
	a.loop.Parallel = 2
	if answer, err := a.run("go"); err == nil || !strings.Contains(err.Error(), "the call of other panicked: oops") || answer.Status != host.StatusFailed {
		t.Errorf("Run = %+v, %v", answer, err)
	}
	a = newAgent(t, nil, &model{replies: []host.Response{wants("ends"), {Content: text("done")}}})
	a.loop.Tools = append(a.loop.Tools, host.AgentTool{ToolInfo: host.ToolInfo{Name: "ends"}, Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
		runtime.Goexit()
		return nil, nil
	}})
	answer, err := a.run("go")
	if want := "tool call1 failed: the call did not finish\n"; err != nil || answer.Text() != "done" || !strings.Contains(written(a.loop.Messages), want) {
		t.Errorf("Run = %+v, %v\n%s", answer, err, written(a.loop.Messages))
	}
}

// Content that is not JSON becomes a string, also in a prompt, and empty content becomes null.
func TestLoopContentIsJSON(t *testing.T) {
	t.Parallel()
	empty := host.Response{Content: json.RawMessage{}, ToolCalls: []host.ToolCall{{ID: "call1", Name: "echo", Args: json.RawMessage{}}}}
	a := newAgent(t, nil, &model{replies: []host.Response{empty, {Content: json.RawMessage("it is done")}}}, returning("h", grapnel.ModelBefore, grapnel.Outcome{}))
	answer, err := a.loop.Run(a.ctx, host.ChatMessage{Role: "user", Content: json.RawMessage("go on")})
	if err != nil || answer.Text() != "it is done" {
		t.Errorf("Run = %+v, %v", answer, err)
	}
	got, err := json.Marshal(a.loop.Messages)
	if want := `[{"role":"user","content":"go on"},{"role":"assistant","content":null,"tool_calls":[{"id":"call1","name":"echo","args":null}]},` +
		`{"role":"tool","content":{},"tool_call_id":"call1"},{"role":"assistant","content":"it is done"}]`; err != nil || string(got) != want {
		t.Errorf("%v, messages %s, want %s", err, got, want)
	}
}

// The number of turns continues in a resumed session. A sub-agent works in the turn of its
// agent.
func TestLoopTurns(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, answers("done"))
	a.s.Update(func(info *grapnel.Session) { info.Turn = "7" })
	a.watch(grapnel.AgentBefore)
	for range 2 {
		if _, err := a.run("go"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := host.Subagent(a.ctx, grapnel.Subagent{ID: "a1"}, "go", func(ctx context.Context, _ string) (string, error) {
		_, err := a.loop.Run(ctx, host.Text("user", "go"))
		return "", err
	})
	var turns []string
	for _, ev := range a.events {
		turns = append(turns, ev.Session.Turn)
	}
	if want := []string{"8", "9", "9"}; err != nil || !slices.Equal(turns, want) {
		t.Errorf("turns %q, %v, want %q", turns, err, want)
	}
}

// A Loop does not start if its tools have options that the host does not have.
func TestLoopToolsTheHostDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, info := range []host.ToolInfo{{Name: "new", Ask: true}, {Name: "new", Secrets: []string{"token"}}} {
		a := newAgent(t, nil, answers("done"))
		a.watch(grapnel.AgentFailed)
		a.loop.Tools = append(a.loop.Tools, host.AgentTool{ToolInfo: info, Run: echo})
		if _, err := a.run("go"); err == nil || !strings.Contains(err.Error(), `"new"`) || !strings.Contains(err.Error(), "host.Infos(Loop.Tools)") || len(a.events) != 1 {
			t.Errorf("%+v: Run = %v, fired %v", info, err, a.kinds())
		}
	}
}

// A model that ends without content has given no answer, so hooks do not judge one.
func TestNoAnswerIsNotJudged(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]int{"null": 0, `""`: 1, `"done"`: 1} {
		judged := 0
		engine, err := grapnel.New([]grapnel.Spec{{
			Name: "see", On: []grapnel.Kind{grapnel.ResponseBefore}, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) { judged++ }),
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, _, _, err := host.New(engine, nil).Start(t.Context(), grapnel.Session{}, "startup")
		if err != nil {
			t.Fatal(err)
		}
		l := host.Loop{Provider: host.ProviderFunc(func(context.Context, *host.Request, func(string) error) (*host.Response, error) {
			return &host.Response{Content: json.RawMessage(content)}, nil
		})}
		if answer, err := l.Run(ctx, host.Text("user", "hello")); err != nil || answer.Status != host.StatusCompleted || judged != want {
			t.Errorf("%s: %+v, %v, judged %d times, want %d", content, answer, err, judged, want)
		}
	}
}
