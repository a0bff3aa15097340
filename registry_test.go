package grapnel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

// ofPreset returns an engine that runs hooks as another system does.
func ofPreset(t testing.TB, name string, k *keeper, specs ...grapnel.Spec) *grapnel.Engine {
	t.Helper()
	preset, ok := grapnel.FindPreset(name)
	if !ok {
		t.Fatalf("there is no preset %q", name)
	}
	for i := range specs {
		specs[i] = preset.Defaults(specs[i])
		if specs[i].Timeout > 0 {
			specs[i].Timeout = 0 // inline, so that the test does not depend on the machine's speed
		}
	}
	opts := &grapnel.Options{Preset: preset}
	if k != nil {
		opts.Observers = []grapnel.Observer{k}
	}
	return newEngine(t, opts, specs...)
}

// on returns the Spec with its kinds set.
func on(s grapnel.Spec, kinds ...grapnel.Kind) grapnel.Spec {
	s.On = kinds
	return s
}

func at(priority int, s grapnel.Spec) grapnel.Spec {
	s.Priority = priority - normal
	return s
}

func simpleNames(specs []grapnel.Spec) []string {
	list := []string{}
	for i := range specs {
		list = append(list, specs[i].Name)
	}
	return list
}

// TestCountListHas checks that hooks are counted and listed by kind, and that Has is known before
// an event exists.
//
// Proves: IC-09, IC-10, IC-13, IC-15, MC-05, MC-06, FL-05, FL-07
func TestCountListHas(t *testing.T) {
	t.Parallel()
	specs := []grapnel.Spec{
		at(200, on(from("git", "last"), grapnel.ToolBefore)),
		on(from("git", "middle"), grapnel.ToolBefore, grapnel.ToolAfter), // priority 100
		at(1, on(from("", "first"), grapnel.ToolBefore)),
		on(from("", "middle too"), grapnel.ToolBefore),
	}
	for preset, want := range map[string][]string{
		"ironclaw": {"first", "middle", "middle too", "last"},
		"miniclaw": {"last", "middle", "first", "middle too"},
		"flyto":    {"last", "middle", "first", "middle too"},
	} {
		engine := ofPreset(t, preset, nil, slices.Clone(specs)...)
		if got := simpleNames(engine.Specs(grapnel.ToolBefore)); !slices.Equal(got, want) {
			t.Errorf("%s lists %q, want %q", preset, got, want)
		}
		if got := simpleNames(engine.Specs("")); !slices.Equal(got, want) {
			t.Errorf("%s lists %q of all kinds, want %q", preset, got, want)
		}
		if got := simpleNames(engine.Specs(grapnel.ToolAfter)); !slices.Equal(got, []string{"middle"}) {
			t.Errorf("%s lists %q after tools", preset, got)
		}
	}
	engine := newEngine(t, nil, append(slices.Clone(specs), on(from("", "odd"), "native.agent.Odd"))...)
	everything := from("all", "everything")
	everything.Phase = grapnel.PhaseObserve
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "before 4 true, after 1 true, end 0 false, odd 1 true, unheard 0 false, all 5"},
		{func() { _ = engine.Add(everything) }, "before 5 true, after 2 true, end 1 true, odd 2 true, unheard 1 true, all 6"},
		{func() { engine.Enable(false) }, "before 5 false, after 2 false, end 1 false, odd 2 false, unheard 1 false, all 6"},
		{func() { engine.AddObserver(&keeper{}) }, "before 5 true, after 2 true, end 1 true, odd 2 true, unheard 1 true, all 6"},
	} {
		step.do()
		var got []string
		for _, k := range []struct {
			name string
			kind grapnel.Kind
		}{
			{"before", grapnel.ToolBefore},
			{"after", grapnel.ToolAfter},
			{"end", grapnel.SessionEnd},
			{"odd", "native.agent.Odd"},
			{"unheard", "native.agent.Unheard"},
		} {
			got = append(got, fmt.Sprint(k.name, " ", len(engine.Specs(k.kind)), " ", heard(engine, k.kind)))
			if n := len(engine.Specs(k.kind)); n != len(engine.Specs(k.kind)) {
				t.Errorf("%s: %d listed, %d counted", k.kind, n, len(engine.Specs(k.kind)))
			}
		}
		if got := strings.Join(append(got, fmt.Sprint("all ", len(engine.Specs("")))), ", "); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
	listed := engine.Specs(grapnel.ToolBefore)
	listed[0].On[0], listed[0].Priority = grapnel.SessionEnd, 7
	if again := engine.Specs(grapnel.ToolBefore)[0]; again.On[0] != grapnel.ToolBefore || again.Priority != 1-normal {
		t.Errorf("whoever lists a Spec changed it: %+v", again)
	}
}

