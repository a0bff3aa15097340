package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// batch is how long one timed batch of calls takes at least: long against the
// resolution of the clock, short against the time between two interruptions. A run
// is the best of some batches.
const (
	batch   = 50 * time.Microsecond
	batches = 10
)

// engineContests returns the rows about an engine inside one's own program.
func engineContests(ctx context.Context) (g group, err error) {
	ev := shellEvent(plainCommand)
	silent := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{}, nil
	})
	elsewhere, err := tenFuncs(grapnel.SessionStart, silent)
	if err != nil {
		return g, err
	}
	calls := 0
	here, err := tenFuncs(grapnel.ToolBefore, func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		calls++
		return silent(ctx, ev)
	})
	if err != nil {
		return g, err
	}
	if here.Fire(ctx, ev); calls != 10 {
		return g, fmt.Errorf("fired an event at 10 funcs, %d were called", calls)
	}

	noneMatch, err := hundredRules(ctx, watchNothing, 0)
	if err != nil {
		return g, err
	}
	tenMatch, err := hundredRules(ctx, watchThis, 10)
	if err != nil {
		return g, err
	}

	nobody := func() { elsewhere.Fire(ctx, ev) }
	g.contests = []*contest{
		timed("event nobody listens to", 150, nobody),
		{
			name: "event nobody listens to, allocations", subject: newSide("allocations", func() (float64, error) {
				return testing.AllocsPerRun(100, nobody), nil
			}),
			reference: constant("allocation", 1), budget: 1, show: func(x float64) string { return fmt.Sprintf("%.0f", x) },
		},
		timed("10 Go funcs", 1000, func() { here.Fire(ctx, ev) }),
		// It was 3000 while rules about paths did not look at shell lines: what a line names
		// costs two system calls and a microsecond now, since a link may lead elsewhere.
		timed("100 rules, none matching", 4000, func() { noneMatch.Fire(ctx, fresh(ev)) }),
		timed("100 rules, 10 matching", 15_000, func() { tenMatch.Fire(ctx, fresh(ev)) }),
	}
	return g, nil
}

func tenFuncs(on grapnel.Kind, f grapnel.Func) (*grapnel.Engine, error) {
	var specs []grapnel.Spec
	for i := range 10 {
		specs = append(specs, grapnel.Spec{Name: fmt.Sprintf("func-%d", i), On: []grapnel.Kind{on}, Hook: f})
	}
	return grapnel.New(specs, nil)
}

// hundredRules is an engine with a policy of 100 rules, of which so many match the
// event of the benchmark, and the last blocks the canary.
func hundredRules(ctx context.Context, watched string, match int) (*grapnel.Engine, error) {
	file, errs := policy.Parse("grapnel.yaml", []byte(policyFile(100, watched)))
	if len(errs) > 0 {
		return nil, errs[0]
	}
	specs, err := file.Build(grapnel.Source{Name: "bench", File: "grapnel.yaml"}, nil)
	if err != nil {
		return nil, err
	}
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		return nil, err
	}
	if plan := engine.Plan(shellEvent(plainCommand)); len(plan.Entries) != match {
		return nil, fmt.Errorf("%d rules match %q, want %d: %+v", len(plan.Entries), plainCommand, match, plan.Entries)
	}
	if v := engine.Fire(ctx, shellEvent(canaryCommand)); v.Decision != grapnel.Block {
		return nil, fmt.Errorf("the canary got %s, want block", v.Decision)
	}
	return engine, nil
}

// fresh copies an event as far as a dialect makes it anew for each call, so that
// nothing worked out for the last call serves this one.
func fresh(ev *grapnel.Event) *grapnel.Event {
	tool := *ev.Tool
	again := *ev
	again.Tool = &tool
	return &again
}

// plainCommand is what most calls of a shell look like.
const plainCommand = "go test -count=1 ./..."

// shellEvent is a call of a shell as a dialect would read it.
func shellEvent(line string) *grapnel.Event {
	input, _ := json.Marshal(map[string]string{"command": line}) // strings always encode
	tool := &grapnel.Tool{
		ID: "toolu_1", Name: "Bash", Class: grapnel.ClassShell, Input: input,
		Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}},
	}
	tool.Derive()
	return &grapnel.Event{
		Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code"},
		Session: grapnel.Session{ID: sessionID, CWD: "/home/dev/project", Mode: "default"}, Tool: tool,
	}
}

// timed is a row about one call in this process, in nanoseconds.
func timed(name string, budget float64, call func()) *contest {
	n := 1
	for many(n, call) < batch {
		n *= 2
	}
	return &contest{
		name: name, budget: budget, reference: constant("ns", 1),
		subject: newSide(name, func() (float64, error) {
			best := many(n, call)
			for range batches - 1 {
				best = min(best, many(n, call))
			}
			return float64(best.Nanoseconds()) / float64(n), nil
		}),
		show: func(x float64) string { return fmt.Sprintf("%.0f ns", x) },
	}
}

// many times n calls.
func many(n int, call func()) time.Duration {
	begin := time.Now()
	for range n {
		call()
	}
	return time.Since(begin)
}
