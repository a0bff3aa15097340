package miniclaw_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/systems/miniclaw"
)

func pre(tool string) miniclaw.Event {
	return miniclaw.PreToolCall{ToolName: tool, Args: json.RawMessage(`{"command":"ls"}`)}
}

func post(tool string) miniclaw.Event {
	return miniclaw.PostToolCall{ToolName: tool, Args: json.RawMessage(`{"command":"ls"}`), Result: "content"}
}

// want dispatches an event and compares the action.
func want(t *testing.T, r *miniclaw.HookRegistry, event miniclaw.Event, action miniclaw.Action) {
	t.Helper()
	if got := r.Dispatch(t.Context(), event); !got.Equal(action) {
		t.Errorf("%#v: %v, want %v", event, got, action)
	}
}

func wantLogged(t *testing.T, log *miniclaw.LoggingHook, tags ...string) {
	t.Helper()
	if got := log.Messages(); !slices.Equal(got, tags) {
		t.Errorf("the log has %q, want %q", got, tags)
	}
}

// does returns a hook that always gives this answer.
func does(action miniclaw.Action) miniclaw.Hook {
	return miniclaw.HookFunc(func(context.Context, miniclaw.Event) miniclaw.Action { return action })
}

// The ten tests of the chapter follow, under their names.

// Proves: MC-14, MC-15, MC-24
func TestLoggingHook(t *testing.T) {
	t.Parallel()
	log := miniclaw.NewLoggingHook()
	want(t, miniclaw.NewHookRegistry().With(log), pre("bash"), miniclaw.Continue())
	wantLogged(t, log, "pre:bash")
}

// Proves: MC-01, MC-14, MC-24
func TestLoggingHookMultipleEvents(t *testing.T) {
	t.Parallel()
	log := miniclaw.NewLoggingHook()
	r := miniclaw.NewHookRegistry().With(log)
	for _, event := range []miniclaw.Event{miniclaw.AgentStart{Prompt: "hello"}, pre("write"), post("write"), miniclaw.AgentEnd{Response: "done"}} {
		want(t, r, event, miniclaw.Continue())
	}
	wantLogged(t, log, "agent:start", "pre:write", "post:write", "agent:end")
	log.Messages()[0] = "changed"
	wantLogged(t, log, "agent:start", "pre:write", "post:write", "agent:end")
}

// Proves: MC-16, MC-24
func TestBlockingHook(t *testing.T) {
	t.Parallel()
	hook := miniclaw.NewBlockingHook([]string{"bash"}, "bash is disabled")
	want(t, miniclaw.NewHookRegistry().With(hook), pre("bash"), miniclaw.Block("bash is disabled"))
	if got := hook.OnEvent(t.Context(), pre("bash")); got != miniclaw.Block("bash is disabled") {
		t.Errorf("OnEvent: %v", got)
	}
}

// Only the whole name matches, and case is significant.
//
// Proves: MC-16, MC-24
func TestBlockingHookAllowsOtherTools(t *testing.T) {
	t.Parallel()
	r := miniclaw.NewHookRegistry().With(miniclaw.NewBlockingHook([]string{"bash", "write*"}, "no"))
	for _, tool := range []string{"read", "Bash", "bash2", "write", "writer", ""} {
		want(t, r, pre(tool), miniclaw.Continue())
	}
}

// Proves: MC-10, MC-24
func TestRegistryDispatchContinue(t *testing.T) {
	t.Parallel()
	r := miniclaw.NewHookRegistry()
	want(t, r, pre("bash"), miniclaw.Continue())
	r.With(miniclaw.NewLoggingHook()).With(miniclaw.NewBlockingHook([]string{"bash"}, "no"))
	want(t, r, pre("read"), miniclaw.Continue())
}

// Proves: MC-07, MC-24
func TestRegistryDispatchBlock(t *testing.T) {
	t.Parallel()
	log := miniclaw.NewLoggingHook()
	want(t, miniclaw.NewHookRegistry().With(log).With(miniclaw.NewBlockingHook([]string{"bash"}, "no")), pre("bash"), miniclaw.Block("no"))
	wantLogged(t, log, "pre:bash")
}

