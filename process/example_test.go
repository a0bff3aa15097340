//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
)

func ExampleCommand() {
	guard := &process.Command{
		Name: "no-production",
		Line: `case "$GRAPNEL_COMMAND" in *production*) echo "Not on a Friday." >&2; exit 2;; esac`,
	}
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: guard.Name, On: []grapnel.Kind{grapnel.ToolBefore}, Hook: guard, Timeout: 10 * time.Second},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := engine.Fire(context.Background(), &grapnel.Event{
		Kind: grapnel.ToolBefore,
		Tool: &grapnel.Tool{
			Name: "Bash", Class: grapnel.ClassShell,
			Input:    json.RawMessage(`{"command":"deploy production"}`),
			Commands: []string{"deploy production"},
		},
	})
	fmt.Println(verdict.Decision, verdict.Reason())
	// Output: block Not on a Friday.
}
