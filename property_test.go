package grapnel_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// call is one call of a generated hook. The command before and after the call represents the
// whole event.
type call struct {
	hook      string
	phase     grapnel.Phase
	scope     grapnel.Scope
	saw, left string
	decision  grapnel.Decision
	observing bool
}

// calls records the calls of the generated hooks in one test, in order.
type calls struct {
	mu   sync.Mutex
	list []call
}

// add records a call. Every change is unique, so that no two versions of the event are equal.
func (c *calls) add(one call, changes bool) call {
	c.mu.Lock()
	defer c.mu.Unlock()
	one.left = one.saw
	if changes {
		one.left = fmt.Sprint("v", len(c.list))
	}
	c.list = append(c.list, one)
	return one
}

// drawn limits the Specs that drawSpec may generate.
type drawn struct {
	phases    []grapnel.Phase
	decisions []grapnel.Decision
	change    bool // some hooks change the event
	fail      bool // some hooks fail
	observe   bool // some hooks only observe
	timeout   bool // some hooks run in a goroutine
}

var anyDecision = []grapnel.Decision{grapnel.None, grapnel.Allow, grapnel.Ask, grapnel.Block}

var inLine = []grapnel.Phase{grapnel.PhaseRewrite, grapnel.PhaseRule, grapnel.PhaseStep}

// drawSpec generates a hook that records its calls.
func drawSpec(t *rapid.T, name string, c *calls, from drawn) grapnel.Spec {
	priority := rapid.IntRange(1, 3).Draw(t, "priority")
	scope := grapnel.Scope(rapid.IntRange(int(grapnel.ScopeManaged), int(grapnel.ScopeSession)).Draw(t, "scope"))
	s := grapnel.Spec{
		Name: name, Source: grapnel.Source{Name: scope.String(), Scope: scope}, Priority: priority - normal,
		Phase:   rapid.SampledFrom(from.phases).Draw(t, "phase"),
		OnError: grapnel.OnError(rapid.IntRange(0, 3).Draw(t, "on_error")),
	}
	if from.observe && rapid.Bool().Draw(t, "observe") {
		s.Observe = true
	}
	if from.timeout && rapid.Bool().Draw(t, "timeout") {
		s.Timeout = 1 << 40
	}
	decision := rapid.SampledFrom(from.decisions).Draw(t, "decision")
	changes := from.change && s.Phase != grapnel.PhaseRule && rapid.Bool().Draw(t, "changes")
	failing := from.fail && rapid.Bool().Draw(t, "fails")
	s.Hook = grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		one := c.add(call{
			hook: name, phase: s.Phase, scope: scope, saw: ev.Tool.Commands[0], decision: decision, observing: s.Observe,
		}, changes)
		out := grapnel.Outcome{Decision: decision, Reason: name}
		if changes {
			out.Set = setCommand(one.left).Set
		}
		if failing {
			return out, errors.New("broken")
		}
		return out, nil
	})
	return s
}

func drawSpecs(t *rapid.T, c *calls, from drawn) []grapnel.Spec {
	specs := make([]grapnel.Spec, rapid.IntRange(0, 8).Draw(t, "hooks"))
	for i := range specs {
		specs[i] = drawSpec(t, fmt.Sprint("h", i), c, from)
	}
	return specs
}

func mustNew(t *rapid.T, opts *grapnel.Options, specs []grapnel.Spec) *grapnel.Engine {
	engine, err := grapnel.New(specs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// TestOrderDoesNotMatter checks that the decision does not depend on the registration order.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		specs := drawSpecs(t, &calls{}, drawn{phases: inLine, decisions: anyDecision, fail: true, observe: true})
		ev := toolEvent("x")
		ev.Kind = rapid.SampledFrom([]grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter, grapnel.AgentAfter, grapnel.PromptBefore}).Draw(t, "kind")
		want := mustNew(t, nil, specs).Fire(t.Context(), ev)
		got := mustNew(t, nil, rapid.Permutation(specs).Draw(t, "order")).Fire(t.Context(), ev)
		if got.Decision != want.Decision {
			t.Fatalf("decision %v, in another order %v", want.Decision, got.Decision)
		}
	})
}

