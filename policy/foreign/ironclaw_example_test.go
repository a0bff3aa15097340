package foreign_test

import (
	"context"
	"fmt"
	"os"

	"github.com/grapnel-dev/grapnel/policy/foreign"
)

func ExampleStartIronClaw() {
	dir, err := os.MkdirTemp("", "ironclaw-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	hooks, err := foreign.StartIronClaw(&foreign.IronClawOptions{Home: dir, Workspace: dir})
	if err != nil {
		panic(err)
	}
	for _, spec := range hooks.List("") {
		fmt.Println(spec.Name)
	}
	fmt.Println(hooks.Close(context.Background()))
	// Output:
	// builtin.audit_log
	// session_summary
	// <nil>
}
