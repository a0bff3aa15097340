package ironclaw_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/systems/ironclaw"
)

// events has one event for each point.
var events = []ironclaw.HookEvent{
	ironclaw.SessionStart{UserID: "u", SessionID: "s"},
	ironclaw.Inbound{UserID: "u", Channel: "web", Content: "in", ThreadID: "t"},
	ironclaw.ToolCall{ToolName: "pay", Parameters: json.RawMessage(`{"b":1,"a":9007199254740993}`), UserID: "u", Context: "job:7"},
	ironclaw.ResponseTransform{UserID: "u", ThreadID: "t", Response: "done"},
	ironclaw.Outbound{UserID: "u", Channel: "mail", Content: "out", ThreadID: "t"},
	ironclaw.SessionEnd{UserID: "u", SessionID: "s", ThreadIDs: []string{"t"}},
}

// hook returns a hook with an outcome for the messages of users.
func hook(name string, outcome ironclaw.HookOutcome) ironclaw.HookFunc {
	return does(name, func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error) { return outcome, nil })
}

func does(name string, f func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error)) ironclaw.HookFunc {
	return ironclaw.HookFunc{
		HookName: name, Points: []ironclaw.HookPoint{ironclaw.BeforeInbound},
		Func: func(ctx context.Context, ev ironclaw.HookEvent, _ *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
			return f(ctx, ev)
		},
	}
}

func appends(name, more string) ironclaw.HookFunc {
	return does(name, func(_ context.Context, ev ironclaw.HookEvent) (ironclaw.HookOutcome, error) {
		return ironclaw.Modify(ev.PrimaryContent() + more), nil
	})
}

func registryWith(t *testing.T, hooks ...ironclaw.Hook) *ironclaw.HookRegistry {
	t.Helper()
	r := ironclaw.NewHookRegistry(nil)
	for _, h := range hooks {
		if err := r.Register(h); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// A hook gets each event as the agent gave it, with null as metadata.
//
// Proves: IC-01, IC-02, IC-03, IC-08, IC-15
func TestEvents(t *testing.T) {
	t.Parallel()
	var points []ironclaw.HookPoint
	for _, event := range events {
		points = append(points, event.Point())
		var got []ironclaw.HookEvent
		r := registryWith(t, ironclaw.HookFunc{
			HookName: "see", Points: []ironclaw.HookPoint{event.Point()},
			Func: func(_ context.Context, ev ironclaw.HookEvent, hookCtx *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
				if got = append(got, ev); string(hookCtx.Metadata) != "null" {
					t.Errorf("metadata %s, want null", hookCtx.Metadata)
				}
				return ironclaw.OK(), nil
			},
		})
		for _, e := range events {
			if outcome, err := r.Run(t.Context(), e); outcome != ironclaw.OK() || err != nil {
				t.Errorf("%T: %v, %v", e, outcome, err)
			}
		}
		if diff := cmp.Diff([]ironclaw.HookEvent{event}, got); diff != "" {
			t.Errorf("the hook got (-want +got):\n%s", diff)
		}
	}
	all := ironclaw.HookPoints()
	slices.Sort(all)
	slices.Sort(points)
	if !slices.Equal(points, all) {
		t.Errorf("the events are at %q, want all points %q", points, all)
	}
	if got := events[2].PrimaryContent(); got != `{"a":9007199254740993,"b":1}` {
		t.Errorf("primary content %s", got)
	}
	if got := (ironclaw.ToolCall{}).PrimaryContent(); got != "null" {
		t.Errorf("primary content of a call without parameters: %s", got)
	}
	if _, err := ironclaw.NewHookRegistry(nil).Run(t.Context(), nil); err == nil {
		t.Error("a nil event is accepted")
	}
	if _, err := (&ironclaw.HookRegistry{}).Run(t.Context(), events[1]); err == nil {
		t.Error("a registry without an engine runs")
	}
}

// A modification replaces the primary content of an event, except of a session.
//
// Proves: IC-04, IC-16, IC-18, IC-19, IC-20
func TestModify(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		event ironclaw.HookEvent
		text  string
		want  ironclaw.HookOutcome
	}{
		"inbound":       {events[1], "new", ironclaw.Modify("new")},
		"unchanged":     {events[1], "in", ironclaw.OK()},
		"empty":         {events[1], "", ironclaw.Modify("")},
		"JSON is text":  {events[1], `"x"`, ironclaw.Modify(`"x"`)},
		"response":      {events[3], "new", ironclaw.Modify("new")},
		"outbound":      {events[4], "new", ironclaw.Modify("new")},
		"call":          {events[2], `{"a": 1}`, ironclaw.Modify(`{"a": 1}`)},
		"call, text":    {events[2], `"x"`, ironclaw.Modify(`"x"`)},
		"call, no JSON": {events[2], "new", ironclaw.OK()},
		"call, order":   {events[2], `{"a":9007199254740993,"b":1}`, ironclaw.OK()},
		"session start": {events[0], "new", ironclaw.OK()},
		"session end":   {events[5], "new", ironclaw.OK()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hook("h", ironclaw.Modify(tt.text))
			h.Points = ironclaw.HookPoints()
			h.Mode = ironclaw.FailClosed // a modification is never a failure
			if got, err := registryWith(t, h).Run(t.Context(), tt.event); got != tt.want || err != nil {
				t.Errorf("Modify(%q) gives %v, %v, want %v", tt.text, got, err, tt.want)
			}
		})
	}
}