// TestOrderWithinAStepDoesNotMatter checks that within one step the set of reasons is the same,
// too.
func TestOrderWithinAStepDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		phase := rapid.SampledFrom([]grapnel.Phase{grapnel.PhaseRule, grapnel.PhaseStep}).Draw(t, "phase")
		specs := drawSpecs(t, &calls{}, drawn{phases: []grapnel.Phase{phase}, decisions: anyDecision, fail: true, timeout: true})
		for i := range specs {
			specs[i].Priority = 0
		}
		texts := func(specs []grapnel.Spec) []string {
			v := mustNew(t, nil, specs).Fire(t.Context(), toolEvent("x"))
			return slices.Sorted(slices.Values(append(strings.Split(v.Reason(), "\n"), v.Decision.String())))
		}
		want, got := texts(specs), texts(rapid.Permutation(specs).Draw(t, "order"))
		if !slices.Equal(want, got) {
			t.Fatalf("decision and reasons %q, in another order %q", want, got)
		}
	})
}

// TestBlockSurvivesEverything checks that no hook of any scope, phase or priority undoes a Block.
func TestBlockSurvivesEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{phases: append(inLine, grapnel.PhaseObserve), decisions: anyDecision, change: true, fail: true, observe: true, timeout: true})
		blocker := drawSpec(t, "blocker", &c, drawn{phases: inLine, decisions: []grapnel.Decision{grapnel.Block}, change: true, fail: true, timeout: true})
		specs = slices.Insert(specs, rapid.IntRange(0, len(specs)).Draw(t, "place"), blocker)
		engine := mustNew(t, &grapnel.Options{Preset: rapid.SampledFrom(allPresets()).Draw(t, "preset")}, specs)
		v := engine.Fire(t.Context(), toolEvent("x"))
		if v.Decision != grapnel.Block || v.Reason() == "" || v.Changes != nil {
			t.Fatalf("Verdict %+v after %+v, want a block with a reason and without changes", v, c.list)
		}
		if err := engine.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBlockSurvivesEveryPreset checks the same for every Preset, including systems where a later
// hook could undo it.
func TestBlockSurvivesEveryPreset(t *testing.T) {
	t.Parallel()
	for _, preset := range allPresets() {
		t.Run(preset.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				var c calls
				specs := drawSpecs(t, &c, drawn{phases: append(inLine, grapnel.PhaseObserve), decisions: anyDecision, change: true, fail: true, observe: true, timeout: true})
				for i := range specs {
					specs[i].Sequential = rapid.Bool().Draw(t, "sequential")
					specs[i].Key = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key")
				}
				blocker := drawSpec(t, "blocker", &c, drawn{phases: inLine, decisions: []grapnel.Decision{grapnel.Block}, change: true, fail: true, timeout: true})
				specs = slices.Insert(specs, rapid.IntRange(0, len(specs)).Draw(t, "place"), blocker)
				engine := mustNew(t, &grapnel.Options{Preset: preset}, specs)
				v := engine.Fire(t.Context(), toolEvent("x"))
				if v.Decision != grapnel.Block || v.Reason() == "" || v.Changes != nil {
					t.Fatalf("Verdict %+v after %+v, want a block with a reason and without changes", v, c.list)
				}
				if err := engine.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestAllowIsForWhatRuns checks that an Allow is valid only if a hook gave it for exactly the
// input that runs.
func TestAllowIsForWhatRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{
			phases: inLine, decisions: []grapnel.Decision{grapnel.None, grapnel.Allow}, change: true, fail: rapid.Bool().Draw(t, "some fail"), observe: true,
		})
		var k keeper
		v := mustNew(t, &grapnel.Options{Observers: []grapnel.Observer{&k}}, specs).Fire(t.Context(), toolEvent("x"))
		final := v.Event.Tool.Commands[0]
		approved := slices.ContainsFunc(c.list, func(one call) bool {
			return one.decision == grapnel.Allow && one.left == final && !one.observing && one.scope != grapnel.ScopeProject && one.scope != grapnel.ScopePlugin
		})
		open := slices.ContainsFunc(k.rec.Hooks, func(r grapnel.HookRun) bool { return r.FailOpen })
		if v.Decision == grapnel.Allow && (!approved || open) {
			t.Fatalf("%q is allowed after %+v: approved %v, a guard failed open %v", final, c.list, approved, open)
		}
		if v.Decision == grapnel.None && approved && !open {
			t.Fatalf("%q is not allowed after %+v", final, c.list)
		}
	})
}

func TestPlansAreDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{phases: append(inLine, grapnel.PhaseObserve), decisions: anyDecision})
		ev := toolEvent("x")
		one, two := mustNew(t, nil, specs).Plan(ev), mustNew(t, nil, specs).Plan(ev)
		if !reflect.DeepEqual(one, two) {
			t.Fatalf("Plans of one set of Specs:\n%+v\n%+v", one, two)
		}
		if len(c.list) > 0 || len(one.Entries) != len(specs) {
			t.Fatalf("the Plan has %d of %d hooks and called %+v", len(one.Entries), len(specs), c.list)
		}
		for i, p := range one.Entries[min(1, len(one.Entries)):] {
			if before := one.Entries[i]; p.Step < before.Step || p.Step > before.Step+1 {
				t.Fatalf("step %d after step %d", p.Step, before.Step)
			}
		}
	})
}

// TestSecondRoundIsBoundedAndInOrder checks that a firing ends however hooks change the event,
// that every rule has seen the final input, and that no scope changes it after the gates of a
// stronger one.
func TestSecondRoundIsBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{phases: inLine, decisions: []grapnel.Decision{grapnel.None, grapnel.Allow, grapnel.Ask}, change: true, observe: true})
		v := mustNew(t, nil, specs).Fire(t.Context(), toolEvent("x"))
		final := v.Event.Tool.Commands[0]
		for i := range specs {
			s := &specs[i]
			last, n := -1, 0
			for j, one := range c.list {
				if one.hook == s.Name {
					last, n = j, n+1
				}
			}
			limit := map[grapnel.Phase]int{grapnel.PhaseRewrite: 3, grapnel.PhaseRule: 3, grapnel.PhaseStep: 4}[s.Phase]
			if n < 1 || n > limit {
				t.Fatalf("%v %s was called %d times, want at most %d: %+v", s.Phase, s.Name, n, limit, c.list)
			}
			switch one := c.list[last]; s.Phase {
			case grapnel.PhaseRule:
				if one.saw != final {
					t.Fatalf("rule %s last saw %q of %q: %+v", s.Name, one.saw, final, c.list)
				}
			case grapnel.PhaseStep:
				for _, later := range c.list[last+1:] {
					if later.saw != later.left && later.scope > one.scope && !later.observing {
						t.Fatalf("%s of scope %v answered for %q, which %s of scope %v then changed: %+v", s.Name, one.scope, one.left, later.hook, later.scope, c.list)
					}
				}
			case grapnel.PhaseRewrite, grapnel.PhaseObserve:
			}
		}
	})
}

func TestObserversAlwaysRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{phases: inLine, decisions: anyDecision, change: true, fail: true, observe: true})
		heard := make(chan grapnel.Decision, 2)
		specs = append(specs, grapnel.Spec{Name: "observer", Phase: grapnel.PhaseObserve, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			heard <- ev.Verdict().Decision
			return grapnel.Outcome{}, nil
		})})
		var k keeper
		engine := mustNew(t, &grapnel.Options{Observers: []grapnel.Observer{&k}}, specs)
		var v grapnel.Verdict
		ev := toolEvent("x")
		if rapid.Bool().Draw(t, "unreadable") {
			v = unreadable(t.Context(), engine, ev, errors.New("not JSON"))
		} else {
			v = engine.Fire(t.Context(), ev)
		}
		if err := engine.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(heard) != 1 || k.n != 1 {
			t.Fatalf("the observing hook ran %d times, the Observer was told %d times", len(heard), k.n)
		}
		if got := <-heard; got != v.Decision || k.rec.Decision != v.Decision {
			t.Fatalf("they heard %v and %v, the Verdict is %v", got, k.rec.Decision, v.Decision)
		}
	})
}

