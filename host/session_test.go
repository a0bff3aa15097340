package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// audit returns a hook that records which agent called a tool.
func audit(list *[]string, mu *sync.Mutex, name string) grapnel.Spec {
	return grapnel.Spec{Name: name, On: []grapnel.Kind{grapnel.ToolBefore}, Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
		mu.Lock()
		defer mu.Unlock()
		who := "main"
		if ev.Session.Subagent != nil {
			who = ev.Session.Subagent.ID
		}
		*list = append(*list, name+" "+ev.Session.ID+" "+who)
	})}
}

// The hooks of a session apply to all agents that work for it: sub-agents of sub-agents, and
// independent agents with their own engine. Hooks that are added later apply too. No hook runs
// twice.
//
// Proves: FL-37
func TestSubagentsHaveTheHooks(t *testing.T) {
	t.Parallel()
	var heard []string
	var mu sync.Mutex
	engine, err := grapnel.New([]grapnel.Spec{audit(&heard, &mu, "program")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := grapnel.New([]grapnel.Spec{audit(&heard, &mu, "session")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, err := grapnel.New([]grapnel.Spec{audit(&heard, &mu, "own")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context) {
		t.Helper()
		if _, err := host.Tool(ctx, host.Call{Name: "x"}, echo); err != nil {
			t.Error(err)
		}
	}
	want := func(list ...string) {
		t.Helper()
		slices.Sort(heard)
		slices.Sort(list)
		if !slices.Equal(heard, list) {
			t.Errorf("heard %q, want %q", heard, list)
		}
		heard = nil
	}
	h := host.New(engine, nil)
	ctx, s, _, err := h.Start(grapnel.NewContext(t.Context(), session), grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	call(ctx)
	want("program s1 main", "session s1 main")
	_, err = host.Subagent(ctx, grapnel.Subagent{ID: "a"}, "task", func(ctx context.Context, _ string) (string, error) {
		call(ctx)
		want("program s1 a", "session s1 a")
		return host.Subagent(ctx, grapnel.Subagent{ID: "b"}, "task", func(ctx context.Context, _ string) (string, error) {
			call(ctx)
			want("program s1 b", "session s1 b")
			if err := session.Add(audit(&heard, &mu, "later")); err != nil {
				t.Error(err)
			}
			call(ctx)
			want("program s1 b", "session s1 b", "later s1 b")

			// An independent agent.
			for _, hooks := range []host.Hooks{own, nil} {
				ctx, _, _, err := host.New(hooks, nil).Start(ctx, grapnel.Session{ID: "s2"}, "startup")
				if err != nil {
					t.Error(err)
				}
				call(ctx)
				if all := []string{"program s2 main", "session s2 main", "later s2 main"}; hooks == nil {
					want(all...)
				} else {
					want(append(all, "own s2 main")...)
				}
			}
			return "", nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	session.Remove(func(*grapnel.Spec) bool { return true })
	call(ctx)
	want("program s1 main")
	if s.Info().Subagent != nil {
		t.Errorf("the session itself is told to be of a sub-agent: %+v", s.Info())
	}
}

// The outcomes of a sub-agent.
//
// Proves: FL-37
func TestSubagent(t *testing.T) {
	t.Parallel()
	goesOn := hook("h", grapnel.SubagentAfter, grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Stop.Active {
			return grapnel.Outcome{}, nil
		}
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "look again at " + ev.Stop.LastMessage, Context: []string{"slowly"}}, nil
	}))
	tests := map[string]struct {
		spec    grapnel.Spec
		fails   bool
		prompts []string
		answer  string
		refused string
	}{
		"no opinion": {spec: returning("h", grapnel.SubagentAfter, grapnel.Outcome{}), prompts: []string{"task"}, answer: "answer 1"},
		"refused":    {spec: blocks(grapnel.SubagentStart, "too many"), refused: "too many"},
		"sent on":    {spec: goesOn, prompts: []string{"task", "look again at answer 1\n\nslowly"}, answer: "answer 2"},
		"for ever":   {spec: blocks(grapnel.SubagentAfter, "more"), prompts: append([]string{"task"}, slices.Repeat([]string{"more"}, 8)...), answer: "answer 9"},
		"ended":      {spec: returning("h", grapnel.SubagentAfter, grapnel.Outcome{Halt: "enough"}), prompts: []string{"task"}, answer: "answer 1", refused: "enough"},
		"it fails":   {spec: goesOn, fails: true, prompts: []string{"task"}},
	}
	for name, tt := range tests {
		w := newWorld(t, nil, tt.spec)
		var prompts []string
		answer, err := w.s.Subagent(w.ctx, grapnel.Subagent{ID: "a"}, "task", func(_ context.Context, prompt string) (string, error) {
			prompts = append(prompts, prompt)
			if tt.fails {
				return "", errBroken
			}
			return fmt.Sprint("answer ", len(prompts)), nil
		})
		no := host.Refused(err)
		if !slices.Equal(prompts, tt.prompts) || answer != tt.answer || (no != nil) != (tt.refused != "") || no != nil && no.Reason != tt.refused || tt.fails != errors.Is(err, errBroken) {
			t.Errorf("%s: prompts %q, answer %q, %v, want %q, %q, %q", name, prompts, answer, err, tt.prompts, tt.answer, tt.refused)
		}
	}
}

// A session that a hook refuses has ended, and the returned context has no session.
func TestStartHalted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.add(returning("h", grapnel.SessionStart, grapnel.Outcome{Halt: "not here"}))
	w.watch(grapnel.SessionEnd)
	ctx, s, _, err := w.host.Start(t.Context(), grapnel.Session{ID: "s2"}, "startup")
	if no := host.Refused(err); no == nil || !no.Halt || no.Reason != "not here" || host.SessionFromContext(ctx) != nil || s == nil {
		t.Errorf("Start = %v, %v", s, err)
	}
	if len(w.events) != 1 || w.events[0].Cause != "error" || w.events[0].Session.ID != "s2" {
		t.Errorf("fired %v", w.kinds())
	}
}

// If the agent is canceled, notices and events about completed actions are still fired.
func TestCancelled(t *testing.T) {
	t.Parallel()
	for _, kind := range append(slices.Clone(groups["notice"]), grapnel.ToolAfter, grapnel.ToolFailed) {
		w := newWorld(t, &host.Options{Tools: []host.ToolInfo{{Name: "asks", Ask: true}}})
		heard := false
		w.add(hook("h", kind, grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
			heard = ctx.Err() == nil
			return grapnel.Outcome{}, nil
		})))
		var cancel context.CancelFunc
		w.ctx, cancel = context.WithCancel(w.ctx)
		switch kind {
		case grapnel.ToolAfter, grapnel.ToolFailed, grapnel.MessageSent:
			w.acts = cancel // before the action, nothing would happen at all
		case grapnel.PermissionDenied:
			denies := hook("denies", grapnel.PermissionBefore, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				cancel()
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "not today"}, nil
			}))
			denies.Priority = -1
			w.add(denies)
		default:
			cancel()
		}
		if _, err := moments[kind](w); err != nil || !heard {
			t.Errorf("%s: %v, heard with a live context: %t", kind, err, heard)
		}
	}
}

// The agent does not wait for events that the manners name. Their hooks have no influence, but a
// failure is still reported. Close waits for them.
//
// Proves: IC-32, FL-27
func TestUnwaited(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][]grapnel.Kind{"ironclaw": {grapnel.SessionStart, grapnel.SessionEnd}, "flyto": {grapnel.ModelAfter}} {
		manners, _ := host.FindManners(name)
		for _, kind := range kinds {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &host.Options{Manners: manners})
				var heard atomic.Int32
				slow := grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
					time.Sleep(time.Minute)
					if ctx.Err() == nil && ev.Session.ID != "" {
						heard.Add(1)
					}
					return grapnel.Outcome{Halt: "enough"}, errBroken
				})
				w.add(hook("slow", kind, slow))
				var cancel context.CancelFunc
				w.ctx, cancel = context.WithCancel(w.ctx)
				begun := time.Now()
				did, err := moments[kind](w)
				cancel()
				if took := time.Since(begun); err != nil || did == "" || took > time.Second || heard.Load() != 0 {
					t.Errorf("%s, %s: did %q, %v after %v", name, kind, did, err, took)
				}
				if err := w.host.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if messages := strings.Join(w.messages(), "\n"); heard.Load() != 1 || !strings.Contains(messages, "broken") || !strings.Contains(messages, "a hook wants to block "+string(kind)) {
					t.Errorf("%s, %s: heard %d, told %q", name, kind, heard.Load(), messages)
				}
			})
		}
	}
}

