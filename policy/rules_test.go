package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

// A rule judges what a shell line does, and not its text.
func ExampleRules() {
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
	for _, line := range []string{"rm -fr build", "cd web && sudo rm -r -f build", "echo 'never rm -rf'"} {
		input, _ := json.Marshal(map[string]string{"command": line})
		verdict := engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "bash", Input: input}})
		fmt.Printf("%-30s stops: %v\n", line, verdict.Stops())
	}
	// Output:
	// rm -fr build                   stops: true
	// cd web && sudo rm -r -f build  stops: true
	// echo 'never rm -rf'            stops: false
}

// Rules reads both forms of a list, names mistakes by their position in the text, and refuses hooks
// that depend on more than the event.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, want string // want is part of the error; empty = none
	}{
		"a list":         {"- {name: a, on: tool.before, block: no}\n- {name: b, on: tool.before, ask: Sure?}", ""},
		"indented":       {"\n    - name: a\n      on: tool.before\n      block: no\n", ""},
		"flow":           {"[{name: a, on: tool.before, block: no}, {name: b, on: prompt.before, context: hi}]", ""},
		"flow, two rows": {"\n\t[{name: a, on: tool.before, block: no},\n {name: b, on: tool.before, limit: {count: 1, per: 1h, by: session}}]", ""},
		"nothing":        {"", "there are no rules"},
		"a mistake":      {"- {name: a, on: tool.before, block: no}\n- {name: b, on: tool.befor, block: no}", "rules:2:17: unknown event"},
		"flow mistake":   {"[{name: a, on: tool.befor, block: no}]", "rules:1:16: unknown event"},
		"flow, row two":  {"\n\t[{name: a, on: tool.befor, block: no}]", "rules:2:17: unknown event"},
		"a program":      {"- {name: a, on: tool.before, block: no}\n- {name: b, on: tool.before, run: ./x}", `rules:2: hook "b" needs more than its event`},
		"a server":       {"- {name: b, on: tool.before, http: https://example.com/}", "needs more"},
		"no YAML":        {"- {", "rules:1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			specs, err := policy.Rules(tt.text)
			switch {
			case tt.want == "" && (err != nil || len(specs) == 0):
				t.Errorf("%d hooks, %v", len(specs), err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || specs != nil):
				t.Errorf("%d hooks, %v; want an error with %q", len(specs), err, tt.want)
			}
		})
	}
}
