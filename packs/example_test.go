package packs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A program without a policy file selects packs in its own code.
func ExampleAll() {
	set := load.Policies(load.Request{
		Files:   []load.File{{Path: "/app/grapnel.yaml", Scope: grapnel.ScopeUser}},
		Content: map[string][]byte{"/app/grapnel.yaml": []byte("{version: 1, use: [destructive, secrets]}")},
		Packs:   packs.All(),
	})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range []string{"rm -rf build", "rm -rf ~"} {
		input, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			log.Fatal(err)
		}
		verdict := engine.Fire(context.Background(), &grapnel.Event{
			Kind: grapnel.ToolBefore,
			Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: input},
		})
		fmt.Println(line, "->", verdict.Decision)
	}
	// Output:
	// rm -rf build -> none
	// rm -rf ~ -> block
}
