package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/load"
)

const noForcePush = `version: 1
hooks:
  - name: no-force-push
    on: tool.before
    match: {command: git push --force}
    block: Push a new branch instead.
`

// A program loads the policies in force, makes an engine from them, and fires events.
func ExamplePolicies() {
	set := load.Policies(load.Request{
		Files:   []load.File{{Path: "/policies/grapnel.yaml", Scope: grapnel.ScopeUser}},
		Content: map[string][]byte{"/policies/grapnel.yaml": []byte(noForcePush)}, // without it the file is read
	})
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		log.Fatal(err)
	}
	payload, err := json.Marshal(map[string]any{
		"hook_event_name": "PreToolUse", "tool_name": "Bash",
		"tool_input": map[string]string{"command": "sudo git push -f origin main"},
	})
	if err != nil {
		log.Fatal(err)
	}
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: payload})
	if err != nil {
		log.Fatal(err)
	}
	verdict := engine.Fire(context.Background(), ev)
	fmt.Println(set.Files[0].State, verdict.Decision, verdict.Reason())
	// Output: valid block Push a new branch instead.
}
