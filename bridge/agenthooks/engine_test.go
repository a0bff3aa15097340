package agenthooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/host"
)

// hooked returns an agent with a single interceptor: an engine with one hook.
func hooked(t testing.TB, on grapnel.Kind, hook grapnel.Func, spec grapnel.Spec) *agent {
	t.Helper()
	spec.Name, spec.On, spec.Hook = "guard", []grapnel.Kind{on}, hook
	preset := agenthooks.Preset()
	engine, err := grapnel.New([]grapnel.Spec{preset.Defaults(spec)}, &grapnel.Options{Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	return &agent{args: []string{`{"to":"ada","n":1.50}`}, opts: agenthooks.Options{Engine: engine}}
}

func always(o grapnel.Outcome) grapnel.Func {
	return func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return o, nil }
}

// The engine's verdicts are converted to the specification's terms and back.
func TestEngine(t *testing.T) {
	t.Parallel()
	set := func(f grapnel.Field, value string) grapnel.Func {
		return always(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{f: json.RawMessage(value)}})
	}
	fails := func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{}, errors.New("no")
	}
	waits := func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
		<-ctx.Done()
		return grapnel.Outcome{}, ctx.Err()
	}
	approve := func(_ context.Context, r *agenthooks.Request) (agenthooks.Resolution, error) {
		return agenthooks.Resolution{Outcome: agenthooks.Approve, ContextIdentity: r.ContextIdentity, Verdict: json.RawMessage(`{"decision":"allow"}`)}, nil
	}
	for name, c := range map[string]struct {
		on       grapnel.Kind
		hook     grapnel.Func
		spec     grapnel.Spec
		resolve  agenthooks.Resolver
		point    string
		decision agenthooks.Decision
		reason   string
		ran      string // args of the tool; empty = it did not run
		reads    string // text that the model gets
		outcome  host.Status
	}{
		"no opinion":      {grapnel.ToolBefore, always(grapnel.Outcome{}), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Allow, "", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
		"allow":           {grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Allow}), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Allow, "", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
		"block":           {grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Block, Reason: "not today"}), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Deny, "grapnel:guard", "", "not today", host.StatusCompleted},
		"halt":            {grapnel.ToolBefore, always(grapnel.Outcome{Halt: "enough"}), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Deny, "grapnel:guard", "", "", host.StatusBlocked},
		"ask":             {grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Deny, "grapnel:guard", "", "sure?", host.StatusCompleted},
		"ask, yes":        {grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}), grapnel.Spec{}, approve, "pre_tool_call", agenthooks.Allow, "", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
		"change":          {grapnel.ToolBefore, set(grapnel.FieldInput, `{"to":"***"}`), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Transform, "", `{"to":"***"}`, "queued", host.StatusCompleted},
		"answer":          {grapnel.ToolBefore, set(grapnel.FieldOutput, `"instead"`), grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Deny, "grapnel", "", "tool.output must be changed", host.StatusCompleted},
		"ask, changing":   {grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?", Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"to":"***"}`)}}), grapnel.Spec{}, approve, "pre_tool_call", agenthooks.Deny, "grapnel:guard", "", `{"to":"***"}`, host.StatusCompleted},
		"fails open":      {grapnel.ToolBefore, fails, grapnel.Spec{OnError: grapnel.OnErrorOpen}, nil, "pre_tool_call", agenthooks.Deny, "host_error:interceptor_failed", "", "interceptor_failed", host.StatusCompleted},
		"late, open":      {grapnel.ToolBefore, waits, grapnel.Spec{OnError: grapnel.OnErrorOpen, Timeout: time.Millisecond}, nil, "pre_tool_call", agenthooks.Deny, "host_error:interceptor_timeout", "", "interceptor_timeout", host.StatusCompleted},
		"fails closed":    {grapnel.ToolBefore, fails, grapnel.Spec{}, nil, "pre_tool_call", agenthooks.Deny, "grapnel:guard", "", "could not answer", host.StatusCompleted},
		"observes":        {grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Block}), grapnel.Spec{Observe: true}, nil, "pre_tool_call", agenthooks.Allow, "", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
		"observer fails":  {grapnel.ToolBefore, fails, grapnel.Spec{Observe: true}, nil, "pre_tool_call", agenthooks.Allow, "", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
		"start fails":     {grapnel.SessionStart, fails, grapnel.Spec{}, nil, "agent_startup", agenthooks.Deny, "host_error:interceptor_failed", "", "", host.StatusBlocked},
		"start halts":     {grapnel.SessionStart, always(grapnel.Outcome{Halt: "no"}), grapnel.Spec{}, nil, "agent_startup", agenthooks.Deny, "grapnel", "", "", host.StatusBlocked},
		"prompt context":  {grapnel.PromptBefore, always(grapnel.Outcome{Context: []string{"it is raining"}}), grapnel.Spec{}, nil, "input", agenthooks.Transform, "", `{"to":"ada","n":1.50}`, "hello\\n\\nit is raining", host.StatusCompleted},
		"prompt change":   {grapnel.PromptBefore, set(grapnel.FieldPrompt, `"HELLO"`), grapnel.Spec{}, nil, "input", agenthooks.Transform, "", `{"to":"ada","n":1.50}`, "HELLO", host.StatusCompleted},
		"prompt blocked":  {grapnel.PromptBefore, always(grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}), grapnel.Spec{}, nil, "input", agenthooks.Deny, "grapnel:guard", "", "", host.StatusBlocked},
		"model blocked":   {grapnel.ModelBefore, always(grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}), grapnel.Spec{}, nil, "pre_model_call", agenthooks.Deny, "grapnel:guard", "", "", host.StatusBlocked},
		"model changed":   {grapnel.ModelBefore, set(grapnel.FieldRequest, `{"model":"other","messages":[]}`), grapnel.Spec{}, nil, "pre_model_call", agenthooks.Deny, "grapnel", "", "", host.StatusBlocked},
		"model answered":  {grapnel.ModelBefore, set(grapnel.FieldResponse, `{"content":"cached"}`), grapnel.Spec{}, nil, "pre_model_call", agenthooks.Deny, "grapnel", "", "", host.StatusBlocked},
		"response change": {grapnel.ModelAfter, set(grapnel.FieldResponse, `{"content":"changed","tool_calls":[],"finish_reason":"stop"}`), grapnel.Spec{}, nil, "post_model_call", agenthooks.Transform, "", "", "", host.StatusCompleted},
		"output changed":  {grapnel.ToolAfter, set(grapnel.FieldOutput, `"masked"`), grapnel.Spec{}, nil, "post_tool_call", agenthooks.Transform, "", `{"to":"ada","n":1.50}`, "masked", host.StatusCompleted},
		"output blocked":  {grapnel.ToolAfter, always(grapnel.Outcome{Decision: grapnel.Block, Reason: "not for you"}), grapnel.Spec{}, nil, "post_tool_call", agenthooks.Deny, "grapnel:guard", `{"to":"ada","n":1.50}`, "not for you", host.StatusCompleted},
		"output context":  {grapnel.ToolAfter, always(grapnel.Outcome{Context: []string{"by the way"}}), grapnel.Spec{}, nil, "post_tool_call", agenthooks.Allow, "", `{"to":"ada","n":1.50}`, "by the way", host.StatusCompleted},
		"answer changed":  {grapnel.ResponseBefore, set(grapnel.FieldResponse, `"DONE"`), grapnel.Spec{}, nil, "output", agenthooks.Transform, "", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
		"end blocked":     {grapnel.SessionEnd, always(grapnel.Outcome{Halt: "no"}), grapnel.Spec{}, nil, "agent_shutdown", agenthooks.Deny, "grapnel", `{"to":"ada","n":1.50}`, "queued", host.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := hooked(t, c.on, c.hook, c.spec)
			a.opts.Resolve = c.resolve
			answer := a.run(t, hello)
			r := a.wantReason(t, c.point, c.reason)
			if r.Verdict.Decision != c.decision || r.Verdicts[0].Name != "grapnel" || r.InterceptorsRegistered != 1 {
				t.Errorf("record %+v, want %s", r, c.decision)
			}
			if answer.Status != c.outcome {
				t.Errorf("the turn is %s, want %s", answer.Status, c.outcome)
			}
			if got := strings.Join(a.ran, " "); got != c.ran {
				t.Errorf("the tool got %s, want %s", got, c.ran)
			}
			read, err := json.Marshal(a.requests)
			if err != nil {
				t.Fatal(err)
			}
			if plain := strings.ReplaceAll(string(read), `\"`, `"`); !strings.Contains(plain, c.reads) {
				t.Errorf("the model read %s, want %s in it", read, c.reads)
			}
			if name == "prompt context" && strings.Count(string(a.requests[0].Messages[0].Content), "raining") != 1 {
				t.Errorf("the model read %s", a.requests[0].Messages[0].Content)
			}
			if strings.Contains(string(read), "queued") && (name == "output changed" || name == "output blocked") {
				t.Errorf("the model read what was replaced: %s", read)
			}
		})
	}
}