// Hooks run by priority, each on the text of the hooks before it, and the first rejection ends the
// run.
//
// Proves: IC-09, IC-10, IC-11, IC-12, IC-13, IC-14, IC-16, IC-17
func TestOrder(t *testing.T) {
	t.Parallel()
	r := ironclaw.NewHookRegistry(nil)
	if got, err := r.Run(t.Context(), events[1]); got != ironclaw.OK() || err != nil {
		t.Errorf("an empty registry gives %v, %v", got, err)
	}
	for _, h := range []struct {
		hook     ironclaw.Hook
		priority uint32
	}{{appends("last", "3"), 200}, {appends("b", "2"), 100}, {appends("c", "!"), 100}, {appends("first", "1"), 0}, {appends("b", "two"), 100}} {
		if err := r.RegisterWithPriority(h.hook, h.priority); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"first", "b", "c", "last"}; !slices.Equal(r.List(), want) {
		t.Errorf("list %q, want %q", r.List(), want)
	}
	if got, err := r.Run(t.Context(), events[1]); got != ironclaw.Modify("in1two!3") || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if !r.Unregister("c") || r.Unregister("c") {
		t.Error("Unregister(c) must be true once")
	}
	if err := r.RegisterWithPriority(hook("no", ironclaw.Reject("not today")), 50); err != nil {
		t.Fatal(err)
	}
	got, err := r.Run(t.Context(), events[1])
	rejected, ok := errors.AsType[*ironclaw.RejectedError](err)
	if got != ironclaw.OK() || !ok || *rejected != (ironclaw.RejectedError{Hook: "no", Reason: "not today"}) {
		t.Errorf("%v, %v, want a rejection", got, err)
	}
}

// Only a failure depends on the mode. The three errors are different types.
//
// Proves: IC-05, IC-06, IC-07, IC-21, IC-22, IC-23, IC-24, IC-25, IC-32
func TestFailureModes(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	late := func(ctx context.Context, _ ironclaw.HookEvent) (ironclaw.HookOutcome, error) {
		<-ctx.Done()
		return ironclaw.OK(), ctx.Err()
	}
	fails := func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error) { return ironclaw.OK(), broken }
	panics := func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error) { panic("boom") }
	rejects := func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error) {
		return ironclaw.Reject("no"), nil
	}
	for _, event := range []ironclaw.HookEvent{events[0], events[1]} { // the engine itself permits no block at a session event
		for name, tt := range map[string]struct {
			mode ironclaw.HookFailureMode
			does func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error)
			want string // the type of the error
		}{
			"error, open":    {ironclaw.FailOpen, fails, "<nil>"},
			"error, closed":  {ironclaw.FailClosed, fails, "*ironclaw.ExecutionFailedError"},
			"panic, open":    {ironclaw.FailOpen, panics, "<nil>"},
			"panic, closed":  {ironclaw.FailClosed, panics, "*ironclaw.ExecutionFailedError"},
			"late, open":     {ironclaw.FailOpen, late, "<nil>"},
			"late, closed":   {ironclaw.FailClosed, late, "*ironclaw.TimeoutError"},
			"reject, open":   {ironclaw.FailOpen, rejects, "*ironclaw.RejectedError"},
			"reject, closed": {ironclaw.FailClosed, rejects, "*ironclaw.RejectedError"},
		} {
			t.Run(fmt.Sprintf("%T, %s", event, name), func(t *testing.T) {
				t.Parallel()
				first, h := appends("first", "!"), does("h", tt.does)
				first.Points, h.Points = ironclaw.HookPoints(), ironclaw.HookPoints()
				h.Mode, h.Limit = tt.mode, 20*time.Millisecond
				got, err := registryWith(t, first, h).Run(t.Context(), event)
				if fmt.Sprintf("%T", err) != tt.want {
					t.Fatalf("error %T (%v), want %s", err, err, tt.want)
				}
				want := ironclaw.OK()
				if _, ok := event.(ironclaw.Inbound); ok && err == nil {
					want = ironclaw.Modify("in!")
				}
				if got != want {
					t.Errorf("outcome %v, want %v", got, want)
				}
				if err != nil && !strings.Contains(err.Error(), `"h"`) {
					t.Errorf("%q does not name the hook", err)
				}
				if strings.HasPrefix(name, "error, closed") && !errors.Is(err, broken) || strings.HasPrefix(name, "panic, closed") && !errors.Is(err, grapnel.ErrPanic) {
					t.Errorf("%v does not wrap the cause", err)
				}
				if late, ok := errors.AsType[*ironclaw.TimeoutError](err); ok && (late.Duration != h.Limit || !errors.Is(err, grapnel.ErrTimeout)) {
					t.Errorf("%#v, want %v and ErrTimeout", late, h.Limit)
				}
			})
		}
	}
}

