package grapnel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel"
)

// A Go agent fires an event before it runs a tool, and obeys the Verdict.
func ExampleEngine_Fire() {
	noDelete := grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if strings.Contains(string(ev.Tool.Input), "rm -rf") {
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "Deleting trees is not allowed here. Move the files to ./trash."}, nil
		}
		return grapnel.Outcome{}, nil
	})
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-delete", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"}, Hook: noDelete},
	}, nil)
	if err != nil {
		panic(err)
	}
	verdict := engine.Fire(context.Background(), &grapnel.Event{
		Kind: grapnel.ToolBefore,
		Tool: &grapnel.Tool{Name: "bash", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"rm -rf build"}`)},
	})
	if verdict.Stops() {
		fmt.Println("not run:", verdict.Reason())
		return
	}
	fmt.Println("run with", string(verdict.Event.Tool.Input)) // with all changes
	// Output: not run: Deleting trees is not allowed here. Move the files to ./trash.
}
