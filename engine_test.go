package grapnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/allruns"
)

func names(specs []grapnel.Spec) []string {
	var names []string
	for i := range specs {
		names = append(names, specs[i].FullName())
	}
	return names
}

func from(source, name string) grapnel.Spec {
	return grapnel.Spec{Name: name, Source: grapnel.Source{Name: source}, Hook: returns(grapnel.Outcome{})}
}

func TestWithAddRemove(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, nil, from("", "a"), from("git", "a"))
	session, err := engine.With(from("session", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Add(from("git", "b"), from("other", "b")); err != nil {
		t.Fatal(err)
	}
	if n := engine.Remove(sourceIs("git")); n != 2 {
		t.Errorf("Remove(git) = %d, want 2", n)
	}
	if n := engine.Remove(sourceIs("git")); n != 0 {
		t.Errorf("Remove(git) again = %d, want 0", n)
	}
	if got, want := names(engine.Specs("")), []string{"a", "other::b"}; !slices.Equal(got, want) {
		t.Errorf("engine has %q, want %q", got, want)
	}
	if got, want := names(session.Specs("")), []string{"session::a", "a", "other::b"}; !slices.Equal(got, want) {
		t.Errorf("session has %q, want %q", got, want)
	}
	if n := engine.Remove(sourceIs("")); n != 1 {
		t.Errorf("Remove of hooks without a source = %d, want 1", n)
	}
}

func TestNamesAreUniqueInASource(t *testing.T) {
	t.Parallel()
	const want = `two hooks have the name "a" in source "git": names must be unique in a source`
	if _, err := grapnel.New([]grapnel.Spec{from("git", "a"), from("", "a"), from("git", "a")}, nil); err == nil || err.Error() != want {
		t.Errorf("New = %v, want %q", err, want)
	}
	engine := newEngine(t, nil, from("git", "a"))
	if err := engine.Add(from("svn", "a"), from("git", "a")); err == nil || err.Error() != want {
		t.Errorf("Add = %v, want %q", err, want)
	}
	if _, err := engine.With(from("git", "a"), from("git", "a")); err == nil || err.Error() != want {
		t.Errorf("With = %v, want %q", err, want)
	}
	if got := names(engine.Specs("")); !slices.Equal(got, []string{"git::a"}) {
		t.Errorf("after a refused Add the engine has %q", got)
	}
}

// TestEngineOwnsItsSpecs checks that an engine copies its Specs, so later changes by the caller
// have no effect.
func TestEngineOwnsItsSpecs(t *testing.T) {
	t.Parallel()
	spec := grapnel.Spec{
		Name: "h", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"}, Priority: 1,
		Hook: decides(grapnel.Block, "no"),
	}
	given := []grapnel.Spec{spec}
	var k keeper
	opts := &grapnel.Options{Observers: []grapnel.Observer{&k}}
	engine := newEngine(t, opts, given...)
	spoil := func(s *grapnel.Spec) {
		s.Hook, s.On[0], s.Tools[0], s.Priority = returns(grapnel.Outcome{}), grapnel.SessionEnd, "read", 7
	}
	spoil(&given[0])
	opts.Observers[0] = nil
	specs := engine.Specs("")
	spoil(&specs[0])
	session, err := engine.With()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*grapnel.Engine{engine, session} {
		if v := e.Fire(t.Context(), toolEvent("x")); v.Decision != grapnel.Block {
			t.Errorf("decision %v, want block", v.Decision)
		}
		if got := e.Specs("")[0]; got.On[0] != grapnel.ToolBefore || got.Tools[0] != "shell" || got.Priority != 1 {
			t.Errorf("the Spec is now %+v", got)
		}
	}
}

func TestSpecErrors(t *testing.T) {
	t.Parallel()
	hook := returns(grapnel.Outcome{})
	tests := []struct {
		spec grapnel.Spec
		want string
	}{
		{grapnel.Spec{Hook: hook}, "hook without a name: set Spec.Name"},
		{grapnel.Spec{Name: "h"}, `hook "h": no Hook: set Spec.Hook`},
		{grapnel.Spec{Name: "h", Hook: hook, Timeout: -1}, `hook "h": timeout -1ns is negative`},
		{grapnel.Spec{Name: "h", Hook: hook, On: []grapnel.Kind{"tool.befor"}}, `hook "h": unknown event "tool.befor": use a Kind of grapnel.Contracts, or native.<agent>.<Name>`},
		{grapnel.Spec{Name: "h", Hook: hook, Tools: []string{"bash", "[a"}}, `hook "h": tool pattern "[a": syntax error in pattern`},
		{grapnel.Spec{Name: "h", Hook: hook, Phase: 4}, `hook "h": unknown value phase(4)`},
		{grapnel.Spec{Name: "h", Hook: hook, OnError: 4}, `hook "h": unknown value on_error(4)`},
		{grapnel.Spec{Name: "h", Hook: hook, Source: grapnel.Source{Scope: -2}}, `hook "h": unknown value scope(-2)`},
		{grapnel.Spec{Name: "h", Hook: hook, Source: grapnel.Source{Scope: 4}}, `hook "h": unknown value scope(4)`},
	}
	for _, tt := range tests {
		if _, err := grapnel.New([]grapnel.Spec{tt.spec}, nil); err == nil || err.Error() != tt.want {
			t.Errorf("New(%+v) = %v, want %q", tt.spec, err, tt.want)
		}
	}
	if _, err := grapnel.New([]grapnel.Spec{{Name: "h", Hook: hook, On: []grapnel.Kind{"native.agent.Thing"}}}, nil); err != nil {
		t.Errorf("a native event: %v", err)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    fmt.Stringer
		want string
	}{
		{grapnel.PhaseStep, "step"},
		{grapnel.PhaseRewrite, "rewrite"},
		{grapnel.PhaseRule, "rule"},
		{grapnel.PhaseObserve, "observe"},
		{grapnel.Phase(4), "phase(4)"},
		{grapnel.OnErrorDefault, "default"},
		{grapnel.OnErrorOpen, "open"},
		{grapnel.OnErrorClosed, "closed"},
		{grapnel.OnErrorAsk, "ask"},
		{grapnel.ScopeManaged, "managed"},
		{grapnel.ScopeUser, "user"},
		{grapnel.ScopeProject, "project"},
		{grapnel.ScopePlugin, "plugin"},
		{grapnel.ScopeSession, "session"},
		{grapnel.Scope(-2), "scope(-2)"},
		{grapnel.Scope(4), "scope(4)"},
		{grapnel.None, "none"},
		{grapnel.Allow, "allow"},
		{grapnel.Ask, "ask"},
		{grapnel.Block, "block"},
		{grapnel.Decision(4), "decision(4)"},
	} {
		if got := tt.v.String(); got != tt.want {
			t.Errorf("%T: %q, want %q", tt.v, got, tt.want)
		}
		if text := string(encoded(tt.v)); text != `"`+tt.want+`"` {
			t.Errorf("%T in JSON: %s, want %q", tt.v, text, tt.want)
		}
	}
	for text, want := range map[string]grapnel.Decision{"": grapnel.None, "none": grapnel.None, "allow": grapnel.Allow, "ask": grapnel.Ask, "block": grapnel.Block} {
		var got grapnel.Decision
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("UnmarshalText(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	if err := new(grapnel.Decision).UnmarshalText([]byte("deny")); err == nil {
		t.Error("UnmarshalText(deny): no error")
	}
}

func TestMatchTool(t *testing.T) {
	t.Parallel()
	bash := &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell}
	mcp := &grapnel.Tool{Name: "fs_read", Class: grapnel.ClassMCP, MCP: &grapnel.MCP{Server: "fs", Tool: "read"}}
	for _, tt := range []struct {
		pattern string
		tool    *grapnel.Tool
		want    bool
	}{
		{"shell", bash, true},
		{"Bash", bash, true},
		{"bash", bash, false},
		{"B*", bash, true},
		{"[AB]ash", bash, true},
		{"?ash", bash, true},
		{"*", bash, true},
		{"Bas", bash, false},
		{"mcp__*", bash, false},
		{`B\ash`, bash, true},
		{"mcp", mcp, true},
		{"mcp__fs__read", mcp, true},
		{"mcp__fs__*", mcp, true},
		{"mcp__db__*", mcp, false},
		{"fs_*", mcp, true},
		{"*", nil, false},
		{"", bash, false},
	} {
		if got := tt.tool.Matches([]string{"no such tool", tt.pattern}); got != tt.want {
			t.Errorf("(%+v).Matches(%q) = %v, want %v", tt.tool, tt.pattern, got, tt.want)
		}
	}
	if bash.Matches(nil) {
		t.Error("Matches without patterns = true, want false")
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	called := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		t.Error("Plan called a hook")
		return grapnel.Outcome{}, nil
	})
	spec := func(name string, p grapnel.Phase, priority int) grapnel.Spec {
		s := scoped(name, grapnel.ScopeUser, priority, called)
		s.Phase = p
		return s
	}
	broken := spec("broken", grapnel.PhaseStep, 7)
	broken.Match = brokenMatcher{}
	matched := spec("matched", grapnel.PhaseStep, 7)
	matched.Match, matched.Source.File, matched.Line = explained{}, "grapnel.yaml", 12
	other := spec("other", grapnel.PhaseStep, 7)
	other.Tools = []string{"read"}
	shell := spec("shell", grapnel.PhaseStep, 100)
	shell.Tools = []string{"shell"}
	rare := spec("rare", grapnel.PhaseStep, 1)
	rare.On = []grapnel.Kind{grapnel.SessionEnd}
	engine := newEngine(t, nil, spec("observer", grapnel.PhaseObserve, 0), shell, spec("rule", grapnel.PhaseRule, 5), broken, matched, other, rare,
		spec("rewrite 2", grapnel.PhaseRewrite, 2), spec("rewrite 1", grapnel.PhaseRewrite, 1), spec("rule 2", grapnel.PhaseRule, 5))
	got := engine.Plan(toolEvent("x"))
	want := grapnel.Plan{Event: grapnel.ToolBefore, Entries: []grapnel.Planned{
		{Step: 1, Phase: grapnel.PhaseRewrite, Hook: "rewrite 1", Source: "user", Matched: "event tool.before"},
		{Step: 2, Phase: grapnel.PhaseRewrite, Hook: "rewrite 2", Source: "user", Matched: "event tool.before"},
		{Step: 3, Phase: grapnel.PhaseRule, Hook: "rule", Source: "user", Matched: "event tool.before"},
		{Step: 3, Phase: grapnel.PhaseRule, Hook: "rule 2", Source: "user", Matched: "event tool.before"},
		{Step: 4, Hook: "broken", Source: "user", Matched: "event tool.before", Error: "cannot check whether the hook listens: bad pattern"},
		{Step: 4, Hook: "matched", Source: "user", File: "grapnel.yaml", Line: 12, Matched: "command x"},
		{Step: 5, Hook: "shell", Source: "user", Matched: "tool bash"},
		{Step: 6, Phase: grapnel.PhaseObserve, Hook: "observer", Source: "user", Matched: "event tool.before"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Plan (-want +got):\n%s", diff)
	}
	if got := newEngine(t, nil).Plan(toolEvent("x")); string(encoded(got)) != `{"event":"tool.before","entries":[]}` {
		t.Errorf("empty Plan in JSON: %s", encoded(got))
	}
	if got := engine.Plan(&grapnel.Event{Kind: "native.agent.Thing"}); len(got.Entries) != 7 {
		t.Errorf("Plan of a native event %+v, want the 7 that listen to all events and tools", got)
	}
}

type explained struct{}

func (explained) Match(*grapnel.Event, *grapnel.Verdict) (bool, error) { return true, nil }
func (explained) Explain(ev *grapnel.Event, _ *grapnel.Verdict) string {
	if ev.Tool == nil {
		return ""
	}
	return "command " + ev.Tool.Commands[0]
}

// backgroundFunc adapts a function to a Background.
func TestBackground(t *testing.T) {
	t.Parallel()
	late := func(name string, m grapnel.Matcher) grapnel.Spec {
		return grapnel.Spec{Name: name, Phase: grapnel.PhaseObserve, Match: m, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			t.Errorf("the engine ran %s itself", name)
			return grapnel.Outcome{}, nil
		})}
	}
	for _, tt := range []struct {
		decision grapnel.Decision
		want     []string
	}{
		{grapnel.None, []string{"always"}},
		{grapnel.Block, []string{"always", "on block"}},
	} {
		var k keeper
		var got []string
		engine := newEngine(t, &grapnel.Options{
			Observers: []grapnel.Observer{&k},
			Background: func(_ context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
				got = names(hooks)
				if ev.Verdict() == nil || ev.Verdict().Decision != tt.decision || ev.Verdict().Event.Tool.Commands[0] != "y" || ev.Tool.Commands[0] != "y" {
					t.Errorf("Background got the event %+v", ev)
				}
				return errors.New("spool full")
			},
		}, late("always", nil), late("on block", onBlock{}), late("broken", brokenMatcher{}),
			rewrite("r", returns(setCommand("y"))), step("h", decides(tt.decision, "")))
		ev := toolEvent("x")
		v := engine.Fire(t.Context(), ev)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: Background got %q, want %q", tt.decision, got, tt.want)
		}
		if want := "observing hooks were not started: spool full"; k.rec.Error != want || !slices.Contains(v.Messages, "grapnel: "+want) {
			t.Errorf("Record.Error %q, messages %q, want %q", k.rec.Error, v.Messages, want)
		}
		if r := run(t, k.rec, "broken"); r.Error != "cannot check whether the hook listens: bad pattern" || !r.Async {
			t.Errorf("run %+v", r)
		}
		if v.Decision != tt.decision || v.Event.Verdict() != nil || ev.Verdict() != nil {
			t.Errorf("Verdict %+v: only observing hooks see it in their event", v)
		}
	}

	v := newEngine(t, &grapnel.Options{
		Background: func(context.Context, *grapnel.Event, []grapnel.Spec) error { panic("boom") },
	}, late("always", nil)).Fire(t.Context(), toolEvent("x"))
	if want := []string{"grapnel: observing hooks were not started: panicked: boom"}; !slices.Equal(v.Messages, want) {
		t.Errorf("messages %q, want %q", v.Messages, want)
	}
}