// If the caller's context is done, the hooks do not run, and Run returns an error in every mode.
func TestRunWithoutTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := registryWith(t, hook("guard", ironclaw.Reject("no"))).Run(ctx, events[1])
	if _, ok := errors.AsType[*ironclaw.ExecutionFailedError](err); !ok || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want an ExecutionFailedError of the context", err)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	var none *pointer
	fine := hook("h", ironclaw.OK())
	for want, h := range map[string]ironclaw.Hook{
		"nil":                none,
		"no name":            hook("", ironclaw.OK()),
		"Func is nil":        ironclaw.HookFunc{HookName: "h", Points: fine.Points},
		"no hook points":     ironclaw.HookFunc{HookName: "h", Func: fine.Func},
		`"beforeInbond"`:     ironclaw.HookFunc{HookName: "h", Func: fine.Func, Points: []ironclaw.HookPoint{"beforeInbond"}},
		"timeout -1s is neg": ironclaw.HookFunc{HookName: "h", Func: fine.Func, Points: fine.Points, Limit: -time.Second},
	} {
		r := ironclaw.NewHookRegistry(nil)
		if err := r.Register(h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		if got := r.List(); len(got) > 0 {
			t.Errorf("%q is registered", got)
		}
	}
	if err := ironclaw.NewHookRegistry(nil).Register(nil); err == nil {
		t.Error("a nil hook is accepted")
	}
}

type pointer struct{ ironclaw.HookFunc }

// The default and the limit of a timeout are the preset's.
//
// Proves: IC-05
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]time.Duration{0: ironclaw.DefaultTimeout, time.Second: time.Second, time.Hour: ironclaw.MaxTimeout} {
		h := hook("h", ironclaw.OK())
		h.Limit = limit
		if got := registryWith(t, h).Engine().Specs("")[0].Timeout; got != want {
			t.Errorf("a limit of %v becomes %v, want %v", limit, got, want)
		}
	}
}

// Removing an extension removes exactly its hooks.
//
// Proves: IC-42
func TestUnregisterSource(t *testing.T) {
	t.Parallel()
	r := registryWith(t, hook("plugin.tool:git::a", ironclaw.OK()), hook("plugin.tool:git::b", ironclaw.OK()), hook("plugin.tool:github::a", ironclaw.OK()))
	if n := r.UnregisterSource("plugin.tool:git"); n != 2 || !slices.Equal(r.List(), []string{"plugin.tool:github::a"}) {
		t.Errorf("removed %d, left %q", n, r.List())
	}
}

// Hooks can be registered and removed while others run, and do not affect these runs.
//
// Proves: IC-26
func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := registryWith(t, appends("a", "!"))
	if err := r.Register(does("grow", func(context.Context, ironclaw.HookEvent) (ironclaw.HookOutcome, error) {
		return ironclaw.OK(), r.Register(hook("no", ironclaw.Reject("late")))
	})); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Run(t.Context(), events[1]); got != ironclaw.Modify("in!") || err != nil {
		t.Errorf("%v, %v, want that the new hook does not run", got, err)
	}
	if _, err := r.Run(t.Context(), events[1]); err == nil {
		t.Error("the new hook does not run at the next event")
	}
	r.Unregister("grow")
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if _, err := r.Run(ctx, events[1]); err != nil && !strings.Contains(err.Error(), "late") {
					t.Error(err)
				}
				name := fmt.Sprint("x", i)
				if err := r.Register(appends(name, "?")); err != nil || !r.Unregister(name) {
					t.Error(name, err)
				}
			}
		})
	}
	all.Wait()
}

func TestNames(t *testing.T) {
	t.Parallel()
	type bundle struct {
		Points []ironclaw.HookPoint     `json:"points"`
		Mode   ironclaw.HookFailureMode `json:"failure_mode"`
	}
	const text = `{"points":["beforeInbound","onSessionEnd"],"failure_mode":"fail_closed"}`
	var b bundle
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Mode != ironclaw.FailClosed {
		t.Fatalf("%+v, %v", b, err)
	}
	if got, err := json.Marshal(b); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	for _, wrong := range []string{`{"points":["BeforeInbound"]}`, `{"failure_mode":"closed"}`} {
		if err := json.Unmarshal([]byte(wrong), &b); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
	if got := fmt.Sprint(ironclaw.OK(), ironclaw.Modify("x"), ironclaw.Reject("y"), ironclaw.HookFailureMode(9)); got != "OK Modify(x) Reject(y) failure_mode(9)" {
		t.Error(got)
	}
	if reason, ok := ironclaw.Reject("y").Rejected(); reason != "y" || !ok {
		t.Error(reason, ok)
	}
}

// A hook that was added to the engine can ask a person. Run has no such answer, so it rejects.
func TestAskRejects(t *testing.T) {
	t.Parallel()
	r := ironclaw.NewHookRegistry(nil)
	if err := r.Engine().Add(grapnel.Spec{Name: "ask", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Ask}, nil
	})}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Run(t.Context(), events[2])
	if _, ok := errors.AsType[*ironclaw.RejectedError](err); !ok {
		t.Errorf("error %v, want a rejection", err)
	}
}