// The engine gets the changes of earlier interceptors, with updated derived fields.
func TestEngineSeesTheFold(t *testing.T) {
	t.Parallel()
	var saw []string
	a := hooked(t, grapnel.ToolBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		saw = append(saw, string(ev.Tool.Input))
		return grapnel.Outcome{}, nil
	}, grapnel.Spec{})
	a.opts.Interceptors = []agenthooks.Interceptor{withVerdict("mask", "pre_tool_call", `{"decision":"transform","transform":{"path":"$target.to","value":"***"}}`)}
	a.run(t, hello)
	if want := []string{`{"n":1.50,"to":"***"}`}; !slices.Equal(saw, want) || !slices.Equal(a.ran, want) {
		t.Errorf("the engine saw %v, the tool got %v, want %v", saw, a.ran, want)
	}
}

// A next call that a hook requests is made, and judged like any other.
func TestEngineNextCall(t *testing.T) {
	t.Parallel()
	next := true
	a := hooked(t, grapnel.ToolAfter, func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		if !next {
			return grapnel.Outcome{}, nil
		}
		next = false
		return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldNext: json.RawMessage(`{"name":"mail","input":{"second":true}}`)}}, nil
	}, grapnel.Spec{})
	a.run(t, hello)
	if want := []string{`{"to":"ada","n":1.50}`, `{"second":true}`}; !slices.Equal(a.ran, want) || len(a.at("pre_tool_call")) != 2 {
		t.Errorf("the tool got %v, want %v", a.ran, want)
	}
}