// TestChangesWhileFiring checks that adding and removing hooks does not affect firings that have
// started. Run with -race.
func TestChangesWhileFiring(t *testing.T) {
	t.Parallel()
	guard := rule("guard", decides(grapnel.Block, "no"))
	engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&keeper{}}}, guard)
	again := engine // hooks change the engine that runs them
	if err := engine.Add(rewrite("reentrant", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		again.Remove(sourceIs("nobody"))
		return grapnel.Outcome{}, nil
	}))); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 4 {
		source := fmt.Sprint("source", i)
		group.Go(func() {
			for range 25 {
				if err := engine.Add(from(source, "a"), grapnel.Spec{Name: "late", Source: grapnel.Source{Name: source}, Phase: grapnel.PhaseObserve, Hook: returns(grapnel.Outcome{})}); err != nil {
					t.Error(err)
				}
				if _, err := engine.With(from("session", "a")); err != nil {
					t.Error(err)
				}
				if n := engine.Remove(sourceIs(source)); n != 2 {
					t.Errorf("Remove(%s) = %d, want 2", source, n)
				}
			}
		})
		group.Go(func() {
			for range 200 {
				if v := engine.Fire(t.Context(), toolEvent("x")); v.Decision != grapnel.Block {
					t.Errorf("decision %v: the guard was not there for a moment", v.Decision)
				}
				if len(engine.Plan(toolEvent("x")).Entries) < 2 {
					t.Error("the Plan lacks a hook that was always there")
				}
			}
		})
	}
	group.Wait()
	if err := engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := names(engine.Specs("")), []string{"guard", "reentrant"}; !slices.Equal(got, want) {
		t.Errorf("engine has %q, want %q", got, want)
	}
}

