package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A policy loads the rules of an IronClaw bundle.
func ExamplePolicies_ironClaw() {
	dir, err := os.MkdirTemp("", "grapnel-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
		return path
	}
	write("bundle.json", `{"rules": [{"name": "no-deploy", "points": ["beforeToolCall"], "when_regex": "deploy", "reject_reason": "Ask the release team."}]}`)
	file := write("grapnel.yaml", "{version: 1, load: [{format: ironclaw, file: bundle.json}]}")

	set := load.Policies(load.Request{Files: []load.File{{Path: file, Scope: grapnel.ScopeUser}}})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		log.Fatal(err)
	}
	verdict := engine.Fire(context.Background(), &grapnel.Event{
		Kind: grapnel.ToolBefore,
		Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"deploy"}`)},
	})
	fmt.Println(verdict.Decision, verdict.Reason())
	// Output: block Ask the release team.
}
