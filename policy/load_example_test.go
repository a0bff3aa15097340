package policy_test

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/policy"
)

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