// TestAddDuringAFiring checks that a hook added during a firing runs from the next event on.
func TestAddDuringAFiring(t *testing.T) {
	t.Parallel()
	var d diary
	var engine *grapnel.Engine
	engine = newEngine(t, nil, rule("adds", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		d.write("adds")
		engine.Remove(sourceIs("added"))
		return grapnel.Outcome{}, engine.Add(grapnel.Spec{Name: "h", Source: grapnel.Source{Name: "added"}, Hook: d.logged("added", returns(grapnel.Outcome{}))})
	})))
	engine.Fire(t.Context(), toolEvent("x"))
	engine.Fire(t.Context(), toolEvent("x"))
	if got, want := strings.Join(d.read(), ", "), "adds, adds, added saw x"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// TestNoListener checks that Fire does no work if no hook listens.
func TestNoListener(t *testing.T) {
	t.Parallel()
	engine := newEngine(t, nil, grapnel.Spec{Name: "h", On: []grapnel.Kind{grapnel.SessionEnd}, Hook: decides(grapnel.Block, "")})
	ev := toolEvent("x")
	if v := engine.Fire(t.Context(), ev); v.Event != ev || v.Decision != grapnel.None {
		t.Errorf("Verdict %+v, want the event as it came", v)
	}
}

// undecided is a Matcher that gives up.
type undecided struct{}

