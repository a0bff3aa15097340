package hooks_test

import (
	"context"
	"fmt"
	"strings"

	hooks "github.com/grapnel-dev/grapnel/systems/flyto"
)

// A callback blocks one command of one tool.
func Example() {
	ctx := context.Background()
	m := hooks.NewManager(nil, hooks.DefaultExecutor{})
	err := m.Register(hooks.HookPreToolUse, hooks.HookDef{
		Handler: hooks.NewCallbackHandler(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
			if env["TOOL_NAME"] == "Bash" && strings.Contains(env["TOOL_INPUT"], "rm -rf") {
				return &hooks.HookResult{ExitCode: hooks.ExitCodeBlock, Stderr: "delete single files"}
			}
			return &hooks.HookResult{}
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []string{"ls", "rm -rf build"} {
		env := hooks.BuildPreToolEnv("Bash", map[string]any{"command": line}, "/home/dev/project")
		results, err := m.Execute(ctx, hooks.HookPreToolUse, env)
		if err != nil {
			fmt.Println(err)
			return
		}
		blocked, reason := hooks.ParseToolHookResponse(results)
		fmt.Printf("%s: %t %q\n", line, blocked, reason)
	}
	// Output:
	// ls: false ""
	// rm -rf build: true "delete single files"
}

// The hooks of a session run before the hooks of the engine, and travel to sub-agents in the context.
func ExampleResolveHooksMgr() {
	prints := func(name string) hooks.HookDef {
		return hooks.HookDef{Handler: hooks.HookHandlerFunc(func(_ context.Context, _ hooks.HookType, env map[string]string) *hooks.HookResult {
			fmt.Println(name, "sees", env["TOOL_NAME"])
			return &hooks.HookResult{}
		})}
	}
	session, engine := hooks.NewManager(nil, nil), hooks.NewManager(nil, nil)
	for _, err := range []error{
		session.Register(hooks.HookPreToolUse, prints("session")),
		engine.Register(hooks.HookPreToolUse, prints("engine")),
	} {
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	ctx := hooks.WithSessionHooksCtx(context.Background(), session)
	execute := func(m hooks.HooksManager, tool string) {
		if _, err := m.Execute(ctx, hooks.HookPreToolUse, hooks.BuildPreToolEnv(tool, nil, "")); err != nil {
			fmt.Println(err)
		}
	}
	execute(hooks.ResolveHooksMgr(session, engine), "Read")
	execute(hooks.ResolveHooksMgr(hooks.SessionHooksFromCtx(ctx), nil), "Write") // in a sub-agent without hooks of its own
	// Output:
	// session sees Read
	// engine sees Read
	// session sees Write
}
