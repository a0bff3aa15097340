// Miniclaw shows the hooks of mini-claw-code's chapter in a Go agent: a logging, a blocking and a
// shell hook around a loop of model and tools, and the rules of its registry. See
// docs/systems/miniclaw.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/systems/miniclaw"
)

// script is a model with fixed responses: one call of each tool, then a text.
func script(calls ...host.ToolCall) host.Provider {
	return host.ProviderFunc(func(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
		answered := 0
		for _, m := range r.Messages {
			if m.Role == "tool" {
				answered++
			}
		}
		if answered < len(calls) {
			return &host.Response{ToolCalls: calls[answered : answered+1], FinishReason: "tool_calls"}, nil
		}
		return &host.Response{Content: json.RawMessage(`"Done."`), FinishReason: "stop"}, nil
	})
}

// turn runs an agent with four hooks and prints the result of each call for the model.
func turn(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "turn:")
	log := miniclaw.NewLoggingHook()
	hooks := miniclaw.NewHookRegistry().
		With(log).
		With(miniclaw.NewBlockingHook([]string{"deploy", "migrate"}, "release freeze")).
		With(miniclaw.NewShellHook("echo vet failed >&2; exit 3").ForTool("edit_*")).
		With(miniclaw.HookFunc(func(_ context.Context, event miniclaw.Event) miniclaw.Action {
			if call, ok := event.(miniclaw.PreToolCall); ok && call.ToolName == "build" {
				return miniclaw.ModifyArgs(json.RawMessage(`{"jobs":1}`))
			}
			return miniclaw.Continue()
		}))
	tool := func(name string) host.AgentTool {
		return host.AgentTool{ToolInfo: host.ToolInfo{Name: name}, Run: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(name + " ran with " + string(input))
		}}
	}
	tools := []host.AgentTool{tool("read"), tool("deploy"), tool("edit_file"), tool("build")}
	manners, _ := host.FindManners("miniclaw")
	h := host.New(hooks.Engine(), &host.Options{Tools: host.Infos(tools), Manners: manners})
	ctx, session, _, err := h.Start(ctx, grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		return err
	}
	loop := host.Loop{Tools: tools, Provider: script(
		host.ToolCall{ID: "1", Name: "read", Args: json.RawMessage(`{"path":"notes.md"}`)},
		host.ToolCall{ID: "2", Name: "deploy", Args: json.RawMessage(`{}`)},
		host.ToolCall{ID: "3", Name: "edit_file", Args: json.RawMessage(`{"path":"main.go"}`)},
		host.ToolCall{ID: "4", Name: "build", Args: json.RawMessage(`{"jobs":8}`)},
	)}
	answer, err := loop.Run(ctx, host.Text("user", "Ship it."))
	if err != nil {
		return err
	}
	for _, m := range loop.Messages {
		if m.Role == "tool" {
			fmt.Fprintln(out, "  the model reads:", m.Text())
		}
	}
	fmt.Fprintln(out, "  the user reads:", answer.Text())
	session.End(ctx, "exit")
	fmt.Fprintln(out, "  log:", strings.Join(log.Messages(), ", "))
	return hooks.Engine().Close(ctx)
}

// dispatch dispatches one tool call to hooks that are registered in different orders.
func dispatch(ctx context.Context, out io.Writer) {
	fmt.Fprintln(out, "registry:")
	var saw []string
	does := func(action miniclaw.Action) miniclaw.Hook {
		return miniclaw.HookFunc(func(_ context.Context, event miniclaw.Event) miniclaw.Action {
			saw = append(saw, string(event.(miniclaw.PreToolCall).Args))
			return action
		})
	}
	first, second := does(miniclaw.ModifyArgs(json.RawMessage(`{"n":1}`))), does(miniclaw.ModifyArgs(json.RawMessage(`{"n":2}`)))
	block := does(miniclaw.Block("no"))
	for _, row := range []struct {
		name  string
		hooks *miniclaw.HookRegistry
	}{
		{"empty", miniclaw.NewHookRegistry()},
		{"modify to 1, modify to 2", miniclaw.NewHookRegistry().With(first).With(second)},
		{"modify to 1, block", miniclaw.NewHookRegistry().With(first).With(block)},
		{"block, modify to 1", miniclaw.NewHookRegistry().With(block).With(first)},
	} {
		saw = nil
		action := row.hooks.Dispatch(ctx, miniclaw.PreToolCall{ToolName: "build", Args: json.RawMessage(`{"n":0}`)})
		fmt.Fprintf(out, "  %-26s%-22vempty %-6v hooks saw %s\n", row.name, action, row.hooks.IsEmpty(), cmp.Or(strings.Join(saw, " "), "nothing"))
	}
}

func run(ctx context.Context, out io.Writer) error {
	if err := turn(ctx, out); err != nil {
		return err
	}
	dispatch(ctx, out)
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "miniclaw: error:", err)
		os.Exit(1)
	}
}