// TestRemoving checks that hooks can be removed by name, kind, source and source prefix,
// repeatedly. The source "" has no special meaning.
//
// Proves: IC-12, IC-42, FL-09, FL-10, FL-11
func TestRemoving(t *testing.T) {
	t.Parallel()
	fresh := func() *grapnel.Engine {
		return newEngine(t, nil,
			on(from("", "global"), grapnel.ToolBefore), on(from("acme:lint", "a"), grapnel.ToolBefore, grapnel.ToolAfter),
			on(from("acme:lint", "b"), grapnel.ToolBefore), on(from("acme:git", "a"), grapnel.ToolAfter), on(from("acme", "a"), grapnel.ToolBefore))
	}
	for name, tt := range map[string]struct {
		remove func(e *grapnel.Engine) int
		n      int
		left   string
	}{
		"source":        {func(e *grapnel.Engine) int { return e.Remove(sourceIs("acme:lint")) }, 2, "global acme:git::a acme::a"},
		"no source":     {func(e *grapnel.Engine) int { return e.Remove(sourceIs("")) }, 1, "acme:lint::a acme:lint::b acme:git::a acme::a"},
		"no prefix":     {func(e *grapnel.Engine) int { return e.Remove(sourceIs("acme")) }, 1, "global acme:lint::a acme:lint::b acme:git::a"},
		"other source":  {func(e *grapnel.Engine) int { return e.Remove(sourceIs("svn")) }, 0, "global acme:lint::a acme:lint::b acme:git::a acme::a"},
		"tenant prefix": {func(e *grapnel.Engine) int { return e.Remove(sourceBegins("acme:")) }, 3, "global acme::a"},
		"name": {func(e *grapnel.Engine) int {
			return e.Remove(func(s *grapnel.Spec) bool { return s.FullName() == "acme:lint::b" })
		}, 1, "global acme:lint::a acme:git::a acme::a"},
		"kind": {func(e *grapnel.Engine) int { return silence(t, e, grapnel.ToolBefore, sourceBegins("")) }, 4, "acme:lint::a acme:git::a"},
		"kind of a source": {func(e *grapnel.Engine) int {
			return silence(t, e, grapnel.ToolBefore, sourceBegins("acme:lint"))
		}, 2, "global acme:lint::a acme:git::a acme::a"},
	} {
		engine := fresh()
		if n := tt.remove(engine); n != tt.n {
			t.Errorf("%s: %d removed, want %d", name, n, tt.n)
		}
		if left := strings.Join(names(engine.Specs("")), " "); left != tt.left {
			t.Errorf("%s: left are %s, want %s", name, left, tt.left)
		}
		if n := tt.remove(engine); n != 0 {
			t.Errorf("%s again: %d removed, want 0", name, n)
		}
	}
	if e := fresh(); silence(t, e, grapnel.ToolBefore, sourceBegins("acme:lint")) != 2 || len(e.Specs(grapnel.ToolBefore)) != 2 || len(e.Specs(grapnel.ToolAfter)) != 2 {
		t.Errorf("a hook that lost one kind: %d and %d listen, want 2 and 2", len(e.Specs(grapnel.ToolBefore)), len(e.Specs(grapnel.ToolAfter)))
	}
}

func sourceBegins(prefix string) func(*grapnel.Spec) bool {
	return func(s *grapnel.Spec) bool { return strings.HasPrefix(s.Source.Name, prefix) }
}

