package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local"
)

func ExampleOpen() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "grapnel-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	text := "version: 1\nhooks:\n  - {name: no-deploy, on: tool.before, match: {command: deploy}, block: Ask the release team.}\n"
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(text), 0o600); err != nil {
		panic(err)
	}
	dir := root

	engine, err := local.Open(ctx, &local.Options{Root: root, CWD: dir})
	if err != nil {
		panic(err)
	}
	verdict := engine.Fire(ctx, &grapnel.Event{
		Kind:    grapnel.ToolBefore,
		Session: grapnel.Session{ID: "s1", CWD: dir, Root: engine.Root},
		Tool:    &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"deploy"}`), Commands: []string{"deploy"}},
	})
	fmt.Println(verdict.Decision, verdict.Reasons[0].Text)

	err = engine.Close(ctx) // waits for hooks in the background, ends workers
	fmt.Println(err)
	// Output:
	// block Ask the release team.
	// <nil>
}
