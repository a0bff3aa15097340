package grapnel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// bash returns the event that a Go agent fires before it runs a shell command.
func bash(command string) *grapnel.Event {
	tool := &grapnel.Tool{
		Name: "bash", Class: grapnel.ClassShell,
		Input: json.RawMessage(fmt.Sprintf(`{"command":%q}`, command)),
		Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/command"}},
	}
	tool.Derive()
	return &grapnel.Event{Kind: grapnel.ToolBefore, Tool: tool}
}

// An engine for a session or a sub-agent has its own hooks and all hooks of the original engine.
func ExampleEngine_With() {
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "no-shutdown", Tools: []string{"shell"},
		Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			if strings.HasPrefix(ev.Command(), "shutdown") {
				return grapnel.Outcome{Decision: grapnel.Block, Reason: "This machine stays on."}, nil
			}
			return grapnel.Outcome{}, nil
		}),
	}}, nil)
	if err != nil {
		panic(err)
	}
	reviewer, err := engine.With(grapnel.Spec{
		Name: "read-only", Source: grapnel.Source{Name: "reviewer", Scope: grapnel.ScopeSession}, Tools: []string{"shell", "write", "edit"},
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "A reviewer only reads."}, nil
		}),
	})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	fmt.Println("engine:", engine.Fire(ctx, bash("make")).Decision)
	verdict := reviewer.Fire(ctx, bash("make"))
	fmt.Println("reviewer:", verdict.Decision, "because:", verdict.Reason())
	// Output:
	// engine: none
	// reviewer: block because: A reviewer only reads.
}

// Steps run by priority, lower first, and each gets the result of the previous one.
func ExampleSpec_priority() {
	appends := func(text string) grapnel.Hook {
		return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			command, err := json.Marshal(ev.Command() + text)
			return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: command}}, err
		})
	}
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "log", Priority: 100, Hook: appends(" | tee build.log")},
		{Name: "default", Hook: appends(" all")}, // priority 0
		{Name: "quiet", Priority: -90, Hook: appends(" --quiet")},
	}, nil)
	if err != nil {
		panic(err)
	}

	for _, p := range engine.Plan(bash("make")).Entries {
		fmt.Println(p.Step, p.Hook)
	}
	verdict := engine.Fire(context.Background(), bash("make"))
	fmt.Println(verdict.Event.Tool.Commands[0])
	// Output:
	// 1 quiet
	// 2 default
	// 3 log
	// make --quiet all | tee build.log
}

// mentions matches calls whose command has one of these words.
type mentions []string

// Match is called again whenever a hook changed the event.
func (m mentions) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	for _, command := range ev.Tool.Commands {
		for word := range strings.FieldsSeq(command) {
			if slices.Contains(m, word) {
				return true, nil
			}
		}
	}
	return false, nil
}

// A Matcher limits a hook to the events that concern it. A Plan shows the result without calling
// the hook.
func ExampleMatcher() {
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "ask-before-sudo", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"},
		Match: mentions{"sudo", "doas"}, Phase: grapnel.PhaseRule,
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Ask, Reason: "This runs as root."}, nil
		}),
	}}, nil)
	if err != nil {
		panic(err)
	}

	for _, command := range []string{"ls", "sudo ls"} {
		listening := len(engine.Plan(bash(command)).Entries)
		fmt.Printf("%s: %d listening, %v\n", command, listening, engine.Fire(context.Background(), bash(command)).Decision)
	}
	// Output:
	// ls: 0 listening, none
	// sudo ls: 1 listening, ask
}

// An Observer gets a Record of every firing, including failed and blocked ones.
func ExampleObserver() {
	audit := grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) {
		for _, hook := range rec.Hooks {
			fmt.Println(rec.Event, rec.Tool, rec.Decision, hook.Name, hook.Error)
		}
	})
	engine, err := grapnel.New([]grapnel.Spec{{
		Name: "scan", Phase: grapnel.PhaseRule, // rules fail closed
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, fmt.Errorf("no signatures")
		}),
	}}, &grapnel.Options{Observers: []grapnel.Observer{audit}})
	if err != nil {
		panic(err)
	}
	engine.Fire(context.Background(), bash("ls"))
	// Output: tool.before bash block scan no signatures
}
