package adk_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"regexp"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/adk"
	"github.com/grapnel-dev/grapnel/host"
)

func Example() {
	ctx := context.Background()

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
	hooks := adk.New(host.New(engine, &host.Options{
		Agent: grapnel.Agent{Name: "my-agent", Version: "1.0"},
		Tools: []host.ToolInfo{{Name: "run", Class: grapnel.ClassShell, Facts: []grapnel.Fact{{Field: grapnel.FieldCommand, At: "/line"}}}},
	}), nil)
	defer func() { _ = hooks.Close() }() // ends the sessions; always returns nil

	// The agent, unchanged.
	type line struct {
		Line string `json:"line"`
	}
	run, err := functiontool.New(functiontool.Config{Name: "run", Description: "Runs a line."}, func(_ agent.Context, in line) (map[string]any, error) {
		fmt.Println("runs:", in.Line)
		return map[string]any{"stdout": "key=sk-12345"}, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	root, err := llmagent.New(llmagent.Config{Name: "cleaner", Model: demo{}, Instruction: "Clean up.", Tools: []tool.Tool{run}})
	if err != nil {
		log.Fatal(err)
	}

	// The runner, with the plugin added.
	r, err := runner.New(runner.Config{
		AppName: "example", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{hooks}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range r.Run(ctx, "user", "session-1", genai.NewContentFromText("Go on.", genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.IsFinalResponse() {
			fmt.Println(ev.Content.Parts[0].Text)
		}
	}
	// Output:
	// runs: cat config
	// The tools said: [map[error:The call was blocked: Nothing is deleted here.] map[stdout:key=sk-***]]
}

// demo replaces a model: it calls the tool twice and repeats the results.
type demo struct{}

func (demo) Name() string { return "demo" }

func (demo) GenerateContent(_ context.Context, request *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		var read []any
		for _, p := range request.Contents[len(request.Contents)-1].Parts {
			if p.FunctionResponse != nil {
				read = append(read, p.FunctionResponse.Response)
			}
		}
		if len(read) > 0 {
			yield(&model.LLMResponse{Content: genai.NewContentFromText(fmt.Sprint("The tools said: ", read), genai.RoleModel)}, nil)
			return
		}
		yield(&model.LLMResponse{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{
			genai.NewPartFromFunctionCall("run", map[string]any{"line": "rm -r build"}),
			genai.NewPartFromFunctionCall("run", map[string]any{"line": "cat config"}),
		}}}, nil)
	}
}