// Proves: MC-06, MC-11, MC-24
func TestRegistryMultipleHooksOrder(t *testing.T) {
	t.Parallel()
	var order []string
	r := miniclaw.NewHookRegistry()
	for _, name := range []string{"first", "second", "third"} {
		if err := r.Register(miniclaw.HookFunc(func(context.Context, miniclaw.Event) miniclaw.Action {
			order = append(order, name)
			return miniclaw.Continue()
		})); err != nil {
			t.Fatal(err)
		}
	}
	want(t, r, pre("read"), miniclaw.Continue())
	want(t, r, miniclaw.AgentEnd{}, miniclaw.Continue())
	if want := []string{"first", "second", "third", "first", "second", "third"}; !slices.Equal(order, want) {
		t.Errorf("the hooks ran as %q, want %q", order, want)
	}
}

// Proves: MC-07, MC-09, MC-24
func TestRegistryBlockShortCircuits(t *testing.T) {
	t.Parallel()
	before, after := miniclaw.NewLoggingHook(), miniclaw.NewLoggingHook()
	r := miniclaw.NewHookRegistry().With(before).With(does(miniclaw.ModifyArgs(json.RawMessage(`{}`)))).
		With(miniclaw.NewBlockingHook([]string{"bash"}, "no")).With(after)
	want(t, r, pre("bash"), miniclaw.Block("no"))
	wantLogged(t, before, "pre:bash")
	wantLogged(t, after)
}

// Proves: MC-05, MC-24
func TestRegistryIsEmpty(t *testing.T) {
	t.Parallel()
	r := miniclaw.NewHookRegistry()
	if !r.IsEmpty() {
		t.Error("a new registry is not empty")
	}
	if r.With(miniclaw.NewLoggingHook()).IsEmpty() {
		t.Error("a registry with a hook is empty")
	}
}

// Proves: MC-14, MC-16, MC-24
func TestPostToolEvent(t *testing.T) {
	t.Parallel()
	log := miniclaw.NewLoggingHook()
	want(t, miniclaw.NewHookRegistry().With(log).With(miniclaw.NewBlockingHook([]string{"bash"}, "no")), post("bash"), miniclaw.Continue())
	wantLogged(t, log, "post:bash")
}

// The rest of the chapter's promises.

