package grapnel_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/allruns"
)

// asked fires an event and returns the names of the called hooks, in order.
func asked(ctx context.Context, t *testing.T, d *diary, e *grapnel.Engine) string {
	t.Helper()
	before := len(d.read())
	e.Fire(ctx, &grapnel.Event{Kind: grapnel.PromptBefore})
	return strings.Join(d.read()[before:], " ")
}

// TestSessionHooks checks that session hooks run before the engine's hooks, and that either may be
// missing. Later changes of both take effect, also while a sub-agent with its own engine works.
//
// Proves: FL-36, FL-37
func TestSessionHooks(t *testing.T) {
	t.Parallel()
	var d diary
	flyto := func(names ...string) *grapnel.Engine {
		var specs []grapnel.Spec
		for _, name := range names {
			specs = append(specs, step(name, d.logged(name, returns(grapnel.Outcome{}))))
		}
		return ofPreset(t, "flyto", nil, specs...)
	}
	add := func(e *grapnel.Engine, name string) {
		t.Helper()
		if err := e.Add(step(name, d.logged(name, returns(grapnel.Outcome{})))); err != nil {
			t.Fatal(err)
		}
	}
	session, engine, subagent := flyto("s1", "s2"), flyto("e1", "s1"), flyto("a1")
	var none *grapnel.Engine
	plain := t.Context()
	ctx, cancel := context.WithCancel(grapnel.NewContext(plain, session))
	defer cancel()

	main, sub := engine.In(ctx), subagent.In(ctx)
	for what, got := range map[string][2]string{
		"both, a name twice":          {asked(ctx, t, &d, main), "s1 s2 e1 s1"},
		"sub-agent":                   {asked(ctx, t, &d, sub), "s1 s2 a1"},
		"no engine":                   {asked(ctx, t, &d, none.In(ctx)), "s1 s2"},
		"no session":                  {asked(ctx, t, &d, engine.In(plain)), "e1 s1"},
		"session taken away":          {asked(ctx, t, &d, engine.In(grapnel.NewContext(ctx, nil))), "e1 s1"},
		"neither":                     {asked(ctx, t, &d, none.In(plain)), ""},
		"twice":                       {asked(ctx, t, &d, main.In(ctx)), "s1 s2 e1 s1"},
		"sub-agent of a sub-agent":    {asked(ctx, t, &d, subagent.In(grapnel.NewContext(ctx, main))), "s1 s2 e1 s1 a1"},
		"the engine carried by a ctx": {asked(ctx, t, &d, engine.In(grapnel.NewContext(ctx, main))), "s1 s2 e1 s1"},
		"the engine alone":            {asked(ctx, t, &d, engine), "e1 s1"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: asked were %q, want %q", what, got[0], got[1])
		}
	}
	if engine.In(plain) != engine || none.In(ctx) != session || main.In(ctx) != main {
		t.Error("In made an engine although there was nothing to put together")
	}
	if grapnel.FromContext(ctx) != session || grapnel.FromContext(plain) != nil {
		t.Error("FromContext does not return what NewContext was given")
	}
	if heard(none.In(plain), grapnel.PromptBefore) || !heard(none.In(ctx), grapnel.PromptBefore) || len(main.Specs(grapnel.PromptBefore)) != 4 {
		t.Error("Has and Count do not see both sides")
	}
	if got, want := simpleNames(main.Specs("")), []string{"s1", "s2", "e1", "s1"}; !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}

	add(session, "s3")
	add(engine, "e2")
	add(main, "e3") // main is the engine, used from the session
	if got, want := asked(ctx, t, &d, main), "s1 s2 s3 e1 s1 e2 e3"; got != want {
		t.Errorf("after additions: asked were %q, want %q", got, want)
	}
	if got, want := asked(ctx, t, &d, sub), "s1 s2 s3 a1"; got != want {
		t.Errorf("in the sub-agent: asked were %q, want %q", got, want)
	}
	session.Enable(false)
	if got, want := asked(ctx, t, &d, main), "e1 s1 e2 e3"; got != want {
		t.Errorf("session off: asked were %q, want %q", got, want)
	}
	session.Enable(true)
	main.Enable(false)
	if got, want := asked(ctx, t, &d, main)+", "+asked(ctx, t, &d, engine), "s1 s2 s3, "; got != want {
		t.Errorf("engine off: asked were %q, want %q", got, want)
	}
	if n := main.Remove(func(s *grapnel.Spec) bool { return s.Name == "s1" }); n != 1 || len(session.Specs("")) != 3 {
		t.Errorf("%d removed and %d left in the session, want the engine's one and 3", n, len(session.Specs("")))
	}
}