// Content of a prompt that is not a string is a text for hooks, and keeps its type. Context
// that hooks add is separate from it.
func TestEnginePromptThatIsNoText(t *testing.T) {
	t.Parallel()
	a := hooked(t, grapnel.PromptBefore, func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		o, err := grapnel.Replace(grapnel.FieldPrompt, strings.ReplaceAll(ev.Prompt.Text, "secret", "***"))
		o.Context = []string{"it is raining"}
		return o, err
	}, grapnel.Spec{})
	a.run(t, host.ChatMessage{Role: "external", Content: json.RawMessage(`{"form":"secret"}`)})
	first := a.requests[0].Messages
	if got := string(first[0].Content); first[0].Role != "external" || got != `{"form":"***"}` {
		t.Errorf("the model read %s of %s", got, first[0].Role)
	}
	if got := first[len(first)-1].Text(); got != "it is raining" {
		t.Errorf("the context is %q", got)
	}
}

// Events that are not emissions are passed to the engine unchanged. An engine without hooks for
// them produces no emission.
func TestOtherEvents(t *testing.T) {
	t.Parallel()
	a := hooked(t, grapnel.AgentAfter, always(grapnel.Outcome{Decision: grapnel.Block, Reason: "not done yet"}), grapnel.Spec{})
	hooks, err := agenthooks.New(&a.opts)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[grapnel.Kind]bool{grapnel.AgentAfter: true, grapnel.AgentFailed: false, grapnel.ToolBefore: true, grapnel.ToolFailed: true, grapnel.SessionEnd: true} {
		if got, _ := hooks.Listens(kind); got != want {
			t.Errorf("Has(%s) = %v", kind, got)
		}
	}
	a.args = nil
	a.run(t, hello)
	if second := a.requests[1].Messages; second[len(second)-1].Text() != "not done yet" {
		t.Errorf("the second time the model was asked %+v", second)
	}
	bare, err := agenthooks.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if ev := (&grapnel.Event{Kind: grapnel.AgentAfter}); heard(bare, ev.Kind) || bare.Fire(t.Context(), ev).Event != ev {
		t.Error("without an engine somebody answers")
	}
}

// In evaluate_only the engine is called but its verdicts have no effect, including halts.
func TestEngineEvaluateOnly(t *testing.T) {
	t.Parallel()
	a := hooked(t, grapnel.ToolBefore, always(grapnel.Outcome{Decision: grapnel.Block, Reason: "no", Halt: "stop"}), grapnel.Spec{})
	a.opts.Mode = agenthooks.EvaluateOnly
	if answer := a.run(t, hello); answer.Status != host.StatusCompleted || len(a.ran) != 1 || a.at("pre_tool_call")[0].Verdict.Decision != agenthooks.Deny {
		t.Errorf("the turn is %s, the tool ran with %v, record %+v", answer.Status, a.ran, a.at("pre_tool_call"))
	}
}

func heard(h *agenthooks.Hooks, k grapnel.Kind) bool {
	heard, _ := h.Listens(k)
	return heard
}
