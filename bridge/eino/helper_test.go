package eino_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/eino"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestMain(m *testing.M) { await.Main(m) }

// A script is a chat model that gives prepared messages, one per call, and stores its requests.
type script struct {
	says  []*schema.Message
	tools []*schema.ToolInfo
	heard *heard
}

type heard struct {
	mu    sync.Mutex
	asked []asked
}

type asked struct {
	messages []*schema.Message
	tools    []string
	options  *model.Options
}

func says(messages ...*schema.Message) *script { return &script{says: messages, heard: &heard{}} }

func (s *script) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	if len(tools) == 0 {
		return nil, errors.New("no tools to bind") // many real models do this
	}
	return &script{says: s.says, tools: tools, heard: s.heard}, nil
}

func (s *script) Generate(_ context.Context, input []*schema.Message, opts ...model.Option) (*schema.Message, error) {
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	a := asked{messages: slices.Clone(input), options: model.GetCommonOptions(nil, opts...)}
	for _, t := range s.tools {
		a.tools = append(a.tools, t.Name)
	}
	s.heard.asked = append(s.heard.asked, a)
	if n := len(s.heard.asked); n <= len(s.says) {
		return s.says[n-1], nil
	}
	return nil, fmt.Errorf("the model was asked %d times", len(s.heard.asked))
}

// Stream sends each word as a piece.
func (s *script) Stream(ctx context.Context, input []*schema.Message, opts ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	m, err := s.Generate(ctx, input, opts...)
	if err != nil {
		return nil, err
	}
	var pieces []*schema.Message
	for _, word := range strings.SplitAfter(m.Content, " ") {
		pieces = append(pieces, &schema.Message{Role: m.Role, Content: word})
	}
	pieces[0].ToolCalls = m.ToolCalls
	return schema.StreamReaderFromArray(pieces), nil
}

// last returns the last request to the model.
func (s *script) last(t *testing.T) asked {
	t.Helper()
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	if len(s.heard.asked) == 0 {
		t.Fatal("the model was never asked")
	}
	return s.heard.asked[len(s.heard.asked)-1]
}

func (s *script) times() int {
	s.heard.mu.Lock()
	defer s.heard.mu.Unlock()
	return len(s.heard.asked)
}

// result returns the result of a call as the model got it.
func (s *script) result(t *testing.T, id string) string {
	t.Helper()
	for _, m := range s.last(t).messages {
		if m.Role == schema.Tool && m.ToolCallID == id {
			told := m.Content
			for _, part := range m.UserInputMultiContent {
				told += part.Text + ";"
			}
			return told
		}
	}
	t.Fatalf("the model was told nothing of call %s: %v", id, s.last(t).messages)
	return ""
}

func text(s string) *schema.Message { return schema.AssistantMessage(s, nil) }

func calls(list ...[2]string) *schema.Message {
	m := text("")
	for i, c := range list {
		m.ToolCalls = append(m.ToolCalls, schema.ToolCall{
			ID: fmt.Sprint("call-", i+1), Type: "function", Function: schema.FunctionCall{Name: c[0], Arguments: c[1]},
		})
	}
	return m
}

// A workshop has one tool of each type in Eino, and stores their inputs.
type workshop struct {
	mu    sync.Mutex
	got   []string
	fails error
}

type work struct {
	Text string `json:"text"`
}

func (w *workshop) note(in work) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, in.Text)
	return "did " + in.Text, w.fails
}

func (w *workshop) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.got))
}

