package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Without a session in the context nothing runs: a lost context must not disable all guards.
func TestNoSession(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ran := func() { t.Error("it ran") }
	result, err := host.Tool(ctx, host.Call{ID: "1", Name: "sh"}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
		ran()
		return nil, nil
	})
	if !errors.Is(err, host.ErrNoSession) || !result.Failed || result.Call.ID != "1" || result.Text() != err.Error() {
		t.Errorf("Tool = %+v, %v", result, err)
	}
	if _, err := host.Model(ctx, "hello", func(context.Context, string) (string, error) {
		ran()
		return "", nil
	}); !errors.Is(err, host.ErrNoSession) {
		t.Errorf("Model = %v", err)
	}
	if _, err := host.Stream(ctx, "hello", func(context.Context, string, func(string) error) (string, error) {
		ran()
		return "", nil
	}, nil); !errors.Is(err, host.ErrNoSession) {
		t.Errorf("Stream = %v", err)
	}
	if _, err := host.Subagent(ctx, grapnel.Subagent{}, "look", func(context.Context, string) (string, error) {
		ran()
		return "", nil
	}); !errors.Is(err, host.ErrNoSession) {
		t.Errorf("Subagent = %v", err)
	}
	a := newAgent(t, nil, &model{})
	if answer, err := a.loop.Run(ctx, host.Text("user", "hello")); !errors.Is(err, host.ErrNoSession) || answer != nil || len(a.model.asked) > 0 {
		t.Errorf("Run = %+v, %v", answer, err)
	}
}

// A Refusal of a guard that failed has the error of the guard.
func TestRefusalHasTheError(t *testing.T) {
	t.Parallel()
	engine, err := grapnel.New([]grapnel.Spec{{Name: "broken", Hook: grapnel.Guard(func(*grapnel.Event) string { panic("boom") })}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	errGone := errors.New("nobody is here")
	h := host.New(engine, &host.Options{Approve: host.ApproverFunc(func(context.Context, *host.Question) (host.Consent, error) {
		return host.Consent{}, errGone
	}), Tools: []host.ToolInfo{{Name: "sh", Ask: true}}})
	ctx, s, _, err := h.Start(t.Context(), grapnel.Session{ID: "s"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	defer s.End(ctx, "exit")
	next := func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }
	r, err := host.Tool(ctx, host.Call{Name: "sh"}, next)
	if err != nil || r.Refusal == nil || !errors.Is(r.Refusal, grapnel.ErrPanic) {
		t.Errorf("a broken guard: %+v, %v", r.Refusal, err)
	}
	engine.Remove(func(*grapnel.Spec) bool { return true })
	r, err = host.Tool(ctx, host.Call{Name: "sh"}, next)
	if err != nil || r.Refusal == nil || !errors.Is(r.Refusal, errGone) {
		t.Errorf("a broken approver: %+v, %v", r.Refusal, err)
	}
	if err := engine.Add(grapnel.Spec{Name: "no", Hook: grapnel.Guard(func(*grapnel.Event) string { return "no" })}); err != nil {
		t.Fatal(err)
	}
	if r, _ := host.Tool(ctx, host.Call{Name: "sh"}, next); r.Refusal == nil || r.Refusal.Err != nil {
		t.Errorf("a guard that decided: %+v", r.Refusal)
	}
}
