package ironclaw_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel/systems/ironclaw"
	"github.com/grapnel-dev/grapnel/systems/ironclaw/hookfile"
)

// A function rejects a message, and a rule of the workspace changes another one.
func Example() {
	ctx := context.Background()
	hooks := ironclaw.NewHookRegistry(nil)
	err := hooks.Register(ironclaw.HookFunc{
		HookName: "no-embargo",
		Points:   []ironclaw.HookPoint{ironclaw.BeforeInbound},
		Mode:     ironclaw.FailClosed,
		Func: func(_ context.Context, event ironclaw.HookEvent, _ *ironclaw.HookContext) (ironclaw.HookOutcome, error) {
			if strings.Contains(event.PrimaryContent(), "embargo") {
				return ironclaw.Reject("under embargo"), nil
			}
			return ironclaw.OK(), nil
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	loaded, err := hooks.RegisterWorkspaceBundles([]hookfile.File{{
		Source: "workspace:hooks/hooks.json",
		Data:   []byte(`{"rules": [{"name": "polite", "points": ["beforeInbound"], "append": " Please."}]}`),
	}}, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Println(loaded.Summary.Total(), hooks.List())

	for _, text := range []string{"Lift the embargo.", "Lift the box."} {
		outcome, err := hooks.Run(ctx, ironclaw.Inbound{UserID: "ada", Channel: "web", Content: text})
		if rejected, ok := errors.AsType[*ironclaw.RejectedError](err); ok {
			fmt.Printf("[Message rejected: %s]\n", rejected.Reason)
			continue
		}
		fmt.Println(outcome, err)
	}
	// Output:
	// 1 [no-embargo workspace:hooks/hooks.json::polite]
	// [Message rejected: under embargo]
	// Modify(Lift the box. Please.) <nil>
}

func ExampleHookRegistry_Bootstrap() {
	dir, err := os.MkdirTemp("", "ironclaw-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	hooks := ironclaw.NewHookRegistry(nil)
	loaded, err := hooks.Bootstrap(&ironclaw.BootstrapOptions{Home: dir, Workspace: dir})
	if err != nil {
		panic(err)
	}
	fmt.Println(loaded.Summary.Total(), loaded.Summary.Errors)
	for _, name := range hooks.List() {
		fmt.Println(name)
	}
	// Output:
	// 1 0
	// builtin.audit_log
	// session_summary
}