// TestWeakerScopesNeverWeaken checks that hooks of a weaker scope never make the Verdict weaker
// and never give consent for the user.
func TestWeakerScopesNeverWeaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		split := rapid.SampledFrom([]grapnel.Scope{grapnel.ScopeUser, grapnel.ScopeProject, grapnel.ScopePlugin}).Draw(t, "weaker")
		var strong, all []grapnel.Spec
		var c calls
		for _, s := range drawSpecs(t, &c, drawn{phases: append(inLine, grapnel.PhaseObserve), decisions: anyDecision, change: true, fail: true, observe: true}) {
			if s.Source.Scope < split {
				strong = append(strong, s)
			}
			all = append(all, s)
		}
		alone := mustNew(t, nil, strong).Fire(t.Context(), toolEvent("x"))
		v := mustNew(t, nil, all).Fire(t.Context(), toolEvent("x"))
		if alone.Decision >= grapnel.Ask && v.Decision < alone.Decision {
			t.Fatalf("%v without the weaker scopes, %v with them: %+v", alone.Decision, v.Decision, c.list)
		}
		granted := slices.ContainsFunc(all, func(s grapnel.Spec) bool {
			return s.Source.Scope != grapnel.ScopeProject && s.Source.Scope != grapnel.ScopePlugin
		})
		if v.Decision == grapnel.Allow && !granted {
			t.Fatalf("allowed by nobody who may: %+v", c.list)
		}
	})
}

// TestGatesSeeWhatRuns checks that no weaker scope can get a command past a gate that forbids it.
func TestGatesSeeWhatRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{phases: inLine, decisions: []grapnel.Decision{grapnel.None, grapnel.Allow}, change: true, fail: true, observe: true})
		gate := drawSpec(t, "gate", &c, drawn{phases: []grapnel.Phase{grapnel.PhaseRule, grapnel.PhaseStep}, decisions: []grapnel.Decision{grapnel.None}})
		gate.Source = grapnel.Source{Name: "managed", Scope: grapnel.ScopeManaged}
		forbidden := rapid.SampledFrom([]string{"x", "0", "1", "2", "3"}).Draw(t, "forbidden")
		gate.Hook = grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			if strings.HasSuffix(ev.Tool.Commands[0], forbidden) {
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "forbidden"}, nil
			}
			return grapnel.Outcome{}, nil
		})
		specs = slices.Insert(specs, rapid.IntRange(0, len(specs)).Draw(t, "place"), gate)
		weaker := !slices.ContainsFunc(specs, func(s grapnel.Spec) bool { return s.Name != "gate" && s.Source.Scope == grapnel.ScopeManaged })
		v := mustNew(t, nil, specs).Fire(t.Context(), toolEvent("x"))
		if final := v.Event.Tool.Commands[0]; weaker && v.Decision != grapnel.Block && strings.HasSuffix(final, forbidden) {
			t.Fatalf("%q runs, which a managed gate forbids: %+v", final, c.list)
		}
	})
}

// TestRewritesChain checks that each rewrite gets the result of the previous one, that the last
// result runs, and that no scope rewrites after a stronger one.
func TestRewritesChain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c calls
		specs := drawSpecs(t, &c, drawn{phases: []grapnel.Phase{grapnel.PhaseRewrite}, decisions: []grapnel.Decision{grapnel.None}, change: true, observe: true})
		v := mustNew(t, nil, specs).Fire(t.Context(), toolEvent("x"))
		now := "x"
		for i, one := range c.list {
			if i > 0 && one.scope > c.list[i-1].scope {
				t.Fatalf("%s of scope %v runs after scope %v: %+v", one.hook, one.scope, c.list[i-1].scope, c.list)
			}
			if one.saw != now {
				t.Fatalf("%s saw %q, the one before left %q: %+v", one.hook, one.saw, now, c.list)
			}
			if !one.observing {
				now = one.left
			}
		}
		if got := v.Event.Tool.Commands[0]; got != now || len(c.list) != len(specs) {
			t.Fatalf("%q runs, the last of %d rewrites left %q: %+v", got, len(specs), now, c.list)
		}
	})
}