// silence removes a kind from hooks and returns the number of changed hooks. It deletes hooks
// without remaining kinds, because an empty list means all kinds.
func silence(t *testing.T, engine *grapnel.Engine, kind grapnel.Kind, chosen func(*grapnel.Spec) bool) (n int) {
	t.Helper()
	err := engine.Update(func(specs []grapnel.Spec) []grapnel.Spec {
		var kept []grapnel.Spec
		for _, s := range specs {
			if at := slices.Index(s.On, kind); at >= 0 && chosen(&s) {
				n++
				if s.On = slices.Delete(s.On, at, at+1); len(s.On) == 0 {
					continue
				}
			}
			kept = append(kept, s)
		}
		return kept
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// TestUpdateIsOneStep checks that each event fired during an update runs either the old guard or
// the new one, and that an invalid update changes nothing.
//
// Proves: IC-26, OC-02
func TestUpdateIsOneStep(t *testing.T) {
	t.Parallel()
	guard := func(i int) grapnel.Spec {
		s := rule("guard", decides(grapnel.Block, fmt.Sprint("guard ", i)))
		s.Source.Name = fmt.Sprint("version ", i)
		return s
	}
	engine := newEngine(t, nil, guard(0))
	session, err := engine.With(from("session", "h"))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	for _, e := range []*grapnel.Engine{engine, session} {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if v := e.Fire(t.Context(), toolEvent("x")); v.Decision != grapnel.Block || len(v.Reasons) != 1 {
					t.Errorf("an event met the guards %+v, want one", v.Reasons)
					return
				}
			}
		})
	}
	for i := range 300 {
		if err := engine.Update(func(specs []grapnel.Spec) []grapnel.Spec {
			if len(specs) != 1 {
				t.Errorf("%d hooks are given to change, want the engine's own", len(specs))
			}
			return []grapnel.Spec{guard(i + 1)}
		}); err != nil {
			t.Error(err)
		}
		if i%10 == 0 {
			session.Remove(sourceIs("session"))
			if err := session.Add(from("session", "h")); err != nil {
				t.Error(err)
			}
		}
	}
	close(done)
	group.Wait()
	if v := session.Fire(t.Context(), toolEvent("x")); v.Reason() != "guard 300" {
		t.Errorf("the session has %q, want the last guard", v.Reason())
	}
	err = engine.Update(func(specs []grapnel.Spec) []grapnel.Spec { return append(specs, specs[0]) })
	if err == nil || !slices.Equal(names(engine.Specs("")), []string{"version 300::guard"}) {
		t.Errorf("Update = %v, and the engine has %q, want an error and what it had", err, names(engine.Specs("")))
	}
}

// TestEnable checks that all hooks can be switched off and on without an effect on firings that
// have started.
//
// Proves: FL-08
func TestEnable(t *testing.T) {
	t.Parallel()
	var engine *grapnel.Engine
	engine = newEngine(t, nil, at(1, step("off", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		engine.Enable(false)
		return grapnel.Outcome{}, nil
	}))), at(2, step("block", decides(grapnel.Block, "no"))))
	for i, want := range []grapnel.Decision{grapnel.Block, grapnel.None} {
		if v := engine.Fire(t.Context(), toolEvent("x")); v.Decision != want {
			t.Errorf("firing %d: %v, want %v", i+1, v.Decision, want)
		}
	}
	if n := len(engine.Plan(toolEvent("x")).Entries); n != 0 {
		t.Errorf("%d hooks are planned of an engine that is off", n)
	}
	if v := unreadable(t.Context(), engine, toolEvent("x"), errors.New("bad")); v.Decision != grapnel.None {
		t.Errorf("hooks that are off fail: %+v", v)
	}
	if err := engine.Add(step("late", decides(grapnel.Block, "late"))); err != nil {
		t.Fatal(err)
	}
	if v := engine.Fire(t.Context(), toolEvent("x")); v.Decision != grapnel.None {
		t.Errorf("a hook that came later is on: %v", v.Decision)
	}
	engine.Enable(true)
	if v := engine.Fire(t.Context(), toolEvent("x")); v.Reason() != "no" {
		t.Errorf("on again: %+v", v)
	}
}