// TestWithIsLive checks that a session can add hooks to its engine's hooks and never remove them.
func TestWithIsLive(t *testing.T) {
	t.Parallel()
	var d diary
	hook := func(source string) grapnel.Spec {
		return grapnel.Spec{Name: "h", Source: grapnel.Source{Name: source}, Hook: d.logged(source, returns(grapnel.Outcome{}))}
	}
	engine := newEngine(t, nil, hook("engine"))
	session, err := engine.With(hook("session"))
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := session.With(hook("deeper"))
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Add(hook("later")); err != nil {
		t.Fatal(err)
	}
	if got, want := asked(t.Context(), t, &d, deeper), "deeper session engine later"; got != want {
		t.Errorf("asked were %q, want %q", got, want)
	}
	for _, source := range []string{"engine", "session"} {
		if n := deeper.Remove(sourceIs(source)); n != 0 {
			t.Errorf("Remove(%s) = %d from below", source, n)
		}
	}
	deeper.Enable(false)
	if err := deeper.Update(func([]grapnel.Spec) []grapnel.Spec { return nil }); err != nil {
		t.Fatal(err)
	}
	if got, want := asked(t.Context(), t, &d, deeper), "session engine later"; got != want {
		t.Errorf("asked were %q, want %q", got, want)
	}
	session.Remove(sourceIs("session"))
	engine.Remove(sourceIs("later"))
	if got, want := asked(t.Context(), t, &d, deeper), "engine"; got != want {
		t.Errorf("asked were %q, want %q", got, want)
	}
}

// TestObserversOfSessions checks that the Observers of both engines are called once per firing, and
// that a session's audit also gets the firings of sub-agents.
//
// Proves: FL-18, FL-37
func TestObserversOfSessions(t *testing.T) {
	t.Parallel()
	var ofSession, ofEngine keeper
	session := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&ofSession}})
	engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&ofEngine}}, step("h", returns(grapnel.Outcome{})))
	ctx := grapnel.NewContext(t.Context(), session)
	engine.In(ctx).Fire(ctx, toolEvent("x"))
	if ofSession.n != 1 || ofEngine.n != 1 || ofSession.rec != ofEngine.rec {
		t.Errorf("told %d and %d times, want both once of the same", ofSession.n, ofEngine.n)
	}
	(*grapnel.Engine)(nil).In(ctx).Fire(ctx, toolEvent("x"))
	if ofSession.n != 2 || ofEngine.n != 1 {
		t.Errorf("told %d and %d times after a sub-agent without hooks, want 2 and 1", ofSession.n, ofEngine.n)
	}
	deeper, err := engine.With()
	if err != nil {
		t.Fatal(err)
	}
	deeper.Fire(ctx, toolEvent("x"))
	if ofEngine.n != 2 {
		t.Errorf("told %d times, want once more by the engine on top", ofEngine.n)
	}
}

// TestCloseOfASession checks that each engine runs its own observing hooks, so that closing a
// session does not stop the engine's hooks.
func TestCloseOfASession(t *testing.T) {
	t.Parallel()
	var d diary
	later := func(name string) grapnel.Spec {
		return phase(grapnel.PhaseObserve, name, grapnel.Watch(func(context.Context, *grapnel.Event) { d.write(name) }))
	}
	var k keeper
	var spooled []string
	engine := newEngine(t, &grapnel.Options{
		Observers: []grapnel.Observer{&k},
		Background: func(_ context.Context, _ *grapnel.Event, hooks []grapnel.Spec) error {
			spooled = append(spooled, names(hooks)...)
			return nil
		},
	}, later("engine's"))
	session := newEngine(t, nil, later("session's"))
	ctx := grapnel.NewContext(t.Context(), session)
	in := engine.In(ctx)

	_, runs := allruns.Fire(ctx, in, toolEvent("x"))
	var heard []string
	for r := range runs {
		heard = append(heard, r.Name)
	}
	if !slices.Equal(heard, []string{"session's"}) || !slices.Equal(spooled, []string{"engine's"}) || !slices.Equal(d.read(), []string{"session's"}) {
		t.Errorf("heard of %q, spooled %q, ran %q", heard, spooled, d.read())
	}
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, runs := allruns.Fire(ctx, in, toolEvent("x"))
	const want = "observing hooks were not started: the engine is closed"
	if !slices.Equal(v.Messages, []string{"grapnel: " + want}) || k.rec.Error != want || len(spooled) != 2 {
		t.Errorf("messages %q, Record %q, spooled %q", v.Messages, k.rec.Error, spooled)
	}
	if r := <-runs; r.Name != "session's" || r.Error != "not started: the engine is closed" || r.Cause != grapnel.CauseError {
		t.Errorf("run %+v, want that it was not started", r)
	}
	if r, more := <-runs; more {
		t.Errorf("one more run %+v", r)
	}
}

