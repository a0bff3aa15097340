package genkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/grapnel-dev/grapnel"
	grapnelgenkit "github.com/grapnel-dev/grapnel/bridge/genkit"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestMain(m *testing.M) {
	await.Main(m)
}

// A script is a model that gives prepared messages, one per call, and stores its requests.
type script struct {
	fail error
	mu   sync.Mutex
	says []*ai.Message
	asks []string // requests as JSON
}

func (s *script) answer(ctx context.Context, request *ai.ModelRequest, _ any, callback ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	s.mu.Lock()
	raw, err := json.Marshal(request)
	s.asks = append(s.asks, string(raw))
	if err = errors.Join(err, s.fail); err != nil || len(s.says) == 0 {
		s.mu.Unlock()
		return nil, errors.Join(err, errors.New("the script is over"))
	}
	said := s.says[0].Clone()
	s.says = s.says[1:]
	s.mu.Unlock()
	if callback != nil {
		for piece := range strings.FieldsSeq(said.Text()) {
			if err := callback(ctx, &ai.ModelResponseChunk{Content: []*ai.Part{ai.NewTextPart(piece)}}); err != nil {
				return nil, err
			}
		}
	}
	return &ai.ModelResponse{Message: said, FinishReason: ai.FinishReasonStop, Request: request}, nil
}

// saw returns the request of the i-th model call as JSON.
func (s *script) saw(t *testing.T, i int) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.asks) {
		t.Fatalf("the model was called %d times, want at least %d", len(s.asks), i+1)
	}
	return s.asks[i]
}

func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asks)
}

func says(text string) *ai.Message { return ai.NewModelTextMessage(text) }

func wants(names ...string) *ai.Message {
	m := &ai.Message{Role: ai.RoleModel}
	for _, line := range names {
		m.Content = append(m.Content, ai.NewToolRequestPart(&ai.ToolRequest{Name: "shell", Input: map[string]any{"command": line}}))
	}
	return m
}

// on returns a hook for one kind of event.
func on(kind grapnel.Kind, hook grapnel.Func) grapnel.Spec {
	return grapnel.Spec{Name: string(kind), On: []grapnel.Kind{kind}, Hook: hook}
}

func answers(o grapnel.Outcome) grapnel.Func {
	return func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return o, nil }
}

func sets(field grapnel.Field, value string) grapnel.Func {
	return answers(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{field: json.RawMessage(value)}})
}

type command struct {
	Command string `json:"command"`
}

// setup is a Genkit with a scripted model, a tool and hooks.
type setup struct {
	g     *genkit.Genkit
	hooks *grapnelgenkit.Bridge
	model *script
	shell ai.Tool

	mu  sync.Mutex
	ran []string
}

func newSetup(t *testing.T, opts *host.Options, specs []grapnel.Spec, lines ...*ai.Message) *setup {
	t.Helper()
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &setup{
		g:     genkit.Init(ctx, genkit.WithDefaultModel("test/scripted")),
		hooks: grapnelgenkit.New(host.New(engine, opts), nil),
		model: &script{says: lines},
	}
	t.Cleanup(func() {
		s.hooks.Close(ctx)
		stop()
	})
	genkit.DefineModelAction(s.g, "test/scripted", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true, SystemRole: true, ToolChoice: true}}, s.model.answer)
	s.shell = genkit.DefineTool(s.g, "shell", "Runs a command.", func(_ *ai.ToolContext, in command) (map[string]any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ran = append(s.ran, in.Command)
		if in.Command == "fail" {
			return nil, errors.New("exit status 1")
		}
		return map[string]any{"stdout": "ran " + in.Command}, nil
	})
	return s
}

func (s *setup) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ran)
}

// generate runs a turn with hooks.
func (s *setup) generate(ctx context.Context, prompt string, opts ...ai.GenerateOption) (*ai.ModelResponse, error) {
	opts = append(opts, ai.WithSystem("Be brief."), ai.WithPrompt(prompt), ai.WithTools(s.shell), ai.WithUse(s.hooks))
	return genkit.Generate(ctx, s.g, opts...)
}

func (s *setup) say(t *testing.T, prompt string) string {
	t.Helper()
	response, err := s.generate(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	return response.Text()
}
