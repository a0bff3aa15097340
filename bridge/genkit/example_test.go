package genkit_test

import (
	"context"
	"fmt"
	"log"
	"regexp"
	"strings"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/grapnel-dev/grapnel"
	grapnelgenkit "github.com/grapnel-dev/grapnel/bridge/genkit"
	"github.com/grapnel-dev/grapnel/host"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// The hooks. load.Policies reads them from a policy file.
	key := regexp.MustCompile(`sk-[a-z0-9]+`)
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "no-rm", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"}, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if strings.HasPrefix(ev.Tool.Commands[0], "rm ") {
				return "Nothing is deleted here."
			}
			return ""
		})},
		{Name: "hide-keys", On: []grapnel.Kind{grapnel.ToolAfter}, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			output, changed := ev.MapText(grapnel.FieldOutput, func(text string) string { return key.ReplaceAllString(text, "sk-***") })
			if !changed {
				return grapnel.Outcome{}, nil
			}
			return grapnel.Replace(grapnel.FieldOutput, output)
		})},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}

	// The host describes the program and its tools to the hooks.
	h := host.New(engine, &host.Options{
		Agent: grapnel.Agent{Name: "my-agent", Version: "1.0"},
		Tools: []host.ToolInfo{{Name: "run", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}}},
	})
	hooks := grapnelgenkit.New(h, nil)
	defer hooks.Close(ctx)

	// The agent, unchanged except for ai.WithUse.
	g := genkit.Init(ctx)
	genkit.DefineModelAction(g, "demo/model", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, demo)
	run := genkit.DefineTool(g, "run", "Runs a line.", func(_ *ai.ToolContext, in struct {
		Line string `json:"line"`
	},
	) (string, error) {
		fmt.Println("runs:", in.Line)
		return "key=sk-12345", nil
	})
	clean := genkit.DefineFlow(g, "clean", func(ctx context.Context, prompt string) (string, error) {
		return genkit.GenerateText(ctx, g, ai.WithModelName("demo/model"), ai.WithPrompt(prompt), ai.WithTools(run), ai.WithUse(hooks))
	})

	// A separate session for the conversation. Without it, the middleware uses its own.
	ctx, session, _, err := h.Start(ctx, grapnel.Session{ID: "s1"}, "startup")
	if err != nil {
		log.Fatal(err)
	}
	defer session.End(ctx, "exit")

	answer, err := clean.Run(ctx, "Clean up.")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	// Output:
	// runs: cat config
	// The tools said: [map[error:The call was blocked: Nothing is deleted here.] key=sk-***]
}

// demo replaces a model: it calls the tool twice and repeats the results.
func demo(_ context.Context, request *ai.ModelRequest, _ any, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	var read []any
	for _, p := range request.Messages[len(request.Messages)-1].Content {
		if p.IsToolResponse() {
			read = append(read, p.ToolResponse.Output)
		}
	}
	if len(read) > 0 {
		return &ai.ModelResponse{Message: ai.NewModelTextMessage(fmt.Sprint("The tools said: ", read))}, nil
	}
	return &ai.ModelResponse{Message: ai.NewModelMessage(
		ai.NewToolRequestPart(&ai.ToolRequest{Name: "run", Ref: "1", Input: map[string]any{"line": "rm -r build"}}),
		ai.NewToolRequestPart(&ai.ToolRequest{Name: "run", Ref: "2", Input: map[string]any{"line": "cat config"}}),
	)}, nil
}