// TestLate checks that the Verdict is returned immediately. Observing hooks report when they
// end, with their own deadlines, even if the caller's context is done or the channel is not read.
//
// Proves: FL-24, FL-25
func TestLate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		later := func(name string, h grapnel.Hook) grapnel.Spec {
			return within(2*time.Second, phase(grapnel.PhaseObserve, name, h))
		}
		engine := newEngine(t, nil,
			step("sync", sleeps(time.Second, decides(grapnel.Block, "no"))),
			later("says", sleeps(time.Second, decides(grapnel.Ask, "sure?"))),
			later("silent", returns(grapnel.Outcome{})),
			later("fails", fails(errors.New("broken"))),
			later("panics", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { panic("boom") })),
			later("quits", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				runtime.Goexit()
				return grapnel.Outcome{}, nil
			})),
			later("slow", obeys()),
			later("deaf", sleeps(3*time.Second, returns(grapnel.Outcome{Message: "m"}))),
			grapnel.Spec{Name: "unsure", Phase: grapnel.PhaseObserve, Match: brokenMatcher{}, Hook: returns(grapnel.Outcome{})},
			on(later("elsewhere", returns(grapnel.Outcome{})), grapnel.SessionEnd))

		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		v, runs := allruns.Fire(ctx, engine, toolEvent("x"))
		cancel()
		if took := time.Since(begun); took != time.Second || v.Decision != grapnel.Block {
			t.Errorf("%v after %v, want a block after 1s", v.Decision, took)
		}
		allruns.Fire(ctx, engine, toolEvent("ignored"))
		got := map[string]grapnel.HookRun{}
		for r := range runs {
			got[r.Name] = r
			if !r.Async {
				t.Errorf("run %+v is not async", r)
			}
		}
		late2 := "took longer than its timeout of 2s"
		want := map[string]grapnel.HookRun{
			"says":   {Decision: grapnel.Ask, Cause: grapnel.CauseDecision, Observed: true, MS: 1000, Outcome: &grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}},
			"silent": {Observed: true},
			"fails":  {Cause: grapnel.CauseError, Error: "broken", Observed: true},
			"panics": {Cause: grapnel.CauseError, Error: "panicked: boom", Observed: true},
			"quits":  {Cause: grapnel.CauseError, Error: "ended its goroutine without an answer", Observed: true},
			"slow":   {Cause: grapnel.CauseTimeout, Error: late2, Observed: true, MS: 2000},
			"deaf":   {Cause: grapnel.CauseTimeout, Error: late2, Observed: true, MS: 3000, Outcome: &grapnel.Outcome{Message: "m"}},
			"unsure": {Cause: grapnel.CauseError, Error: "cannot check whether the hook listens: bad pattern"},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(grapnel.HookRun{}, "Name", "Async", "Phase", "Saw", "Err")); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
		if err := engine.Close(context.Background()); err != nil { // also waits for hooks whose reports are not read
			t.Error(err)
		}
		if _, more := <-lateRuns(t, nil); more {
			t.Error("a run of nobody")
		}
	})
}

func lateRuns(t *testing.T, opts *grapnel.Options, specs ...grapnel.Spec) <-chan grapnel.HookRun {
	t.Helper()
	_, runs := allruns.Fire(t.Context(), newEngine(t, opts, specs...), toolEvent("x"))
	return runs
}

// TestRecordHasOutcomes checks that the Record contains each hook's Outcome, for Observers in the
// same process.
//
// Proves: FL-03, FL-04
func TestRecordHasOutcomes(t *testing.T) {
	t.Parallel()
	_, rec := fire(t, toolEvent("x"), at(1, step("says", returns(grapnel.Outcome{Message: "m"}))), at(2, step("silent", returns(grapnel.Outcome{}))))
	if r := run(t, rec, "says"); r.Outcome == nil || r.Outcome.Message != "m" {
		t.Errorf("run %+v, want what it said", r)
	}
	if r := run(t, rec, "silent"); r.Outcome != nil {
		t.Errorf("run %+v, want none", r)
	}
	if strings.Contains(string(encoded(rec)), `"Outcome"`) {
		t.Errorf("in JSON: %s", encoded(rec))
	}
}

// TestSessionsWhileFiring changes both engines while events are fired and agents start and end.
// Run with -race.
func TestSessionsWhileFiring(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, nil, rule("guard", decides(grapnel.Block, "no")))
	session := newEngine(t, nil)
	ctx := grapnel.NewContext(t.Context(), session)
	in := engine.In(ctx)
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			for n := range 100 {
				e := in
				if n%10 == 0 {
					e = engine.In(ctx)
				}
				if v, _ := allruns.Fire(ctx, e, toolEvent("x")); v.Decision != grapnel.Block {
					t.Errorf("decision %v: the guard was not there for a moment", v.Decision)
				}
			}
		})
		group.Go(func() {
			source := fmt.Sprint("source ", i)
			for range 50 {
				for _, e := range []*grapnel.Engine{session, engine} {
					if err := e.Add(phaseOf(source, grapnel.PhaseObserve)); err != nil {
						t.Error(err)
					}
				}
				if session.Remove(sourceIs(source)) != 1 || engine.Remove(sourceIs(source)) != 1 {
					t.Errorf("the hooks of %s were gone", source)
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(session.Close(t.Context()), engine.Close(t.Context())); err != nil {
		t.Error(err)
	}
}

func phaseOf(source string, p grapnel.Phase) grapnel.Spec {
	s := from(source, "h")
	s.Phase = p
	return s
}
