package host_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// everywhere returns a Go function for every event.
func everywhere() grapnel.Spec {
	return grapnel.Spec{Name: "everywhere", Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil })}
}

func benchSession(tb testing.TB, specs ...grapnel.Spec) context.Context {
	tb.Helper()
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		tb.Fatal(err)
	}
	h := host.New(engine, &host.Options{Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}}})
	ctx, _, _, err := h.Start(context.Background(), grapnel.Session{ID: "s1", CWD: "/home/dev/project"}, "startup")
	if err != nil {
		tb.Fatal(err)
	}
	return ctx
}

var shellCall = host.Call{ID: "call_1", Name: "shell", Input: json.RawMessage(`{"command":"go test -count=1 ./..."}`)}

func run(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`"ok"`), nil
}

func benchTool(b *testing.B, specs ...grapnel.Spec) {
	ctx := benchSession(b, specs...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := host.Tool(ctx, shellCall, run); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToolNoHooks(b *testing.B)        { benchTool(b) }
func BenchmarkToolHookEverywhere(b *testing.B) { benchTool(b, everywhere()) }

func benchLoop(b *testing.B, specs ...grapnel.Spec) {
	ctx := benchSession(b, specs...)
	turn := 0
	model := host.ProviderFunc(func(context.Context, *host.Request, func(string) error) (*host.Response, error) {
		if turn++; turn%2 == 1 {
			return &host.Response{ToolCalls: []host.ToolCall{{ID: "call_1", Name: "shell", Args: shellCall.Input}}}, nil
		}
		return &host.Response{Content: json.RawMessage(`"done"`)}, nil
	})
	loop := &host.Loop{Provider: model, Tools: []host.AgentTool{{ToolInfo: host.ToolInfo{Name: "shell"}, Run: run}}}
	b.ReportAllocs()
	for b.Loop() {
		loop.Messages = nil
		if _, err := loop.Run(ctx, host.Text("user", "test it")); err != nil {
			b.Fatal(err)
		}
	}
}

// A turn: a prompt, two answers of the model, and one call between them.
func BenchmarkLoopNoHooks(b *testing.B)        { benchLoop(b) }
func BenchmarkLoopHookEverywhere(b *testing.B) { benchLoop(b, everywhere()) }

// Allocations do not depend on the machine's speed, so they are a test: without hooks for an
// event, nothing is allocated.
func TestAllocations(t *testing.T) {
	ctx := benchSession(t)
	s := host.SessionFromContext(ctx)
	for name, do := range map[string]func(){
		"tool": func() { _, _ = host.Tool(ctx, shellCall, run) },
		"model": func() {
			_, _ = host.Model(ctx, 1, func(context.Context, int) (int, error) { return 2, nil })
		},
		"prompt":  func() { _, _ = s.Prompt(ctx, "") },
		"notices": func() { s.End(ctx, "exit"); s.Failed(ctx, errBroken) },
		"stop":    func() { _, _ = s.Stop(ctx, "done", false) },
	} {
		if n := testing.AllocsPerRun(100, do); n > 2 {
			t.Errorf("%s: %v allocations without hooks, want at most 2", name, n)
		}
	}
}