func (undecided) Match(*grapnel.Event, *grapnel.Verdict) (bool, error) {
	return false, fmt.Errorf("matcher \"(a+)+b\": %w", grapnel.ErrUndecided)
}

// TestUndecidedMatcher checks that a hook runs if its Matcher cannot decide, and that the message
// and the Record name the Matcher.
func TestUndecidedMatcher(t *testing.T) {
	t.Parallel()
	const want = `the hook runs anyway: matcher "(a+)+b": cannot decide whether the hook listens`
	for _, decision := range []grapnel.Decision{grapnel.None, grapnel.Block} {
		spec := grapnel.Spec{Name: "guard", Match: undecided{}, Hook: decides(decision, "no"), OnError: grapnel.OnErrorClosed}
		v, rec := fire(t, toolEvent("x"), spec)
		if v.Decision != decision || v.Err != nil || !slices.Equal(v.Messages, []string{`grapnel: hook "guard": ` + want}) {
			t.Errorf("%v: verdict %+v", decision, v)
		}
		if r := run(t, rec, "guard"); r.Decision != decision || r.Error != want || !errors.Is(r.Err, grapnel.ErrUndecided) || r.FailOpen {
			t.Errorf("%v: run %+v", decision, r)
		}
		if p := newEngine(t, nil, spec).Plan(toolEvent("x")); len(p.Entries) != 1 || p.Entries[0].Error != want {
			t.Errorf("plan %+v", p)
		}
	}
	ran := make(chan struct{})
	observer := grapnel.Spec{Name: "observer", Match: undecided{}, Phase: grapnel.PhaseObserve, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) { close(ran) })}
	fire(t, toolEvent("x"), observer)
	<-ran
}

