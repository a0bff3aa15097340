package adk_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

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
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestMain(m *testing.M) { await.Main(m) }

// A script is a model that gives prepared contents, one per call, and stores its requests.
type script struct {
	fail error
	mu   sync.Mutex
	says []*genai.Content
	asks []*model.LLMRequest
}

func (s *script) Name() string { return "scripted" }

func (s *script) GenerateContent(_ context.Context, request *model.LLMRequest, stream bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		s.mu.Lock()
		s.asks = append(s.asks, request)
		if s.fail != nil || len(s.says) == 0 {
			s.mu.Unlock()
			yield(nil, errors.Join(s.fail, errors.New("the script is over")))
			return
		}
		said := s.says[0]
		s.says = s.says[1:]
		s.mu.Unlock()
		if stream && said.Parts[0].Text != "" {
			for piece := range strings.FieldsSeq(said.Parts[0].Text) {
				if !yield(&model.LLMResponse{Content: genai.NewContentFromText(piece, genai.RoleModel), Partial: true}, nil) {
					return
				}
			}
		}
		yield(&model.LLMResponse{Content: said, TurnComplete: true}, nil)
	}
}

// saw returns the request of the i-th model call as JSON.
func (s *script) saw(t *testing.T, i int) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= len(s.asks) {
		t.Fatalf("the model was called %d times, want at least %d", len(s.asks), i+1)
	}
	raw, err := json.Marshal(s.asks[i])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asks)
}

func says(text string) *genai.Content { return genai.NewContentFromText(text, genai.RoleModel) }

func wants(name string, args map[string]any) *genai.Content {
	return genai.NewContentFromFunctionCall(name, args, genai.RoleModel)
}

// A shell is a tool that stores the commands that it was called with.
type shell struct {
	mu  sync.Mutex
	ran []string
}

type command struct {
	Command string `json:"command"`
}

func (s *shell) tool(t *testing.T) tool.Tool {
	t.Helper()
	shell, err := functiontool.New(functiontool.Config{Name: "shell", Description: "Runs a command."},
		func(_ agent.Context, in command) (map[string]any, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ran = append(s.ran, in.Command)
			if in.Command == "fail" {
				return nil, errors.New("exit status 1")
			}
			return map[string]any{"stdout": "ran " + in.Command}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return shell
}

func (s *shell) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ran)
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

// setup is a runner with the plugin and its environment.
type setup struct {
	*runner.Runner
	plugin   *plugin.Plugin
	sessions session.Service
	model    *script
	shell    *shell
}

func newSetup(t *testing.T, opts *host.Options, specs []grapnel.Spec, lines ...*genai.Content) *setup {
	t.Helper()
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{model: &script{says: lines}, shell: &shell{}}
	root, err := llmagent.New(llmagent.Config{Name: "root", Model: s.model, Instruction: "Be brief.", Tools: []tool.Tool{s.shell.tool(t)}})
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, host.New(engine, opts), root)
	return s
}

func (s *setup) run(t *testing.T, h *host.Host, root agent.Agent) {
	t.Helper()
	s.plugin, s.sessions = adk.New(h, nil), session.InMemoryService()
	var err error
	s.Runner, err = runner.New(runner.Config{
		AppName: "test", Agent: root, SessionService: s.sessions, AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{s.plugin}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.plugin.Close(); err != nil {
			t.Error(err)
		}
	})
}

// say runs a turn and returns the last text that the user sees.
func (s *setup) say(t *testing.T, prompt string) string {
	t.Helper()
	answer, err := s.turn(t.Context(), "s1", prompt, agent.RunConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (s *setup) turn(ctx context.Context, id, prompt string, config agent.RunConfig, look func(*session.Event)) (answer string, err error) {
	for ev, err := range s.Run(ctx, "user", id, genai.NewContentFromText(prompt, genai.RoleUser), config) {
		if err != nil {
			return answer, err
		}
		if look != nil {
			look(ev)
		}
		if ev.Content == nil || ev.Partial {
			continue
		}
		for _, p := range ev.Content.Parts {
			if p.Text != "" && !p.Thought {
				answer = p.Text
			}
		}
	}
	return answer, nil
}

// kept returns the session in ADK's store as JSON.
func (s *setup) kept(t *testing.T) string {
	t.Helper()
	got, err := s.sessions.Get(t.Context(), &session.GetRequest{AppName: "test", UserID: "user", SessionID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(slices.Collect(got.Session.Events().All()))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