// fake is a Hooks that is not an engine.
type fake struct{ fired atomic.Int32 }

func (f *fake) Listens(grapnel.Kind) (heard, decides bool) { return true, true }

func (f *fake) Fire(_ context.Context, ev *grapnel.Event) grapnel.Verdict {
	f.fired.Add(1)
	if ev.Kind == grapnel.PromptBefore {
		return grapnel.Verdict{Decision: grapnel.Ask, Messages: []string{"look"}}
	}
	return grapnel.Verdict{Decision: grapnel.Block, Reasons: []grapnel.Reason{{Text: "no", Cause: grapnel.CauseDecision}}}
}

// Hooks need not be an engine, and their verdicts may be minimal.
func TestOtherHooks(t *testing.T) {
	t.Parallel()
	var hooks fake
	shown := 0
	h := host.New(&hooks, &host.Options{Approve: person(true, "", nil), ShowMessage: func(context.Context, string) { shown++ }})
	ctx, s, _, err := h.Start(t.Context(), grapnel.Session{}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prompt(ctx, "hi"); err != nil || shown != 1 {
		t.Errorf("Prompt: %v, told %d times", err, shown)
	}
	if r, err := host.Tool(ctx, host.Call{Name: "x"}, echo); err != nil || r.Refusal == nil {
		t.Errorf("Tool = %+v, %v", r, err)
	}
	if v := s.Fire(ctx, &grapnel.Event{Kind: native}); v.Decision != grapnel.Block || hooks.fired.Load() != 4 {
		t.Errorf("Fire = %+v, fired %d times", v, hooks.fired.Load())
	}
}

// Refused finds a Refusal in a wrapped error. Its text names the refused event.
func TestRefusal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, blocks(grapnel.TaskBefore, "too big"))
	err := fmt.Errorf("cannot plan: %w", w.s.Task(w.ctx, grapnel.Task{}))
	if no := host.Refused(err); no == nil || no.Error() != "task.before: refused: too big" || no.Text != "too big" {
		t.Errorf("Refused(%v) = %+v", err, no)
	}
	if host.Refused(nil) != nil || host.Refused(errBroken) != nil {
		t.Error("a Refusal is found where there is none")
	}
}