func (w *workshop) tools(t *testing.T) []tool.BaseTool {
	t.Helper()
	plain, err := utils.InferTool("plain", "works", func(_ context.Context, in work) (map[string]string, error) {
		out, err := w.note(in)
		return map[string]string{"result": out}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	streams, err := utils.InferStreamTool("streams", "works in pieces", func(_ context.Context, in work) (*schema.StreamReader[string], error) {
		out, err := w.note(in)
		return schema.StreamReaderFromArray(strings.SplitAfter(out, " ")), err
	})
	if err != nil {
		t.Fatal(err)
	}
	rich, err := utils.InferEnhancedTool("rich", "works with parts", func(_ context.Context, in work) (*schema.ToolResult, error) {
		out, err := w.note(in)
		return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: out}}}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	richStreams, err := utils.InferEnhancedStreamTool("rich-streams", "works with parts, in pieces", func(_ context.Context, in work) (*schema.StreamReader[*schema.ToolResult], error) {
		out, err := w.note(in)
		return schema.StreamReaderFromArray([]*schema.ToolResult{
			{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: out}}},
		}), err
	})
	if err != nil {
		t.Fatal(err)
	}
	return []tool.BaseTool{plain, streams, rich, richStreams}
}

// An agent is an Eino component that can run.
type agent func(ctx context.Context, messages []*schema.Message) (*schema.Message, error)

// whole joins the pieces of a message.
func whole(r *schema.StreamReader[*schema.Message], err error) (*schema.Message, error) {
	if err != nil {
		return nil, err
	}
	return schema.ConcatMessageStream(r)
}

// makers are the ways to run an agent in Eino.
var makers = map[string]func(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent{
	"react": func(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent {
		a := newReact(t, b, m, tools)
		return func(ctx context.Context, messages []*schema.Message) (*schema.Message, error) {
			return a.Generate(ctx, messages)
		}
	},
	"react stream": func(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent {
		a := newReact(t, b, m, tools)
		return func(ctx context.Context, messages []*schema.Message) (*schema.Message, error) {
			return whole(a.Stream(ctx, messages))
		}
	},
	"adk": func(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent {
		return newADK(t, b, m, tools, false)
	},
	"adk stream": func(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) agent {
		return newADK(t, b, m, tools, true)
	},
}

func newReact(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool) *react.Agent {
	t.Helper()
	config := &react.AgentConfig{ToolCallingModel: m, ToolsConfig: compose.ToolsNodeConfig{Tools: tools}}
	if b != nil {
		config.ToolCallingModel = b.Model(m)
		config.ToolsConfig.ToolCallMiddlewares = []compose.ToolMiddleware{b.Tools()}
	}
	a, err := react.NewAgent(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newADK(t *testing.T, b *eino.Bridge, m model.ToolCallingChatModel, tools []tool.BaseTool, streaming bool) agent {
	t.Helper()
	config := &adk.ChatModelAgentConfig{Name: "worker", Description: "works", Model: m}
	config.ToolsConfig.Tools = tools
	if b != nil {
		config.Model = b.Model(m)
		config.ToolsConfig.ToolCallMiddlewares = []compose.ToolMiddleware{b.Tools()}
	}
	a, err := adk.NewChatModelAgent(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: a, EnableStreaming: streaming})
	return func(ctx context.Context, messages []*schema.Message) (*schema.Message, error) {
		return last(runner.Run(ctx, messages))
	}
}

// last returns the last message of an agent of adk.
func last(events *adk.AsyncIterator[*adk.AgentEvent]) (m *schema.Message, err error) {
	for {
		event, ok := events.Next()
		switch {
		case !ok && m == nil && err == nil:
			return nil, io.ErrUnexpectedEOF
		case !ok:
			return m, err
		case event.Err != nil:
			err = event.Err
		case event.Output != nil && event.Output.MessageOutput != nil:
			got, bad := event.Output.MessageOutput.GetMessage()
			if m = got; bad != nil {
				err = bad
			}
		}
	}
}

func hook(name string, kind grapnel.Kind, f func(ev *grapnel.Event) (grapnel.Outcome, error)) grapnel.Spec {
	return grapnel.Spec{Name: name, On: []grapnel.Kind{kind}, OnError: grapnel.OnErrorClosed, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) { return f(ev) })}
}

func block(reason string) (grapnel.Outcome, error) {
	return grapnel.Outcome{Decision: grapnel.Block, Reason: reason}, nil
}

func bridge(t *testing.T, opts *host.Options, specs ...grapnel.Spec) *eino.Bridge {
	t.Helper()
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := eino.New(host.New(engine, opts), nil)
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

func raw(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
