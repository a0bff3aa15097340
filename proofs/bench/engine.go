package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// batch is how long one timed batch of calls takes at least: long against the resolution of
// the clock, short against the time between two interruptions. A run is the best of some
// batches.
const (
	batch   = 50 * time.Microsecond
	batches = 10
)

// setupEngine sets up an engine inside a program.
func setupEngine(ctx context.Context, s *setup) error {
	ev := shellEvent(plainCommand)
	silent := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{}, nil
	})
	elsewhere, err := tenFuncs(grapnel.SessionStart, silent)
	if err != nil {
		return err
	}
	calls := 0
	here, err := tenFuncs(grapnel.ToolBefore, func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		calls++
		return silent(ctx, ev)
	})
	if err != nil {
		return err
	}
	if here.Fire(ctx, ev); calls != 10 {
		return fmt.Errorf("10 functions were called %d times for one event", calls)
	}
	noneMatch, err := hundredRules(ctx, watchNothing, 0)
	if err != nil {
		return err
	}
	tenMatch, err := hundredRules(ctx, watchThis, 10)
	if err != nil {
		return err
	}
	noListener := func() { elsewhere.Fire(ctx, ev) }
	for i, call := range []func(){
		0: noListener,
		2: func() { here.Fire(ctx, ev) },
		3: func() { noneMatch.Fire(ctx, fresh(ev)) },
		4: func() { tenMatch.Fire(ctx, fresh(ev)) },
	} {
		if call != nil {
			s.paths[i].subject = timed(call)
		}
	}
	s.paths[1].subject = newSeries("allocations", func() (float64, error) {
		return testing.AllocsPerRun(100, noListener), nil
	})
	for i, call := range engineFloors(ctx, ev, silent) {
		s.paths[i].floor = timed(call)
	}
	s.paths[1].floor = newSeries("no allocation", func() (float64, error) { return 0, nil })
	return nil
}

// engineFloors do the unavoidable work of the rows with these numbers: find the hooks of
// the event, call functions through an interface, and look every word of the command up in
// an index of rules.
func engineFloors(ctx context.Context, ev *grapnel.Event, silent grapnel.Hook) map[int]func() {
	byKind := map[grapnel.Kind][]grapnel.Hook{grapnel.SessionStart: {silent}}
	var ten []grapnel.Hook
	for range 10 {
		ten = append(ten, silent)
	}
	rules := map[string]int{}
	for i := range 100 {
		rules[fmt.Sprintf("word-%d", i)] = i
	}
	call := func(hooks []grapnel.Hook) (decision grapnel.Decision) {
		for _, h := range hooks {
			if out, err := h.Handle(ctx, ev); err == nil {
				decision = max(decision, out.Decision)
			}
		}
		return decision
	}
	matching := func(hooks []grapnel.Hook) {
		found := 0
		for _, line := range fresh(ev).Tool.Commands {
			for word := range strings.FieldsSeq(line) {
				if _, ok := rules[word]; ok {
					found++
				}
			}
		}
		call(hooks[found:])
	}
	return map[int]func(){
		0: func() { call(byKind[ev.Kind]) },
		2: func() { call(ten) },
		3: func() { matching(nil) },
		4: func() { matching(ten) },
	}
}

func tenFuncs(on grapnel.Kind, f grapnel.Func) (*grapnel.Engine, error) {
	var specs []grapnel.Spec
	for i := range 10 {
		specs = append(specs, grapnel.Spec{Name: fmt.Sprintf("func-%d", i), On: []grapnel.Kind{on}, Hook: f})
	}
	return grapnel.New(specs, nil)
}

// hundredRules returns an engine with a policy of 100 rules. match of them match the event of the
// benchmark, and the last one blocks the canary.
func hundredRules(ctx context.Context, watched string, match int) (*grapnel.Engine, error) {
	file, errs := policy.Parse("grapnel.yaml", []byte(policyFile(100, watched)))
	if len(errs) > 0 {
		return nil, errs[0]
	}
	specs, err := policy.Build(file, grapnel.Source{Name: "bench", File: "grapnel.yaml"}, nil)
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

// fresh copies an event the way a dialect makes a new one for each call, so that results
// cached for the last call do not help this one.
func fresh(ev *grapnel.Event) *grapnel.Event {
	tool := *ev.Tool
	again := *ev
	again.Tool = &tool
	return &again
}

// plainCommand is a typical shell command.
const plainCommand = "go test -count=1 ./..."

// shellEvent is a shell call as a dialect would read it.
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

// timed measures one call in this process, in nanoseconds.
func timed(call func()) *series {
	return timedErr(func() error { call(); return nil })
}

// timedErr measures one call in this process, in nanoseconds. An error of any call is an
// error of the run.
func timedErr(call func() error) *series {
	n := 0
	var failed error
	many := func() time.Duration {
		begin := time.Now()
		for range n {
			if err := call(); err != nil {
				failed = err
				break
			}
		}
		return time.Since(begin)
	}
	return newSeries("call", func() (float64, error) {
		for n == 0 || failed == nil && many() < batch {
			n = max(1, 2*n)
		}
		best := many()
		for range batches - 1 {
			best = min(best, many())
		}
		return float64(best.Nanoseconds()) / float64(n), failed
	})
}
