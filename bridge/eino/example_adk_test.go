package eino_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/eino"
	"github.com/grapnel-dev/grapnel/host"
)

func Example_adk() {
	engine, err := grapnel.New([]grapnel.Spec{{Name: "closed", On: []grapnel.Kind{grapnel.PromptBefore}, Hook: grapnel.Guard(func(*grapnel.Event) string {
		return "We are closed."
	})}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	bridge := eino.New(host.New(engine, nil), nil)
	ctx := context.Background()
	defer bridge.Close(ctx)
	var chatModel model.ToolCallingChatModel = &parrot{}
	var tools []tool.BaseTool
	prompt := "Clean up."

	config := &adk.ChatModelAgentConfig{Name: "cleaner", Description: "cleans up", Model: bridge.Model(chatModel)}
	config.ToolsConfig.Tools = tools
	config.ToolsConfig.ToolCallMiddlewares = []compose.ToolMiddleware{bridge.Tools()}
	config.ModelRetryConfig = &adk.ModelRetryConfig{MaxRetries: 3, IsRetryAble: func(_ context.Context, err error) bool { return host.Refused(err) == nil }}

	agent, err := adk.NewChatModelAgent(ctx, config)
	if err != nil {
		log.Fatal(err)
	}

	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent})
	answer, err := bridge.Turn(ctx, []*schema.Message{schema.UserMessage(prompt)}, func(ctx context.Context, messages []*schema.Message) (answer *schema.Message, err error) {
		for events := runner.Run(ctx, messages); err == nil; {
			event, ok := events.Next()
			switch {
			case !ok:
				return answer, nil
			case event.Err != nil:
				err = event.Err
			case event.Output != nil && event.Output.MessageOutput != nil:
				answer, err = event.Output.MessageOutput.GetMessage()
			}
		}
		return nil, err
	})
	if no := host.Refused(err); no != nil {
		answer, err = schema.AssistantMessage(no.Text, nil), nil
	}

	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Content)
	// Output: Not done: We are closed.
}
