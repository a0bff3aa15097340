package policyfile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A program makes a policy from its own settings, without a file. The rule matches in the same way
// as one in a file: it also finds the command behind sudo.
func ExamplePolicy() {
	var hooks []policyfile.Hook
	for command, instead := range map[string]string{"git push --force": "Push a new branch instead."} {
		hooks = append(hooks, policyfile.Hook{
			Name: "no-" + command, On: []grapnel.Kind{grapnel.ToolBefore},
			Match:  &policyfile.Match{Command: []string{command}},
			Decide: "block", Reason: instead,
		})
	}
	specs, err := policy.Build(&policyfile.Policy{Version: 1, Hooks: hooks}, grapnel.Source{Name: "settings", Scope: grapnel.ScopeUser}, nil)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		log.Fatal(err)
	}
	verdict := engine.Fire(context.Background(), &grapnel.Event{
		Kind: grapnel.ToolBefore,
		Tool: &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"sudo git push -f"}`)},
	})
	fmt.Println(verdict.Decision, verdict.Reason())
	// Output: block Push a new branch instead.
}
