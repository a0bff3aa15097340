package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy"
)

const noForcePush = `version: 1
hooks:
  - name: no-force-push
    on: tool.before
    match: {command: git push --force}
    block: Push a new branch instead.
`

// A program loads the policies in force, makes an engine from them, and fires events.
func ExampleLoad() {
	set := policy.Load(policy.Request{
		Files:   []policy.File{{Path: "/policies/grapnel.yaml", Scope: grapnel.ScopeUser}},
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

// Parse returns all errors of a policy, with line and column.
func ExampleParse() {
	_, errs := policy.Parse("grapnel.yaml", []byte("version: 1\nhooks:\n  - name: no-push\n    on: tool.befor\n    block: No.\n    priorty: 5\n"))
	for _, err := range errs {
		fmt.Println(err)
	}
	// Output:
	// grapnel.yaml:6:5: unknown key "priorty" in a hook (did you mean "priority"?)
	// grapnel.yaml:4:9: unknown event "tool.befor" (did you mean "tool.before"?)
}
