package eino_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/eino"
	"github.com/grapnel-dev/grapnel/host"
)

func Example() {
	// The hooks. load.Policies reads them from a policy file.
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-delete", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"}, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if strings.HasPrefix(ev.Tool.Commands[0], "rm ") {
				return "Nothing is deleted here. Move it to the trash."
			}
			return ""
		})},
		{Name: "hide-keys", On: []grapnel.Kind{grapnel.ToolAfter}, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldOutput, json.RawMessage(strings.ReplaceAll(string(ev.Tool.Output), "sk-12345", "sk-***")))
		})},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}

	// The host describes the agent and its tools to the hooks.
	h := host.New(engine, &host.Options{
		Agent: grapnel.Agent{Name: "cleaner", Version: "1.0"},
		Tools: []host.ToolInfo{{Name: "run", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}}},
	})
	bridge := eino.New(h, nil)
	ctx, session, _, err := h.Start(context.Background(), grapnel.Session{ID: "42"}, "startup")
	if err != nil {
		log.Fatal(err)
	}
	defer session.End(ctx, "exit")

	// The agent, unchanged except for the two uses of bridge.
	run, err := utils.InferTool("run", "runs a shell line", func(_ context.Context, in struct {
		Line string `json:"line"`
	},
	) (string, error) {
		return "output of " + in.Line + ": key=sk-12345", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: bridge.Model(&parrot{}),
		ToolsConfig: compose.ToolsNodeConfig{
			Tools:               []tool.BaseTool{run},
			ToolCallMiddlewares: []compose.ToolMiddleware{bridge.Tools()},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := bridge.Turn(ctx, []*schema.Message{schema.UserMessage("Clean up.")}, func(ctx context.Context, messages []*schema.Message) (*schema.Message, error) {
		return agent.Generate(ctx, messages)
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Content)
	// Output:
	// I was told: The call was blocked: Nothing is deleted here. Move it to the trash.
	// I was told: output of cat .env: key=sk-***
}

// A parrot replaces a model: it requests two calls and repeats their results.
type parrot struct{}

func (*parrot) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	return &parrot{}, nil
}

func (*parrot) Generate(_ context.Context, input []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	var told []string
	for _, m := range input {
		if m.Role == schema.Tool {
			told = append(told, "I was told: "+m.Content)
		}
	}
	if len(told) > 0 {
		return schema.AssistantMessage(strings.Join(told, "\n"), nil), nil
	}
	return schema.AssistantMessage("", []schema.ToolCall{
		{ID: "1", Function: schema.FunctionCall{Name: "run", Arguments: `{"line":"rm -rf /tmp/build"}`}},
		{ID: "2", Function: schema.FunctionCall{Name: "run", Arguments: `{"line":"cat .env"}`}},
	}), nil
}

func (p *parrot) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := p.Generate(ctx, input, opts...)
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}