// A hook gets each event as the agent gave it.
//
// Proves: MC-01, MC-11
func TestEvents(t *testing.T) {
	t.Parallel()
	events := []miniclaw.Event{
		miniclaw.AgentStart{Prompt: "hello"},
		miniclaw.PreToolCall{ToolName: "read", Args: json.RawMessage(`{"b":1, "a":9007199254740993}`)},
		miniclaw.PostToolCall{ToolName: "read", Args: json.RawMessage(`[]`), Result: "\"a\" <b>\n"},
		miniclaw.AgentEnd{Response: "done"},
		miniclaw.PreToolCall{ToolName: "none", Args: json.RawMessage("null")},
	}
	var got []miniclaw.Event
	r := miniclaw.NewHookRegistry().With(miniclaw.HookFunc(func(_ context.Context, event miniclaw.Event) miniclaw.Action {
		got = append(got, event)
		return miniclaw.Continue()
	}))
	for _, event := range events {
		want(t, r, event, miniclaw.Continue())
	}
	want(t, r, miniclaw.PreToolCall{ToolName: "none"}, miniclaw.Continue())
	text := func(all []miniclaw.Event) string {
		raw, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if got, want := text(got), text(append(events, events[4])); got != want {
		t.Errorf("the hook got\n%s, want\n%s", got, want)
	}
}

// The last change wins, and each hook sees the original arguments.
//
// Proves: MC-08
func TestLastModifyArgsWins(t *testing.T) {
	t.Parallel()
	var saw []string
	adds := func(args string) miniclaw.Hook {
		return miniclaw.HookFunc(func(_ context.Context, event miniclaw.Event) miniclaw.Action {
			saw = append(saw, string(event.(miniclaw.PreToolCall).Args))
			return miniclaw.ModifyArgs(json.RawMessage(args))
		})
	}
	r := miniclaw.NewHookRegistry().With(adds(`{"n":1}`)).With(adds(`{"n":2}`)).With(does(miniclaw.Continue()))
	want(t, r, miniclaw.PreToolCall{ToolName: "build", Args: json.RawMessage(`{"n":0}`)}, miniclaw.ModifyArgs(json.RawMessage(`{ "n": 2 }`)))
	if want := []string{`{"n":0}`, `{"n":0}`}; !slices.Equal(saw, want) {
		t.Errorf("the hooks saw %q, want %q", saw, want)
	}
	want(t, miniclaw.NewHookRegistry().With(does(miniclaw.ModifyArgs(json.RawMessage(`{`)))), pre("build"), miniclaw.Continue())
}

// Dispatch returns the answers for the other events too. The agent ignores them.
//
// Proves: MC-12
func TestAnswersWithoutEffect(t *testing.T) {
	t.Parallel()
	args := miniclaw.ModifyArgs(json.RawMessage(`{"n":1}`))
	for _, event := range []miniclaw.Event{miniclaw.AgentStart{}, post("read"), miniclaw.AgentEnd{}} {
		after := miniclaw.NewLoggingHook()
		want(t, miniclaw.NewHookRegistry().With(does(miniclaw.Block("no"))).With(after), event, miniclaw.Block("no"))
		wantLogged(t, after)
		want(t, miniclaw.NewHookRegistry().With(does(args)), event, args)
	}
	for range 20 { // the engine lets an agent stop after some blocks
		want(t, miniclaw.NewHookRegistry().With(does(miniclaw.Block("no"))), miniclaw.AgentEnd{}, miniclaw.Block("no"))
	}
}

// Proves: MC-03
func TestActions(t *testing.T) {
	t.Parallel()
	all := []miniclaw.Action{miniclaw.Continue(), miniclaw.Block(""), miniclaw.Block("no"), miniclaw.ModifyArgs(json.RawMessage(`{"a":1,"b":2}`)), miniclaw.ModifyArgs(nil)}
	for i, a := range all {
		for j, b := range all {
			if a.Equal(b) != (i == j) {
				t.Errorf("%v.Equal(%v) = %v", a, b, a.Equal(b))
			}
		}
	}
	if same := miniclaw.ModifyArgs(json.RawMessage(`{ "b": 2, "a": 1 }`)); !all[3].Equal(same) {
		t.Errorf("%v and %v differ", all[3], same)
	}
	if reason, blocked := all[2].Reason(); reason != "no" || !blocked {
		t.Error(reason, blocked)
	}
	if _, modified := all[2].Args(); modified {
		t.Error("a Block modifies")
	}
	if (miniclaw.Action{}) != miniclaw.Continue() {
		t.Error("the zero Action is not Continue")
	}
}

// A hook that panics does not end the agent, and a block without a reason gets one.
//
// Proves: MC-04
func TestBadHooks(t *testing.T) {
	t.Parallel()
	panics := miniclaw.HookFunc(func(context.Context, miniclaw.Event) miniclaw.Action { panic("boom") })
	want(t, miniclaw.NewHookRegistry().With(panics), pre("bash"), miniclaw.Continue())
	want(t, miniclaw.NewHookRegistry().With(panics).With(does(miniclaw.Block("no"))), pre("bash"), miniclaw.Block("no"))
	for _, block := range []miniclaw.Action{miniclaw.NewHookRegistry().Dispatch(t.Context(), nil), (&miniclaw.HookRegistry{}).Dispatch(t.Context(), pre("bash"))} {
		if _, blocked := block.Reason(); !blocked {
			t.Errorf("%v, want a block", block)
		}
	}
	if err := (&miniclaw.HookRegistry{}).Register(panics); err == nil {
		t.Error("a registry without an engine accepts a hook")
	}
	if reason, blocked := miniclaw.NewHookRegistry().With(does(miniclaw.Block(""))).Dispatch(t.Context(), pre("bash")).Reason(); !blocked || reason == "" {
		t.Errorf("a block without a reason: %v, %q", blocked, reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reason, blocked := miniclaw.NewHookRegistry().With(does(miniclaw.Continue())).Dispatch(ctx, pre("bash")).Reason()
	if !blocked || !strings.Contains(reason, "hook error: ") {
		t.Errorf("hooks that cannot run: %v, %q, want a block", blocked, reason)
	}
}

// Register returns an error for a hook that cannot work. With, which cannot, blocks all calls.
//
// Proves: MC-18
func TestInvalidHooks(t *testing.T) {
	t.Parallel()
	var none *miniclaw.LoggingHook
	for want, hook := range map[string]miniclaw.Hook{
		"nil":        none,
		"is nil":     nil,
		"no command": miniclaw.NewShellHook(" "),
		`"edit["`:    miniclaw.NewShellHook("true").ForTool("edit["),
	} {
		r := miniclaw.NewHookRegistry()
		if err := r.Register(hook); err == nil || !strings.Contains(err.Error(), want) || !r.IsEmpty() {
			t.Errorf("Register returns %v, want %q and no hook", err, want)
		}
		if reason, _ := r.With(hook).Dispatch(t.Context(), pre("read")).Reason(); !strings.Contains(reason, want) {
			t.Errorf("after With, the reason is %q, want %q", reason, want)
		}
		if got := r.Dispatch(t.Context(), miniclaw.AgentStart{}); got != miniclaw.Continue() {
			t.Errorf("after With, the start gives %v", got)
		}
	}
}

// A shell hook has no time limit.
//
// Proves: MC-21
func TestShellHookHasNoTimeout(t *testing.T) {
	t.Parallel()
	for _, spec := range miniclaw.NewHookRegistry().With(miniclaw.NewShellHook("true")).Engine().Specs("") {
		if spec.Timeout != 0 {
			t.Errorf("the timeout is %v", spec.Timeout)
		}
	}
}

// A registry is safe for concurrent use, and a new hook does not join an event in progress.
//
// Proves: MC-04
func TestConcurrent(t *testing.T) {
	t.Parallel()
	log := miniclaw.NewLoggingHook()
	r := miniclaw.NewHookRegistry().With(log)
	r.With(miniclaw.HookFunc(func(_ context.Context, event miniclaw.Event) miniclaw.Action {
		if _, ok := event.(miniclaw.AgentStart); ok {
			r.With(miniclaw.NewBlockingHook([]string{"bash"}, "no"))
		}
		return miniclaw.Continue()
	}))
	want(t, r, pre("bash"), miniclaw.Continue())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				want(t, r, miniclaw.AgentStart{}, miniclaw.Continue())
				want(t, r, pre("bash"), miniclaw.Block("no"))
			}
		})
	}
	all.Wait()
	if n := len(log.Messages()); n != 1+8*20*2 {
		t.Errorf("%d messages", n)
	}
}

// The hooks also answer in an agent that fires the engine's events. They get no other events.
func TestEngine(t *testing.T) {
	t.Parallel()
	log := miniclaw.NewLoggingHook()
	engine := miniclaw.NewHookRegistry().With(log).With(miniclaw.NewBlockingHook([]string{"bash"}, "no")).Engine()
	for _, ev := range []grapnel.Event{
		{Kind: grapnel.SessionStart},
		{Kind: grapnel.AgentBefore},
		{Kind: grapnel.ToolBefore},
		{Kind: grapnel.AgentAfter},
		{Kind: grapnel.ToolFailed, Tool: &grapnel.Tool{Name: "read", Output: json.RawMessage(`{"error":"gone"}`)}},
	} {
		if v := engine.Fire(t.Context(), &ev); v.Decision != grapnel.None {
			t.Errorf("%s: %v", ev.Kind, v.Decision)
		}
	}
	wantLogged(t, log, "agent:start", "pre:", "agent:end", "post:read")
	v := engine.Fire(t.Context(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "bash"}})
	if v.Decision != grapnel.Block || v.Reason() != "no" {
		t.Errorf("%v %q", v.Decision, v.Reason())
	}
}