// If a hook's answer has no influence, the user gets a message, even if the answer is not a
// refusal.
func TestUnwaitedChanges(t *testing.T) {
	t.Parallel()
	ironclaw, _ := host.FindManners("ironclaw")
	flyto, _ := host.FindManners("flyto")
	miniclaw, _ := host.FindManners("miniclaw")
	tests := map[grapnel.Kind]struct {
		manners *host.Manners
		spec    grapnel.Spec
		message string
	}{
		grapnel.SessionStart: {ironclaw, returning("h", grapnel.SessionStart, grapnel.Outcome{Context: []string{"be brief"}}), "a hook wants to change or add something at session.start"},
		grapnel.ModelAfter:   {flyto, sets(grapnel.ModelAfter, grapnel.FieldResponse, `"x"`), "a hook wants to change or add something at model.after"},
		grapnel.ToolAfter:    {miniclaw, sets(grapnel.ToolAfter, grapnel.FieldOutput, `"x"`), "a hook wants to change or add something at tool.after"},
		grapnel.PromptBefore: {
			&host.Manners{Ignored: []grapnel.Kind{grapnel.PromptBefore}},
			returning("h", grapnel.PromptBefore, grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}), "a hook wants to ask at prompt.before, which is not possible: sure?",
		},
	}
	for kind, tt := range tests {
		w := newWorld(t, &host.Options{Manners: tt.manners})
		w.add(tt.spec)
		_, err := moments[kind](w)
		if closing := w.host.Close(t.Context()); err != nil || closing != nil {
			t.Fatal(err, closing)
		}
		if messages := w.messages(); len(messages) != 1 || !strings.Contains(messages[0], tt.message) {
			t.Errorf("%s: told %q, want %q", kind, messages, tt.message)
		}
	}
}

// Close does not wait forever.
func TestCloseInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flyto, _ := host.FindManners("flyto")
		w := newWorld(t, &host.Options{Manners: flyto}, hook("slow", grapnel.ModelAfter, grapnel.Watch(func(context.Context, *grapnel.Event) { time.Sleep(time.Hour) })))
		if _, err := moments[grapnel.ModelAfter](w); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errBroken)
		defer cancel()
		if err := w.host.Close(ctx); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "1 background events") {
			t.Errorf("Close = %v, want %v", err, errBroken)
		}
		if err := w.host.Close(t.Context()); err != nil { // with enough time it succeeds
			t.Error(err)
		}
	})
}

// aboutTasks is a Hooks that always gives the same verdict about a task.
type aboutTasks grapnel.Verdict

func (aboutTasks) Listens(k grapnel.Kind) (heard, decides bool) {
	return k == grapnel.TaskBefore, k == grapnel.TaskBefore
}

func (v aboutTasks) Fire(context.Context, *grapnel.Event) grapnel.Verdict { return grapnel.Verdict(v) }

