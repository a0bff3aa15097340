package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// stoppable lists the events after which an action runs, or the agent continues.
var stoppable = slices.Concat(groups["action"], groups["open"], groups["tool"], groups["permission"],
	[]grapnel.Kind{grapnel.AgentBefore, grapnel.ToolsetBefore})

// withoutHooks lists the events with methods that run the action themselves, so that they check
// the context even if no hook listens.
var withoutHooks = []grapnel.Kind{
	grapnel.ModelBefore, grapnel.ToolBefore, grapnel.PermissionBefore, grapnel.MessageBefore, grapnel.CompactBefore,
	grapnel.SubagentStart, grapnel.ElicitationBefore, grapnel.TaskBefore, grapnel.TaskAfter, grapnel.ConfigBefore,
}

// Regression: guards do not start if the context is canceled, which was treated as no opinion,
// and the tool or the model ran anyway.
func TestNoActionIfCanceledBefore(t *testing.T) {
	t.Parallel()
	for _, kind := range stoppable {
		for _, listens := range []bool{true, false} {
			if !listens && !slices.Contains(withoutHooks, kind) {
				continue
			}
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "asks", Ask: true}}, Approve: person(true, "", nil)})
				if listens {
					w.add(hook("guard", kind, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
						return grapnel.Outcome{Decision: grapnel.Block, Reason: "never"}, nil
					})))
				}
				w.acts = func() { t.Error("the action ran") }
				var cancel context.CancelFunc
				w.ctx, cancel = context.WithCancel(w.ctx)
				cancel()
				did, err := moments[kind](w)
				if did != "" || !errors.Is(err, context.Canceled) || host.Refused(err) != nil {
					t.Errorf("a hook listens: %t: did %q, %v, want %v", listens, did, err, context.Canceled)
				}
			})
		}
	}
}

// Regression: a guard does not start if the context is canceled while another hook runs, and
// the action ran without the guard's verdict.
func TestNoActionIfCanceledWhileHooksRun(t *testing.T) {
	t.Parallel()
	for _, kind := range append(slices.Clone(stoppable), grapnel.ModelAfter, grapnel.CompactAfter) {
		for _, onError := range []grapnel.OnError{grapnel.OnErrorDefault, grapnel.OnErrorClosed} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "asks", Ask: true}}, Approve: person(true, "", nil)})
				var cancel context.CancelFunc
				w.ctx, cancel = context.WithCancel(w.ctx)
				cancels := hook("cancels", kind, grapnel.Watch(func(context.Context, *grapnel.Event) { cancel() }))
				cancels.Priority = -1
				guard := blocks(kind, "never")
				guard.OnError = onError
				w.add(cancels, guard)
				if kind != grapnel.ModelAfter && kind != grapnel.CompactAfter {
					w.acts = func() { t.Error("the action ran") }
				}
				did, err := moments[kind](w)
				if did != "" || !errors.Is(err, context.Canceled) || host.Refused(err) != nil {
					t.Errorf("on error %v: did %q, %v, want %v", onError, did, err, context.Canceled)
				}
			})
		}
	}
}

// A decision stays in force if the context is canceled afterwards.
func TestRefusalOutlivesContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(w.ctx)
	w.ctx = ctx
	w.add(hook("blocks", grapnel.ToolBefore, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		cancel()
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "never"}, nil
	})))
	did, err := moments[grapnel.ToolBefore](w)
	if no := host.Refused(err); no == nil || no.Reason != "never" {
		t.Errorf("did %q, %v, want the refusal", did, err)
	}
}

// A canceled call has one result and no tool.after or tool.failed event, because the tool did
// not run. The cause of the context is part of the error.
func TestResultOfCanceledCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.watch(grapnel.ToolBefore, grapnel.ToolAfter, grapnel.ToolFailed)
	ctx, cancel := context.WithCancelCause(w.ctx)
	w.add(hook("cancels", grapnel.ToolBefore, grapnel.Watch(func(context.Context, *grapnel.Event) { cancel(errBroken) })))
	call := host.Call{ID: "c1", Name: "echo", Input: json.RawMessage(`{"a":1}`)}
	for range 2 { // canceled while hooks run, and before
		r, err := host.Tool(ctx, call, func(context.Context, json.RawMessage) (json.RawMessage, error) {
			t.Error("the tool ran")
			return nil, nil
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, errBroken) {
			t.Errorf("got %v, want %v with its cause", err, context.Canceled)
		}
		if !r.Failed || r.Call.ID != call.ID || r.Refusal != nil || !json.Valid(r.Output) {
			t.Errorf("got %+v, want a valid result that failed", r)
		}
	}
	if got := w.kinds(); !slices.Equal(got, []grapnel.Kind{grapnel.ToolBefore}) {
		t.Errorf("fired %v, want tool.before alone, and once", got)
	}
}

// Guards also change the transcript of a canceled turn. Otherwise the transcript would contain
// data that a guard hides.
func TestTranscriptOfCanceledTurnIsGuarded(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, &model{replies: []host.Response{wants("echo")}}, sets(grapnel.TranscriptBefore, grapnel.FieldMessage, `{"role":"tool","content":"***"}`))
	cancelInBatch(a)
	a.model.replies = []host.Response{wants("echo")}
	var stored []host.ChatMessage
	a.loop.Store = func(_ context.Context, m host.ChatMessage) error { stored = append(stored, m); return nil }
	if _, err := a.run("hello"); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want %v", err, context.Canceled)
	}
	if len(stored) != 3 {
		t.Errorf("%d messages are stored, want the prompt, the call and its result", len(stored))
	}
	for i := range stored {
		if stored[i].Text() != "***" {
			t.Errorf("stored %q, which no guard has seen", stored[i].Text())
		}
	}
}
