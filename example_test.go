package grapnel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// A Go agent fires an event before it runs a tool, and obeys the Verdict.
func ExampleEngine_Fire() {
	rules, err := policy.Rules(`
- name: no-delete
  on: tool.before
  match: {command: rm -rf}
  block: Deleting trees is not allowed here. Move the files to ./trash.
`)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := grapnel.New(rules, nil)
	if err != nil {
		log.Fatal(err)
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
