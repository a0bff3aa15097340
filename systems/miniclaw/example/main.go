// Miniclaw shows the hooks of mini-claw-code's chapter in a Go agent: a logging, a blocking and a
// shell hook around a loop of model and tools, and the rules of its registry. See README.md in
// this directory.
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
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/process"
	miniclaw "github.com/grapnel-dev/grapnel/systems/miniclaw/hookfile"
)

// A registry is the chapter's HookRegistry: hooks in the order in which they are registered.
type registry struct{ specs []grapnel.Spec }

// with adds a hook without conditions, because each hook gets each event.
func (r registry) with(name string, hook grapnel.Hook) registry {
	return registry{append(r.specs, grapnel.Spec{Name: name, Hook: hook})}
}

func (r registry) isEmpty() bool { return len(r.specs) == 0 }

// engine returns the engine that runs the hooks. The preset's Defaults make failures block.
func (r registry) engine() (*grapnel.Engine, error) {
	preset, _ := grapnel.FindPreset("miniclaw")
	for i := range r.specs {
		r.specs[i] = preset.Defaults(r.specs[i])
	}
	return grapnel.New(r.specs, &grapnel.Options{Preset: preset})
}

// shellHook is the chapter's ShellHook: a command at both tool events, for tools whose name
// matches the glob. Every exit code except 0 blocks.
func shellHook(name, command, glob string) (grapnel.Spec, error) {
	tools, err := miniclaw.Glob(glob)
	return grapnel.Spec{
		Name: name, On: []grapnel.Kind{grapnel.ToolBefore, grapnel.ToolAfter}, Match: tools,
		Hook: &process.Command{Name: name, Line: command, Executor: process.System, Dialect: dialect.Miniclaw()},
	}, err
}

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

// turn runs an agent with four hooks and prints what each call gives to the model.
func turn(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "turn:")
	log := &builtin.Logging{}
	vet, err := shellHook("vet", "echo vet failed >&2; exit 3", "edit_*")
	if err != nil {
		return err
	}
	hooks := registry{}.with("log", log).with("freeze", builtin.Blocking([]string{"deploy", "migrate"}, "release freeze"))
	hooks.specs = append(hooks.specs, vet)
	hooks = hooks.with("slow", grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		if ev.Kind != grapnel.ToolBefore || ev.Tool.Name != "build" {
			return grapnel.Outcome{}, nil // Continue
		}
		return grapnel.Replace(grapnel.FieldInput, map[string]int{"jobs": 1}) // ModifyArgs
	}))
	engine, err := hooks.engine()
	if err != nil {
		return err
	}
	tool := func(name string) host.AgentTool {
		return host.AgentTool{ToolInfo: host.ToolInfo{Name: name}, Run: func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(name + " ran with " + string(input))
		}}
	}
	tools := []host.AgentTool{tool("read"), tool("deploy"), tool("edit_file"), tool("build")}
	manners, _ := host.FindManners("miniclaw")
	h := host.New(engine, &host.Options{Tools: host.Infos(tools), Manners: manners})
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
	var tags []string
	for _, tag := range log.Messages() {
		if strings.HasPrefix(tag, "pre:") || strings.HasPrefix(tag, "post:") || strings.HasPrefix(tag, "agent:") {
			tags = append(tags, tag) // the agent has more events than the chapter
		}
	}
	fmt.Fprintln(out, "  log:", strings.Join(tags, ", "))
	return engine.Close(ctx)
}

// dispatch fires one tool call at hooks that are registered in different orders.
func dispatch(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "registry:")
	var saw []string
	look := func(then grapnel.Func) grapnel.Func {
		return func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			saw = append(saw, string(ev.Tool.Input))
			return then(ctx, ev)
		}
	}
	modify := func(n int) grapnel.Hook {
		return look(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldInput, map[string]int{"n": n})
		})
	}
	block := look(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
	})
	for _, row := range []struct {
		name  string
		hooks registry
	}{
		{"empty", registry{}},
		{"modify to 1, modify to 2", registry{}.with("a", modify(1)).with("b", modify(2))},
		{"modify to 1, block", registry{}.with("a", modify(1)).with("b", block)},
		{"block, modify to 1", registry{}.with("a", block).with("b", modify(1))},
	} {
		engine, err := row.hooks.engine()
		if err != nil {
			return err
		}
		saw = nil
		v := engine.Fire(ctx, &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "build", Input: json.RawMessage(`{"n":0}`)}})
		answer := "Continue"
		switch changed := v.Changes[grapnel.FieldInput]; {
		case v.Decision == grapnel.Block:
			answer = "Block(" + v.Reason() + ")"
		case changed != nil:
			answer = "ModifyArgs(" + string(changed) + ")"
		}
		fmt.Fprintf(out, "  %-26s%-22sempty %-6v hooks saw %s\n", row.name, answer, row.hooks.isEmpty(), cmp.Or(strings.Join(saw, " "), "nothing"))
	}
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	if err := turn(ctx, out); err != nil {
		return err
	}
	return dispatch(ctx, out)
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "miniclaw: error:", err)
		os.Exit(1)
	}
}