// If a hook has already stopped an action, the person is not asked about it.
func TestHaltBeforeQuestion(t *testing.T) {
	t.Parallel()
	h := host.New(aboutTasks{Decision: grapnel.Ask, Halt: "enough"}, &host.Options{
		Approve: host.ApproverFunc(func(context.Context, *host.Question) (host.Consent, error) {
			t.Error("somebody was asked")
			return host.Consent{Yes: true}, nil
		}),
	})
	ctx, s, _, err := h.Start(t.Context(), grapnel.Session{}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	if no := host.Refused(s.Task(ctx, grapnel.Task{})); no == nil || !no.Halt {
		t.Errorf("Task = %v", no)
	}
}

// Hooks in a context are called, or the session does not start.
func TestStartLosesNoHooks(t *testing.T) {
	t.Parallel()
	guarded := newWorld(t, nil, blocks(grapnel.ToolBefore, "no"))
	other := host.New(&fake{}, nil)
	under, _, _, err := other.Start(t.Context(), grapnel.Session{}, "startup")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		h   *host.Host
		ctx context.Context
		err string
	}{
		"an engine's, for hooks that are none":         {other, guarded.ctx, "give host.New an engine"},
		"a session's, which are none, for an engine":   {guarded.host, under, "host.ContextWithSession(ctx, nil)"},
		"a session's, which are none, for nobody":      {host.New(nil, nil), under, "host.ContextWithSession(ctx, nil)"},
		"a session's, which are none, were taken away": {guarded.host, host.ContextWithSession(under, nil), ""},
		"its own":                    {other, under, ""},
		"an engine's, for an engine": {host.New(newWorld(t, nil).engine, nil), guarded.ctx, ""},
		"an engine's, for nobody":    {host.New(nil, nil), guarded.ctx, ""},
	}
	for name, tt := range tests {
		ctx, _, _, err := tt.h.Start(tt.ctx, grapnel.Session{ID: "s2"}, "startup")
		if err != nil {
			if tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: Start = %v, want %q", name, err, tt.err)
			}
			continue
		}
		r, err := host.Tool(ctx, host.Call{Name: "x"}, echo)
		if tt.err != "" || err != nil || r.Refusal == nil {
			t.Errorf("%s: the tool ran: %+v, %v", name, r, err)
		}
	}
}

// Without an error, no event is fired.
func TestFailedWithoutError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.watch(grapnel.AgentFailed)
	w.s.Failed(w.ctx, nil)
	if kinds := w.kinds(); len(kinds) != 0 {
		t.Errorf("fired %v", kinds)
	}
}

// Hooks find the session in their context, starting with its first event.
func TestHooksFindTheSession(t *testing.T) {
	t.Parallel()
	ironclaw, _ := host.FindManners("ironclaw")
	for _, manners := range []*host.Manners{nil, ironclaw} {
		var found atomic.Pointer[host.Session]
		w := newWorld(t, &host.Options{Manners: manners}, hook("looks", grapnel.SessionStart, grapnel.Watch(func(ctx context.Context, _ *grapnel.Event) {
			found.Store(host.SessionFromContext(ctx))
		})))
		if err := w.host.Close(t.Context()); err != nil || found.Load() != w.s {
			t.Errorf("found %p, want %p (%v)", found.Load(), w.s, err)
		}
	}
}

// IC-02: hooks get the user, channel, thread and job of the session with every event, also in
// sub-agents, and the sender of a message.
//
// Proves: IC-02
func TestHooksGetTheOrigin(t *testing.T) {
	t.Parallel()
	a := newAgent(t, nil, answers("done"))
	a.watch()
	want := grapnel.Session{User: "u1", Channel: "web", Thread: "t1", Job: "job:9f1c"}
	a.s.Update(func(info *grapnel.Session) {
		info.User, info.Channel, info.Thread, info.Job = want.User, want.Channel, want.Thread, want.Job
	})
	if err := a.s.Received(a.ctx, grapnel.Message{Sender: "u2", Channel: "web", Content: "hi"}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.run("hi"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.s.Tool(a.ctx, host.Call{Name: "echo"}, echo); err != nil {
		t.Fatal(err)
	}
	_, err := host.Subagent(a.ctx, grapnel.Subagent{ID: "a1"}, "look", func(ctx context.Context, _ string) (string, error) {
		_, err := host.Tool(ctx, host.Call{Name: "echo"}, echo)
		return "found", err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.s.Update(func(info *grapnel.Session) { info.Threads = []string{"t1", "t2"} })
	a.s.End(a.ctx, "exit")
	if len(a.events) < 10 {
		t.Fatalf("only %d events", len(a.events))
	}
	for _, ev := range a.events {
		if s := ev.Session; s.User != want.User || s.Channel != want.Channel || s.Thread != want.Thread || s.Job != want.Job {
			t.Errorf("%s: session %+v, want %+v", ev.Kind, s, want)
		}
		switch ev.Kind { //nolint:exhaustive // the other events have no message
		case grapnel.MessageReceived:
			if ev.Message.Sender != "u2" {
				t.Errorf("message %+v, want its sender", ev.Message)
			}
		case grapnel.SessionEnd:
			if !slices.Equal(ev.Session.Threads, []string{"t1", "t2"}) {
				t.Errorf("threads %q, want both", ev.Session.Threads)
			}
		}
	}
}