// TestMatchersSeeEachEventAnew checks that a Matcher may cache by the event's address although
// callers reuse their events.
func TestMatchersSeeEachEventAnew(t *testing.T) {
	t.Parallel()
	guard := rule("guard", decides(grapnel.Block, "no"))
	guard.Match = &remembers{known: map[*grapnel.Event]string{}}
	engine := newEngine(t, nil, rewrite("harmless", returns(grapnel.Outcome{})), guard)
	ev := toolEvent("rm")
	for _, command := range []string{"rm", "ls", "rm"} {
		ev.Tool = toolEvent(command).Tool
		planned := len(engine.Plan(ev).Entries) == 2
		blocked := engine.Fire(t.Context(), ev).Decision == grapnel.Block
		if want := command == "rm"; planned != want || blocked != want {
			t.Errorf("%s: planned %v, blocked %v, want %v", command, planned, blocked, want)
		}
	}
}

type remembers struct{ known map[*grapnel.Event]string }

func (r *remembers) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	if _, known := r.known[ev]; !known {
		r.known[ev] = ev.Tool.Commands[0]
	}
	return r.known[ev] == "rm", nil
}

// TestDecides checks that Decides ignores observing hooks.
func TestDecides(t *testing.T) {
	t.Parallel()
	on := []grapnel.Kind{grapnel.ToolBefore}
	observe := grapnel.Spec{Name: "late", On: on, Phase: grapnel.PhaseObserve, Hook: returns(grapnel.Outcome{})}
	dry := grapnel.Spec{Name: "dry", On: on, Observe: true, Hook: returns(grapnel.Outcome{})}
	guard := grapnel.Spec{Name: "guard", Source: grapnel.Source{Name: "guards"}, On: on, Hook: returns(grapnel.Outcome{})}
	engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(context.Context, *grapnel.Record) {})}}, observe, dry)
	if !heard(engine, grapnel.ToolBefore) || mayDecide(engine, grapnel.ToolBefore) {
		t.Error("somebody decides who only looks")
	}
	if err := engine.Add(guard); err != nil {
		t.Fatal(err)
	}
	session, err := engine.With()
	if err != nil || !mayDecide(engine, grapnel.ToolBefore) || !mayDecide(session, grapnel.ToolBefore) || mayDecide(engine, grapnel.ToolAfter) {
		t.Errorf("a guard decides nothing, or what it does not listen to (%v)", err)
	}
	if engine.Enable(false); mayDecide(session, grapnel.ToolBefore) {
		t.Error("a guard that is switched off decides")
	}
}