// TestIronClawRegistry repeats the behavior of IronClaw's registry, hook by hook.
//
// Proves: IC-05, IC-09, IC-11, IC-14, IC-15, IC-16, IC-17, IC-18, IC-19, IC-20, IC-21, IC-22
// Proves: IC-23, IC-24, IC-25
func TestIronClawRegistry(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	closed := func(s grapnel.Spec) grapnel.Spec {
		s.OnError = grapnel.OnErrorClosed
		return s
	}
	adds := func(text string) grapnel.Hook {
		return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldCommand, ev.Tool.Commands[0]+text)
		})
	}
	late := fails(fmt.Errorf("%w of 5s", grapnel.ErrTimeout))
	for name, tt := range map[string]struct {
		specs    []grapnel.Spec
		event    *grapnel.Event
		decision grapnel.Decision
		command  string // the command after all changes; x = unchanged
		ran      string
		cause    grapnel.Cause // of the first reason
		failed   string        // the hook that failed
	}{
		"IC-11": {[]grapnel.Spec{step("a", adds("1")), step("b", adds("2")), at(100, step("a", adds("3")))}, nil, grapnel.None, "x32", "a b", "", ""},
		"IC-14": {nil, nil, grapnel.None, "x", "", "", ""},
		"IC-15": {[]grapnel.Spec{on(step("a", decides(grapnel.Block, "no")), grapnel.SessionEnd)}, nil, grapnel.None, "x", "", "", ""},
		"IC-16": {[]grapnel.Spec{step("a", adds("1")), step("b", adds("2"))}, nil, grapnel.None, "x12", "a b", "", ""},
		"IC-17": {[]grapnel.Spec{step("a", adds("1")), step("b", decides(grapnel.Block, "no")), step("c", adds("2"))}, nil, grapnel.Block, "", "a b", grapnel.CauseDecision, ""},
		"IC-18": {[]grapnel.Spec{step("a", returns(setCommand("y"))), step("b", returns(setCommand("x")))}, nil, grapnel.None, "x", "a b", "", ""},
		"IC-19": {[]grapnel.Spec{step("a", returns(set(grapnel.FieldInput, `{"command":`))), step("b", adds("2"))}, nil, grapnel.None, "x2", "a b", "", "a"},
		"IC-20": {
			[]grapnel.Spec{step("a", returns(set(grapnel.FieldPrompt, `"y"`)))},
			&grapnel.Event{Kind: grapnel.SessionStart, Session: grapnel.Session{ID: "s"}},
			grapnel.None, "", "a", "", "a",
		},
		"IC-21": {[]grapnel.Spec{step("a", adds("1")), step("b", fails(broken)), step("c", adds("2"))}, nil, grapnel.None, "x12", "a b c", "", "b"},
		"IC-22": {[]grapnel.Spec{step("a", adds("1")), closed(step("b", fails(broken))), step("c", adds("2"))}, nil, grapnel.Block, "", "a b", grapnel.CauseError, "b"},
		"IC-23": {[]grapnel.Spec{step("a", late), step("b", adds("2"))}, nil, grapnel.None, "x2", "a b", "", "a"},
		"IC-24": {[]grapnel.Spec{closed(step("a", late)), step("b", adds("2"))}, nil, grapnel.Block, "", "a", grapnel.CauseTimeout, "a"},
		"IC-25": {[]grapnel.Spec{closed(step("a", adds("1"))), closed(step("b", returns(grapnel.Outcome{})))}, nil, grapnel.None, "x1", "a b", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var k keeper
			ev := tt.event
			if ev == nil {
				ev = toolEvent("x")
			}
			v := ofPreset(t, "ironclaw", &k, tt.specs...).Fire(t.Context(), ev)
			if v.Decision != tt.decision || tt.command != "" && command(t, v) != tt.command {
				t.Errorf("Verdict %+v, want %v and %q", v, tt.decision, tt.command)
			}
			if tt.command == "x" && len(v.Changes) > 0 || tt.decision == grapnel.Block && len(v.Changes) > 0 {
				t.Errorf("changes %s, want none", v.Changes)
			}
			if tt.cause != "" && (len(v.Reasons) == 0 || v.Reasons[0].Cause != tt.cause) {
				t.Errorf("reasons %+v, want the cause %s", v.Reasons, tt.cause)
			}
			var ran []string
			for _, r := range k.rec.Hooks {
				ran = append(ran, r.Name)
				if (r.Error != "") != (r.Name == tt.failed) {
					t.Errorf("%s: error %q, want one of %q only", r.Name, r.Error, tt.failed)
				}
			}
			if got := strings.Join(ran, " "); got != tt.ran {
				t.Errorf("asked were %q, want %q", got, tt.ran)
			}
		})
	}
	// The defaults of a hook without settings. IC-05, IC-09.
	preset, _ := grapnel.FindPreset("ironclaw")
	got := preset.Defaults(grapnel.Spec{Name: "h"})
	if got.Timeout.String() != "5s" || got.OnError != grapnel.OnErrorOpen || got.Priority != 0 {
		t.Errorf("defaults %+v", got)
	}
}

