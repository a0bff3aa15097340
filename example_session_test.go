package grapnel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// The context carries the hooks of a session. They run for every agent of the session, even if
// the agent has no engine.
func ExampleNewContext() {
	session, err := grapnel.New([]grapnel.Spec{{
		Name: "audit", Source: grapnel.Source{Name: "session", Scope: grapnel.ScopeSession},
		Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) { fmt.Println("audit:", ev.Command()) }),
	}}, nil)
	if err != nil {
		panic(err)
	}
	ctx := grapnel.NewContext(context.Background(), session)

	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "no-shutdown",
		Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if strings.HasPrefix(ev.Command(), "shutdown") {
				return "This machine stays on."
			}
			return ""
		}),
	}}, nil)
	if err != nil {
		panic(err)
	}
	hooks := engine.In(ctx)
	fmt.Println("agent:", hooks.Fire(ctx, bash("shutdown now")).Decision)

	var none *grapnel.Engine // a sub-agent that adds no hooks
	hooks = none.In(ctx)
	fmt.Println("sub-agent:", hooks.Fire(ctx, bash("ls")).Decision)
	// Output:
	// audit: shutdown now
	// agent: block
	// audit: ls
	// sub-agent: none
}

// Terms can report the runs of observing hooks when they end.
func ExampleTerms() {
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "read-only", Hook: grapnel.Guard(func(*grapnel.Event) string { return "Nothing is changed here." })},
		{
			Name: "ticket", Phase: grapnel.PhaseObserve,
			Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{Message: "opened a ticket about the " + ev.Verdict().Decision.String()}, nil
			}),
		},
		{
			Name: "pager", Phase: grapnel.PhaseObserve,
			Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{}, errors.New("nobody is on call")
			}),
		},
	}, nil)
	if err != nil {
		panic(err)
	}
	ev := bash("make")
	var late <-chan grapnel.HookRun
	ev.Terms = &grapnel.Terms{Late: func(runs <-chan grapnel.HookRun) { late = runs }}
	verdict := engine.Fire(context.Background(), ev)
	fmt.Println(verdict.Decision)
	for run := range late {
		switch {
		case run.Error != "":
			fmt.Println(run.Name, "failed:", run.Error)
		case run.Outcome != nil:
			fmt.Println(run.Name, run.Outcome.Message)
		}
	}
	// Unordered output:
	// block
	// ticket opened a ticket about the block
	// pager failed: nobody is on call
}

// Update reloads a source in one step: every event runs either the old hooks or the new ones.
func ExampleEngine_Update() {
	from := func(name string) grapnel.Spec {
		return grapnel.Spec{
			Name: name, Source: grapnel.Source{Name: "acme:lint"},
			Hook: grapnel.Guard(func(*grapnel.Event) string { return name }),
		}
	}
	engine, err := grapnel.New([]grapnel.Spec{from("old rule"), from("older rule")}, nil)
	if err != nil {
		panic(err)
	}
	loaded := []grapnel.Spec{from("new rule")}
	err = engine.Update(func(specs []grapnel.Spec) []grapnel.Spec {
		specs = slices.DeleteFunc(specs, func(s grapnel.Spec) bool { return s.Source.Name == "acme:lint" })
		return append(specs, loaded...)
	})
	if err != nil {
		panic(err)
	}
	verdict := engine.Fire(context.Background(), bash("make"))
	fmt.Println(len(engine.Specs(grapnel.ToolBefore)), verdict.Reason())

	removed := engine.Remove(func(s *grapnel.Spec) bool { return strings.HasPrefix(s.Source.Name, "acme:") })
	fmt.Println(removed, heard(engine, grapnel.ToolBefore))
	// Output:
	// 1 new rule
	// 1 false
}

// An Observer that is added later gets the Records from then on.
func ExampleEngine_AddObserver() {
	engine, err := grapnel.New(nil, nil)
	if err != nil {
		panic(err)
	}
	engine.Fire(context.Background(), bash("make"))
	remove := engine.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		fmt.Println(rec.Event, rec.Decision)
	}))
	engine.Fire(context.Background(), bash("make test"))
	remove()
	engine.Fire(context.Background(), bash("make lint"))
	// Output: tool.before none
}

// Replace returns a change of one field in one line.
func ExampleReplace() {
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "polite", Tools: []string{"shell"}, Phase: grapnel.PhaseRewrite,
		Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldCommand, "nice "+ev.Command())
		}),
	}}, nil)
	if err != nil {
		panic(err)
	}
	verdict := engine.Fire(context.Background(), bash("make"))
	fmt.Println(verdict.Event.Tool.Commands[0])
	// Output: nice make
}
