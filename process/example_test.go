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
		Name: "no-production", Executor: process.System,
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

// An Executor can run every program in a sandbox. This one only removes all variables.
func ExampleExecutor() {
	sandbox := process.ExecutorFunc(func(ctx context.Context, p *process.Program) (*process.Ending, error) {
		p.Args = append([]string{"env", "-i"}, p.Args...)
		return process.System.Run(ctx, p)
	})
	curious := &process.Command{Name: "curious", Line: `echo "my home is <$HOME>" >&2; exit 2`, Executor: sandbox}
	engine, err := grapnel.New([]grapnel.Spec{{Name: curious.Name, Hook: curious, Timeout: 10 * time.Second}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	verdict := engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore})
	fmt.Println(verdict.Decision, verdict.Reason())

	err = engine.Add(grapnel.Spec{Name: "careless", Hook: &process.Command{Line: "echo hello"}})
	fmt.Println(err)
	// Output:
	// block my home is <>
	// hook "careless": "echo hello" has no Executor: set Command.Executor (process.System runs it on this machine)
}

// The first event starts the program. It answers the later events, too.
func ExampleWorker() {
	const program = `
		echo '{"grapnel":1,"type":"hello","name":"counts"}'
		n=0
		while read -r line; do
			case $line in '{"type":"event"'*) ;; *) continue ;; esac
			n=$((n+1)) id=${line#*'"id":'}
			echo '{"type":"answer","id":'"${id%%,*}"',"outcome":{"decision":"ask","reason":"This is call '"$n"'."}}'
		done`
	worker := &process.Worker{Command: process.Command{Name: "counts", Line: program, Executor: process.System}}
	defer func() { _ = worker.Close(context.Background()) }()
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: worker.Name, On: []grapnel.Kind{grapnel.ToolBefore}, Hook: worker, Timeout: 10 * time.Second},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		verdict := engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash"}})
		fmt.Println(verdict.Decision, verdict.Reason())
	}
	// Output:
	// ask This is call 1.
	// ask This is call 2.
}