// TestOpenClawHandlers checks that a panic of one hook does not affect the others, that Fire does
// not wait for observing hooks, and that lower priorities run first, which is Grapnel's mapping of
// OpenClaw.
//
// Proves: OC-02, OC-03, OC-05, OC-06, OC-07
func TestOpenClawHandlers(t *testing.T) {
	t.Parallel()
	var d diary
	release := make(chan struct{})
	looks := func(name string, then func()) grapnel.Spec {
		return phase(grapnel.PhaseObserve, name, grapnel.Watch(func(context.Context, *grapnel.Event) {
			<-release
			d.write(name)
			if then != nil {
				then()
			}
		}))
	}
	engine := ofPreset(t, "openclaw", nil,
		at(9, step("second", d.logged("second", returns(grapnel.Outcome{})))),
		at(-9, step("first", d.logged("first", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { panic("boom") })))),
		looks("looks", nil), looks("looks and panics", func() { panic("boom") }), looks("looks too", nil))
	if v := engine.Fire(t.Context(), toolEvent("x")); v.Decision != grapnel.None {
		t.Errorf("Verdict %+v", v)
	}
	if got, want := d.read(), []string{"first saw x", "second saw x"}; !slices.Equal(got, want) {
		t.Errorf("before anybody who looks was let go: %q, want %q", got, want)
	}
	close(release) // all three wait at the same time, otherwise Close would not return
	if err := engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := d.read()[2:]
	slices.Sort(got)
	if want := []string{"looks", "looks and panics", "looks too"}; !slices.Equal(got, want) {
		t.Errorf("looked: %q, want %q", got, want)
	}
}

// TestOpenClawRunsTogether checks that hooks of equal priority run at the same time, although they
// have no timeout, and that a lower priority has ended before. A panic and a Block of one hook do not
// affect the others.
//
// Proves: OC-03, OC-05, OC-06
func TestOpenClawRunsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // reports a deadlock if the hooks run one after the other
		var d diary
		var meet sync.WaitGroup
		meet.Add(3)
		meets := func(name string, then func() grapnel.Outcome) grapnel.Spec {
			return step(name, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				meet.Done()
				meet.Wait()
				d.write(name)
				return then(), nil
			}))
		}
		engine := ofPreset(t, "openclaw", nil,
			at(200, step("late", d.logged("late", returns(grapnel.Outcome{})))),
			meets("panics", func() grapnel.Outcome { panic("boom") }),
			meets("blocks", func() grapnel.Outcome { return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"} }),
			meets("allows", func() grapnel.Outcome { return grapnel.Outcome{} }),
			at(1, step("early", d.logged("early", returns(grapnel.Outcome{})))))
		v := engine.Fire(t.Context(), toolEvent("x"))
		if v.Decision != grapnel.Block || v.Reason() != "no" {
			t.Errorf("verdict %v because %q, want a block because %q", v.Decision, v.Reason(), "no")
		}
		got := d.read()
		slices.Sort(got[1 : len(got)-1])
		if want := []string{"early saw x", "allows", "blocks", "panics", "late saw x"}; !slices.Equal(got, want) {
			t.Errorf("hooks ran %q, want %q", got, want)
		}
	})
}

// TestAddObserver checks that Observers can be added and removed while events are fired.
//
// Proves: FL-18
func TestAddObserver(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, nil, rule("h", decides(grapnel.Block, "no")))
	session, err := engine.With()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				var k keeper
				remove := engine.AddObserver(&k)
				session.Fire(t.Context(), toolEvent("x"))
				remove()
				remove()
				k.mu.Lock() // firings that have started may still call the Observer
				if k.n == 0 || k.rec.Decision != grapnel.Block {
					t.Errorf("told %d times: %+v", k.n, k.rec)
				}
				k.mu.Unlock()
			}
		})
	}
	group.Wait()
	var calls int
	observer := grapnel.ObserverFunc(func(context.Context, *grapnel.Record) { calls++ }) // funcs are not comparable
	remove := engine.AddObserver(observer)
	defer engine.AddObserver(observer)()
	engine.Fire(t.Context(), toolEvent("x"))
	remove()
	engine.Fire(t.Context(), toolEvent("x"))
	if calls != 3 {
		t.Errorf("told %d times, want twice by two and once by one", calls)
	}
	if engine.Fire(t.Context(), toolEvent("x")).Decision != grapnel.Block {
		t.Error("the hook is gone")
	}
}

