// Program agent uses the packages host and bridge/agenthooks as another module does: sessions of a
// small agent run at the same time, with sub-agents, and with the hooks of the Agent Hooks
// Specification.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/agenthooks"
	"github.com/grapnel-dev/grapnel/host"
)

const sessions = 10

func main() {
	ctx := context.Background()
	if err := errors.Join(engine(ctx), specification(ctx)); err != nil {
		log.Fatal(err)
	}
	if err := goleak.Find(); err != nil {
		log.Fatal(err)
	}
}

// engine runs sessions with the hooks of an engine.
func engine(ctx context.Context) error {
	engine, err := grapnel.New([]grapnel.Spec{
		{
			Name: "no-force", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"},
			Hook: grapnel.Guard(func(ev *grapnel.Event) string {
				if strings.Contains(string(ev.Tool.Input), "--force") {
					return "Push a new branch instead."
				}
				return ""
			}),
		},
		{
			Name: "remind", On: []grapnel.Kind{grapnel.SubagentStart}, Timeout: time.Minute,
			Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				return grapnel.Outcome{Context: []string{"Answer in English."}}, nil
			}),
		},
	}, nil)
	if err != nil {
		return err
	}
	h := host.New(engine, &host.Options{
		Agent: grapnel.Agent{Name: "outside"},
		Tools: []host.ToolInfo{{Name: "shell", Class: grapnel.ClassShell}},
	})
	var wg sync.WaitGroup
	errs := make([]error, sessions)
	for i := range errs {
		wg.Go(func() { errs[i] = session(ctx, h, fmt.Sprint("s", i)) })
	}
	wg.Wait()
	return errors.Join(append(errs, h.Close(ctx), engine.Close(ctx))...)
}

// session does the work of one session: a prompt, a model, tools at the same time, a sub-agent.
func session(ctx context.Context, h *host.Host, id string) error {
	ctx, s, _, err := h.Start(ctx, grapnel.Session{ID: id}, "startup")
	if err != nil {
		return err
	}
	defer s.End(ctx, "completed")
	if host.SessionFromContext(ctx) != s {
		return errors.New("the context does not carry the session")
	}
	prompt, err := s.Prompt(ctx, "push it")
	if err != nil {
		return err
	}
	lines, err := host.Model(ctx, prompt, func(context.Context, string) ([]string, error) {
		return []string{"git push --force", "git push"}, nil
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	texts := make([]string, len(lines))
	for i, line := range lines {
		wg.Go(func() { texts[i] = call(ctx, line) })
	}
	wg.Wait()
	if !strings.Contains(texts[0], "Push a new branch instead.") || texts[1] != "pushed" {
		return fmt.Errorf("results %q", texts)
	}
	answer, err := host.Subagent(ctx, grapnel.Subagent{ID: "a1"}, "Find the parser.", func(_ context.Context, prompt string) (string, error) {
		return prompt, nil
	})
	if err != nil || !strings.Contains(answer, "Answer in English.") {
		return fmt.Errorf("sub-agent: %q, %w", answer, err)
	}
	stop, err := s.Stop(ctx, answer, false)
	if err != nil || stop.ContinueWith != "" {
		return fmt.Errorf("stop: %+v, %w", stop, err)
	}
	return nil
}

// call runs a shell line as a tool, and returns the result for the model.
func call(ctx context.Context, line string) string {
	input, err := host.JSON(map[string]string{"command": line})
	if err != nil {
		return err.Error()
	}
	result, err := host.Tool(ctx, host.Call{ID: line, Name: "shell", Input: input}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"pushed"`), nil
	})
	if err != nil {
		return err.Error()
	}
	return result.Text()
}

// specification runs a session with an interceptor of the Agent Hooks Specification.
func specification(ctx context.Context) error {
	var denied int
	hooks, err := agenthooks.New(&agenthooks.Options{
		Interceptors: []agenthooks.Interceptor{{Name: "read-only", Judge: agenthooks.Typed(func(_ context.Context, c *agenthooks.Context) (agenthooks.Verdict, error) {
			if c.Point == "pre_tool_call" {
				return agenthooks.Verdict{Decision: agenthooks.Deny, Reason: "read-only"}, nil
			}
			return agenthooks.Verdict{}, nil
		})}},
		Records: func(_ context.Context, r *agenthooks.Record) {
			if r.Verdict.Decision == agenthooks.Deny {
				denied++
			}
		},
	})
	if err != nil {
		return err
	}
	h := host.New(hooks, &host.Options{Agent: grapnel.Agent{Name: "outside"}, Tools: []host.ToolInfo{{Name: "shell"}}})
	ctx, s, _, err := h.Start(ctx, grapnel.Session{ID: "spec"}, "startup")
	if err != nil {
		return err
	}
	if text := call(ctx, "git push"); !strings.Contains(text, "read-only") || denied != 1 {
		return fmt.Errorf("result %q, %d denied calls, want one", text, denied)
	}
	s.End(ctx, "completed")
	return h.Close(ctx)
}
