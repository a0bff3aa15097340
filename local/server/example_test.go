package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/local/server"
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
	dir, mux := root, http.NewServeMux()

	engine, err := server.Open(ctx, &server.Options{Root: root, CWD: dir, Agent: "my-agent"})
	if err != nil {
		panic(err)
	}
	mux.Handle("/metrics", engine.Metrics())

	verdict := engine.Fire(ctx, &grapnel.Event{
		Kind:    grapnel.ToolBefore,
		Session: grapnel.Session{ID: "s1", CWD: dir, Root: engine.Root},
		Tool:    &grapnel.Tool{Name: "shell", Class: grapnel.ClassShell, Input: json.RawMessage(`{"command":"deploy"}`)},
	})
	fmt.Println(verdict.Decision, verdict.Reasons[0].Text)
	fmt.Println(engine.Counts().Blocked, "block")

	err = engine.Close(ctx) // waits for hooks and deliveries, ends workers
	fmt.Println(err)
	// Output:
	// block Ask the release team.
	// 1 block
	// <nil>
}