// TestFunctionsAsHooks checks that ordinary functions can be hooks.
//
// Proves: IC-04, MC-03, MC-04, FL-14, FL-16
func TestFunctionsAsHooks(t *testing.T) {
	t.Parallel()
	ctx, ev := t.Context(), toolEvent(`a && b > "c"`)
	var seen *grapnel.Event
	for name, tt := range map[string]struct {
		hook grapnel.Hook
		want grapnel.Outcome
	}{
		"func":         {returns(grapnel.Outcome{Message: "m"}), grapnel.Outcome{Message: "m"}},
		"guard":        {grapnel.Guard(func(ev *grapnel.Event) string { return ev.Tool.Name }), grapnel.Outcome{Decision: grapnel.Block, Reason: "bash"}},
		"silent guard": {grapnel.Guard(func(*grapnel.Event) string { return "" }), grapnel.Outcome{}},
		"watch":        {grapnel.Watch(func(_ context.Context, ev *grapnel.Event) { seen = ev }), grapnel.Outcome{}},
		"replace": {grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldCommand, ev.Tool.Commands[0])
		}), set(grapnel.FieldCommand, `"a && b > \"c\""`)},
	} {
		got, err := tt.hook.Handle(ctx, ev)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got)\n%s", name, err, diff)
		}
	}
	if seen != ev {
		t.Error("who watches saw nothing")
	}
	if out, err := grapnel.Replace(grapnel.FieldCommand, make(chan int)); err == nil || !strings.Contains(err.Error(), "tool.command") || out.Set != nil {
		t.Errorf("Replace by what has no JSON = %+v, %v", out, err)
	}
}

// checked is a hook that can report in advance that it cannot work.
type checked struct {
	grapnel.Hook
	err error
}

func (c checked) Check() error { return c.err }

func TestChecker(t *testing.T) {
	t.Parallel()
	broken := errors.New("no license")
	bad, good := step("h", checked{returns(grapnel.Outcome{}), broken}), step("h", checked{returns(grapnel.Outcome{}), nil})
	engine := newEngine(t, nil, good)
	_, withErr := engine.With(bad)
	_, newErr := grapnel.New([]grapnel.Spec{bad}, nil)
	for name, err := range map[string]error{"New": newErr, "Add": engine.Add(bad), "With": withErr, "wrapped": engine.Add(step("h", wrapped{bad.Hook}))} {
		if !errors.Is(err, broken) || err.Error() != `hook "h": no license` {
			t.Errorf("%s = %v, want what the hook says", name, err)
		}
	}
}

// TestHooksGetTheWholeEvent checks that an in-process hook gets the complete event: session, user,
// channel, tool input and output, and the values in the caller's context.
//
// Proves: IC-08, MC-01, OC-04
func TestHooksGetTheWholeEvent(t *testing.T) {
	t.Parallel()
	type runID struct{}
	var d diary
	watch := grapnel.Watch(func(ctx context.Context, ev *grapnel.Event) {
		line := fmt.Sprint(ev.Kind, " ", ctx.Value(runID{}), " ", ev.Session.ID, " ", ev.Session.Channel, " ", ev.Session.User)
		switch {
		case ev.Tool != nil:
			line += fmt.Sprint(" ", ev.Tool.Name, " ", string(ev.Tool.Input), string(ev.Tool.Output))
		case ev.Message != nil:
			line += " " + ev.Message.Content
		}
		d.write(line)
	})
	engine := newEngine(t, nil, step("tell", watch), phase(grapnel.PhaseObserve, "look", watch))
	ctx := context.WithValue(t.Context(), runID{}, "run7")
	session := grapnel.Session{ID: "s1", Channel: "chat", User: "u1"}
	tool := grapnel.Tool{Name: "ls", Input: []byte(`{"dir":"."}`)}
	listed := tool
	listed.Output = []byte(`["a"]`)
	var want []string
	for _, tt := range []struct {
		ev   grapnel.Event
		want string
	}{
		{grapnel.Event{Kind: grapnel.SessionStart}, ""},
		{grapnel.Event{Kind: grapnel.MessageReceived, Message: &grapnel.Message{Content: "hello"}}, " hello"},
		{grapnel.Event{Kind: grapnel.ToolBefore, Tool: &tool}, ` ls {"dir":"."}`},
		{grapnel.Event{Kind: grapnel.ToolAfter, Tool: &listed}, ` ls {"dir":"."}["a"]`},
	} {
		tt.ev.Session = session
		engine.Fire(ctx, &tt.ev)
		line := string(tt.ev.Kind) + " run7 s1 chat u1" + tt.want
		want = append(want, line, line)
	}
	if err := engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := d.read()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hooks were told (-want +got):\n%s", diff)
	}
}
