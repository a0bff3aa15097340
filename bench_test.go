package grapnel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// benchFire measures one firing for a call of a shell tool.
func benchFire(b *testing.B, opts *grapnel.Options, specs []grapnel.Spec) {
	b.Helper()
	engine := newEngine(b, opts, specs...)
	ev := toolEvent("git push --force")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		engine.Fire(ctx, ev)
	}
}

// many returns n Specs for tool.before.
func many(n int, spec func(i int) grapnel.Spec) []grapnel.Spec {
	specs := make([]grapnel.Spec, n)
	for i := range specs {
		specs[i] = spec(i)
		specs[i].Name = fmt.Sprint("h", i)
		specs[i].On = []grapnel.Kind{grapnel.ToolBefore}
	}
	return specs
}

// hundredRules returns 100 rules, of which the given number match.
func hundredRules(matching int, answer grapnel.Outcome) []grapnel.Spec {
	return many(100, func(i int) grapnel.Spec {
		s := grapnel.Spec{Phase: grapnel.PhaseRule, Tools: []string{"shell"}, Match: matchCommand("rm -rf /"), Hook: returns(answer)}
		if i < matching {
			s.Match = matchCommand("git push --force")
		}
		return s
	})
}

func BenchmarkFireNoListener(b *testing.B) { benchFire(b, nil, nil) }

// inSession returns an engine with the hooks of a session before its own hooks.
func inSession(tb testing.TB, session, own []grapnel.Spec) *grapnel.Engine {
	tb.Helper()
	return newEngine(tb, nil, own...).In(grapnel.NewContext(context.Background(), newEngine(tb, nil, session...)))
}

func BenchmarkFireNoListenerInSession(b *testing.B) {
	engine, ev, ctx := inSession(b, nil, nil), toolEvent("git push --force"), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		engine.Fire(ctx, ev)
	}
}

// BenchmarkIn measures the start of an agent in a session.
func BenchmarkIn(b *testing.B) {
	ctx := grapnel.NewContext(context.Background(), newEngine(b, nil, many(2, func(int) grapnel.Spec { return grapnel.Spec{Hook: returns(grapnel.Outcome{})} })...))
	engine := newEngine(b, nil, hundredRules(10, grapnel.Outcome{})...)
	b.ReportAllocs()
	for b.Loop() {
		engine.In(ctx)
	}
}

func BenchmarkFireTenFuncs(b *testing.B) {
	benchFire(b, nil, many(10, func(int) grapnel.Spec { return grapnel.Spec{Hook: returns(grapnel.Outcome{})} }))
}

func BenchmarkFireTenFuncsRecorded(b *testing.B) {
	opts := &grapnel.Options{Observers: []grapnel.Observer{grapnel.ObserverFunc(func(context.Context, *grapnel.Record) {})}}
	benchFire(b, opts, many(10, func(int) grapnel.Spec { return grapnel.Spec{Hook: returns(grapnel.Outcome{})} }))
}

func BenchmarkFireTenFuncsWithTimeouts(b *testing.B) {
	benchFire(b, nil, many(10, func(int) grapnel.Spec { return grapnel.Spec{Hook: returns(grapnel.Outcome{}), Timeout: 1 << 40} }))
}

func BenchmarkFireHundredRulesNoneMatching(b *testing.B) {
	benchFire(b, nil, hundredRules(0, grapnel.Outcome{}))
}

func BenchmarkFireHundredRulesOtherTool(b *testing.B) {
	benchFire(b, nil, many(100, func(int) grapnel.Spec {
		return grapnel.Spec{Phase: grapnel.PhaseRule, Tools: []string{"write", "edit", "mcp__db__*"}, Hook: returns(grapnel.Outcome{})}
	}))
}

func BenchmarkFireHundredRulesTenMatching(b *testing.B) {
	benchFire(b, nil, hundredRules(10, grapnel.Outcome{Decision: grapnel.Ask, Reason: "sure?"}))
}

// BenchmarkFireSecondRound measures a firing in which a step changes the event, so that all rules
// run twice.
func BenchmarkFireSecondRound(b *testing.B) {
	specs := append(hundredRules(10, grapnel.Outcome{}), scoped("gate", grapnel.ScopeManaged, 1, returns(grapnel.Outcome{})),
		scoped("changes", grapnel.ScopeProject, 2, returns(setCommand("git push"))))
	benchFire(b, nil, specs)
}

// TestAllocations checks the costs that do not depend on the machine's speed.
func TestAllocations(t *testing.T) {
	for _, tt := range []struct {
		name  string
		specs []grapnel.Spec
		want  float64
	}{
		{"nobody listens", nil, 0},
		{"none matches", hundredRules(0, grapnel.Outcome{}), 1},
		{"no opinion", many(10, func(int) grapnel.Spec { return grapnel.Spec{Hook: returns(grapnel.Outcome{})} }), 1},
	} {
		ev, ctx := toolEvent("ls"), context.Background()
		for where, engine := range map[string]*grapnel.Engine{"alone": newEngine(t, nil, tt.specs...), "in a session": inSession(t, nil, tt.specs)} {
			if got := testing.AllocsPerRun(100, func() { engine.Fire(ctx, ev) }); got > tt.want {
				t.Errorf("%s, %s: %v allocations a firing, want at most %v", tt.name, where, got, tt.want)
			}
			if got := testing.AllocsPerRun(100, func() { _ = heard(engine, ev.Kind) }); got > 0 {
				t.Errorf("%s, %s: %v allocations to ask, want none", tt.name, where, got)
			}
		}
	}
}

// BenchmarkFireMatcher shows that a hook behind a Matcher that needs an ID costs only the ID.
func BenchmarkFireMatcher(b *testing.B) {
	for name, hook := range map[string]grapnel.Hook{"plain": returns(grapnel.Outcome{}), "id": reads{}} {
		b.Run(name, func(b *testing.B) {
			s := step("h", hook)
			s.Match = matchCommand("git push --force")
			benchFire(b, nil, []grapnel.Spec{s})
		})
	}
}

// reads is a Hook that reads the ID of its event.
type reads struct{}

func (reads) ReadsID() {}

func (reads) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}