// TestNotNew checks that a nil and a zero engine have no hooks, refuse changes, and do not panic.
func TestNotNew(t *testing.T) {
	t.Parallel()
	var zero grapnel.Engine
	for name, e := range map[string]*grapnel.Engine{"nil": nil, "zero": &zero} {
		ev := toolEvent("x")
		if v := e.Fire(t.Context(), ev); v.Decision != grapnel.None || v.Event != ev {
			t.Errorf("%s: Fire = %+v", name, v)
		}
		v, runs := allruns.Fire(t.Context(), e, ev)
		if _, more := <-runs; v.Decision != grapnel.None || more {
			t.Errorf("%s: Fire with Late = %+v", name, v)
		}
		if v := unreadable(t.Context(), e, ev, errors.New("not JSON")); v.Decision != grapnel.None {
			t.Errorf("%s: Fire of an unreadable event = %+v", name, v)
		}
		hook := step("h", returns(grapnel.Outcome{}))
		with, err := e.With(hook)
		for what, err := range map[string]error{"Add": e.Add(hook), "Update": e.Update(func(s []grapnel.Spec) []grapnel.Spec { return s }), "With": err} {
			if err == nil || !strings.Contains(err.Error(), "grapnel.New") {
				t.Errorf("%s: %s = %v, want an error that names grapnel.New", name, what, err)
			}
		}
		e.Enable(true)
		e.AddObserver(grapnel.ObserverFunc(func(context.Context, *grapnel.Record) { t.Error("it was called") }))()
		if n := e.Remove(sourceIs("s")) + len(e.Specs("")) + len(e.Specs(ev.Kind)) + len(e.Plan(ev).Entries); n != 0 || heard(e, ev.Kind) || mayDecide(e, ev.Kind) || with != nil {
			t.Errorf("%s has hooks", name)
		}
		in := e.In(t.Context())
		if err := in.Add(hook); err != nil || len(in.Specs("")) != 1 || len(e.Specs("")) != 0 {
			t.Errorf("%s: an engine from In cannot get hooks: %v", name, err)
		}
		if e.In(grapnel.NewContext(t.Context(), in)) != in || in.In(grapnel.NewContext(t.Context(), e)) != in {
			t.Errorf("%s: In does not return the engine with hooks", name)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Errorf("%s: Close = %v", name, err)
		}
	}
}

type pointerHook struct{}

func (*pointerHook) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}

