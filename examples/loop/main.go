// Command loop is an agent with two tools and two rules. Its model is a function, so it needs no
// network. The model understands two requests, and each is a tool call:
//
//	go run ./examples/loop read go.mod
//	go run ./examples/loop delete .git/config    # a rule blocks it
//	go run ./examples/loop delete README.md      # a rule asks, and no person answers
//
// It shows host.Loop, which fires the events of a turn and obeys the verdicts, and policy.Rules.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/policy"
)

const rules = `
- {name: keep-git, on: tool.before, match: {tool: delete, path: "**/.git/**"}, block: Use git to change the repository.}
- {name: ask-pages, on: tool.before, match: {tool: delete, path: "**/*.md"}, ask: Delete this page?}`

// tool returns a tool whose input is {"path": "..."}.
func tool(name string, class grapnel.Class, run func(path string) ([]byte, error)) host.AgentTool {
	call := func(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in struct{ Path string }
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		return run(in.Path)
	}
	return host.AgentTool{ToolInfo: host.ToolInfo{Name: name, Class: class}, Run: call}
}

// model requests the tool that the prompt names, and answers with the tool's result.
func model(_ context.Context, r *host.Request, _ func(string) error) (*host.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	name, path, _ := strings.Cut(last.Text(), " ")
	if last.Role == "tool" {
		return &host.Response{Content: last.Content}, nil
	}
	args, err := host.JSON(map[string]string{"path": path})
	return &host.Response{ToolCalls: []host.ToolCall{{ID: "1", Name: name, Args: args}}}, err
}

// run works on one prompt in the working directory dir.
func run(ctx context.Context, dir, prompt string) (*host.Answer, error) {
	specs, rulesErr := policy.Rules(rules)
	engine, err := grapnel.New(specs, nil)
	if err := errors.Join(rulesErr, err); err != nil {
		return nil, err
	}
	remove := func(path string) ([]byte, error) { return []byte("deleted"), os.Remove(path) }
	tools := []host.AgentTool{tool("read", grapnel.ClassRead, os.ReadFile), tool("delete", grapnel.ClassWrite, remove)}
	h := host.New(engine, &host.Options{Agent: grapnel.Agent{Name: "loop"}, Tools: host.Infos(tools)})
	ctx, session, added, err := h.Start(ctx, grapnel.Session{ID: "1", CWD: dir}, "startup")
	if err != nil {
		return nil, err
	}
	defer session.End(ctx, "exit")
	loop := &host.Loop{Provider: host.ProviderFunc(model), Tools: tools, Context: added}
	return loop.Run(ctx, host.Text("user", prompt))
}

func main() {
	dir, _ := os.Getwd()
	answer, err := run(context.Background(), dir, strings.Join(os.Args[1:], " "))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text())
}
