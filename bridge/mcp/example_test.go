package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/mcp"
	"github.com/grapnel-dev/grapnel/host"
)

func Example() {
	ctx := context.Background()

	// The hooks. load.Policies reads them from a policy file.
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-env", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"mcp__files__*"}, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if strings.HasSuffix(ev.Tool.Paths[0].Path, ".env") {
				return "Ask for the variable that you need."
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

	// The host describes the program and its tools to the hooks.
	bridge := mcp.New(host.New(engine, &host.Options{
		Agent: grapnel.Agent{Name: "file-server", Version: "1.0"},
		Tools: []host.ToolInfo{{Name: "mcp__files__read", Class: grapnel.ClassRead, Facts: []grapnel.Fact{{Field: grapnel.FieldPath, At: "/path", Use: grapnel.UseRead}}}},
	}), nil)
	defer bridge.Close()

	// The server, with one added line.
	server := sdk.NewServer(&sdk.Implementation{Name: "files", Version: "1.0"}, nil)
	server.AddReceivingMiddleware(bridge.Server("files"))
	sdk.AddTool(server, &sdk.Tool{Name: "read"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Path string `json:"path"`
	},
	) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Path + " says: key=sk-12345"}}}, nil, nil
	})

	// A client in the same program. Other clients connect over stdio or HTTP.
	here, there := sdk.NewInMemoryTransports()
	if _, err := server.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1.0"}, nil).Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, path := range []string{"deploy/.env", "README.md"} {
		result, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "read", Arguments: map[string]string{"path": path}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Content[0].(*sdk.TextContent).Text)
	}
	// Output:
	// The call was blocked: Ask for the variable that you need.
	// README.md says: key=sk-***
}

func Example_client() {
	engine, err := grapnel.New([]grapnel.Spec{{Name: "nobody-asks-me", On: []grapnel.Kind{grapnel.ElicitationBefore}, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
		return "The server " + ev.Elicitation.Server + " wants to know: " + ev.Elicitation.Message
	})}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	bridge := mcp.New(host.New(engine, nil), nil)
	defer bridge.Close()

	impl := &sdk.Implementation{Name: "agent", Version: "1.0"}

	client := bridge.NewClient("github", impl, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept"}, nil
		},
	})

	fmt.Printf("%T\n", client)
	// Output: *mcp.Client
}