// TestNilHooks checks that New refuses hooks that would panic when they are called.
func TestNilHooks(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]grapnel.Hook{
		"nil": nil, "Func": grapnel.Func(nil), "Guard": grapnel.Guard(nil), "Watch": grapnel.Watch(nil), "pointer": (*pointerHook)(nil),
	} {
		if _, err := grapnel.New([]grapnel.Spec{step("h", h)}, nil); err == nil || !strings.Contains(err.Error(), `hook "h": no Hook`) {
			t.Errorf("%s: New = %v, want an error", name, err)
		}
	}
	if _, err := grapnel.New([]grapnel.Spec{step("h", &pointerHook{})}, nil); err != nil {
		t.Error(err)
	}
}

// TestGuardFailsClosed checks that a Guard that panics blocks, unless its Spec says otherwise.
func TestGuardFailsClosed(t *testing.T) {
	t.Parallel()
	broken := step("h", grapnel.Guard(func(ev *grapnel.Event) string { return ev.Tool.Commands[7] }))
	if v, _ := fire(t, toolEvent("x"), broken); v.Decision != grapnel.Block || v.Reasons[0].Cause != grapnel.CauseError {
		t.Errorf("a broken Guard: %+v", v)
	}
	broken.OnError = grapnel.OnErrorOpen
	if v, _ := fire(t, toolEvent("x"), broken); v.Decision != grapnel.None || len(v.Messages) != 1 {
		t.Errorf("a broken Guard that fails open: %+v", v)
	}
}

// TestFireCompletesCalls checks that hooks find commands and paths in the input of a call that the
// caller has not completed, and that the caller's event stays unchanged.
func TestFireCompletesCalls(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tool grapnel.Tool
		want string
	}{
		"usual names":  {grapnel.Tool{Name: "t", Input: json.RawMessage(`{"command":"ls","path":"a","url":"u","content":"c"}`)}, `shell [ls] [{a write}] [u] "c"`},
		"other names":  {grapnel.Tool{Name: "t", Input: json.RawMessage(`{"file":"a","dest":"b","uri":"file:///c","files":[{"name":"d"},"e"],"name":"no"}`)}, `other [] [{a write} {file:///c write} {b write} {e write} {d write}] [] ""`},
		"an address":   {grapnel.Tool{Name: "t", Input: json.RawMessage(`{"uri":"https://a"}`)}, `other [] [] [https://a] ""`},
		"a reader":     {grapnel.Tool{Name: "read_it", Input: json.RawMessage(`{"target":"a"}`)}, `other [] [{a read}] [] ""`},
		"more":         {grapnel.Tool{Name: "readAndPatch", Input: json.RawMessage(`{"target":"a"}`)}, `other [] [{a write}] [] ""`},
		"a server":     {grapnel.Tool{Name: "t", MCP: &grapnel.MCP{Server: "read", Tool: "t"}, Input: json.RawMessage(`{"target":"a"}`)}, `mcp [] [{a write}] [] ""`},
		"a read":       {grapnel.Tool{Name: "t", Class: grapnel.ClassRead, Input: json.RawMessage(`{"file_path":"a"}`)}, `read [] [{a read}] [] ""`},
		"an MCP tool":  {grapnel.Tool{Name: "t", MCP: &grapnel.MCP{Server: "s", Tool: "t"}, Input: json.RawMessage(`{"command":7,"x":1}`)}, `mcp [] [] [] ""`},
		"own facts":    {grapnel.Tool{Name: "t", Input: json.RawMessage(`{"cmd":"ls","command":"no"}`), Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/cmd"}}}, `shell [ls] [] [] ""`},
		"own commands": {grapnel.Tool{Name: "t", Input: json.RawMessage(`{"command":"ls"}`), Commands: []string{"rm"}}, ` [rm] [] [] ""`},
		"no input":     {grapnel.Tool{Name: "t"}, ` [] [] [] ""`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			ev := event(grapnel.ToolBefore)
			ev.Tool = &tt.tool
			before := tt.tool
			fire(t, ev, step("h", grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
				got = fmt.Sprintf("%s %v %v %v %q", ev.Tool.Class, ev.Tool.Commands, ev.Tool.Paths, ev.Tool.URLs, ev.Tool.Content)
			})))
			if got != tt.want {
				t.Errorf("the hook got %s, want %s", got, tt.want)
			}
			if !reflect.DeepEqual(before, tt.tool) {
				t.Errorf("the caller's call became %+v", tt.tool)
			}
		})
	}
}

