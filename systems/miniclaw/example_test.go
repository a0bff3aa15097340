package miniclaw_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/grapnel-dev/grapnel/systems/miniclaw"
)

func Example() {
	ctx := context.Background()
	log := miniclaw.NewLoggingHook()
	hooks := miniclaw.NewHookRegistry().
		With(log).
		With(miniclaw.NewBlockingHook([]string{"deploy", "migrate"}, "release freeze")).
		With(miniclaw.HookFunc(func(_ context.Context, event miniclaw.Event) miniclaw.Action {
			if call, ok := event.(miniclaw.PreToolCall); ok && call.ToolName == "build" {
				return miniclaw.ModifyArgs(json.RawMessage(`{"jobs":1}`))
			}
			return miniclaw.Continue()
		}))
	for _, event := range []miniclaw.Event{
		miniclaw.AgentStart{Prompt: "Ship it."},
		miniclaw.PreToolCall{ToolName: "build", Args: json.RawMessage(`{"jobs":8}`)},
		miniclaw.PostToolCall{ToolName: "build", Args: json.RawMessage(`{"jobs":1}`), Result: "built"},
		miniclaw.PreToolCall{ToolName: "deploy", Args: json.RawMessage(`{}`)},
		miniclaw.AgentEnd{Response: "Built, not deployed."},
	} {
		fmt.Println(hooks.Dispatch(ctx, event))
	}
	fmt.Println(log.Messages())
	// Output:
	// Continue
	// ModifyArgs({"jobs":1})
	// Continue
	// Block(release freeze)
	// Continue
	// [agent:start pre:build post:build pre:deploy agent:end]
}