// TestErrorsOfHooks checks that the errors of failed hooks can be told apart.
func TestErrorsOfHooks(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("the server is down")
	late := step("late", grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
		<-ctx.Done()
		return grapnel.Outcome{}, nil
	}))
	late.Timeout = time.Millisecond
	for name, tt := range map[string]struct {
		hook grapnel.Spec
		want error
	}{
		"own":     {step("own", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, errOwn })), errOwn},
		"panic":   {step("panic", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { panic("boom") })), grapnel.ErrPanic},
		"timeout": {late, grapnel.ErrTimeout},
		"illegal": {step("illegal", returns(set(grapnel.FieldPrompt, `"p"`))), grapnel.ErrIllegal},
	} {
		for _, onError := range []grapnel.OnError{grapnel.OnErrorOpen, grapnel.OnErrorClosed} {
			tt.hook.OnError = onError
			v, rec := fire(t, toolEvent("x"), tt.hook)
			if r := run(t, rec, tt.hook.Name); !errors.Is(r.Err, tt.want) || r.Err.Error() != r.Error {
				t.Errorf("%s: HookRun.Err = %v, want %v", name, r.Err, tt.want)
			}
			if blocked := v.Decision == grapnel.Block; blocked != (onError == grapnel.OnErrorClosed) || errors.Is(v.Err, tt.want) != blocked {
				t.Errorf("%s, %v: decision %v, Err %v", name, onError, v.Decision, v.Err)
			}
		}
	}
	if v, rec := fire(t, toolEvent("x"), step("no", decides(grapnel.Block, "no"))); v.Err != nil || rec.Hooks[0].Err != nil {
		t.Errorf("a hook that decided: %v, %v", v.Err, rec.Hooks[0].Err)
	}
	if v := unreadable(t.Context(), newEngine(t, nil, rule("h", returns(grapnel.Outcome{}))), toolEvent("x"), errOwn); !errors.Is(v.Err, errOwn) {
		t.Errorf("Fail: Err = %v", v.Err)
	}
}

// TestReasonOfAFire checks that a Verdict needs no variable before its Reason can be read.
func TestReasonOfAFire(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil, grapnel.Spec{Name: "guard", Hook: decides(grapnel.Block, "no")})
	if got := e.Fire(t.Context(), toolEvent("x")).Reason(); got != "no" {
		t.Errorf("Reason() = %q, want no", got)
	}
}

// A Verdict says in one method whether the action may run.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		v    grapnel.Verdict
		want bool
	}{
		{grapnel.Verdict{}, false},
		{grapnel.Verdict{Decision: grapnel.Allow}, false},
		{grapnel.Verdict{Decision: grapnel.Ask}, true},
		{grapnel.Verdict{Decision: grapnel.Block}, true},
		{grapnel.Verdict{Halt: "enough"}, true},
		{grapnel.Verdict{Decision: grapnel.Allow, Halt: "enough"}, true},
	} {
		if got := tt.v.Stops(); got != tt.want {
			t.Errorf("%s with halt %q stops: %v", tt.v.Decision, tt.v.Halt, got)
		}
	}
}

// A nil event is blocked, and an engine without hooks does the same.
func TestNilEvent(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*grapnel.Engine{"no hooks": newEngine(t, nil), "a hook": newEngine(t, nil, step("h", returns(grapnel.Outcome{}))), "nil": nil} {
		all, runs := allruns.Fire(t.Context(), e, nil)
		for range runs {
		}
		for _, v := range []grapnel.Verdict{e.Fire(t.Context(), nil), all} {
			if !v.Stops() || v.Err == nil || v.Event == nil || !strings.Contains(v.Reason(), "has no Kind") {
				t.Errorf("%s: %+v", name, v)
			}
		}
		if plan := e.Plan(nil); plan.Event != "" {
			t.Errorf("%s: planned %+v", name, plan)
		}
	}
}
