package adk_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/adk/v2/agent"

	"github.com/grapnel-dev/grapnel"
)

// Regression: a guard does not start if the context is canceled while another hook runs. The
// tool or the model ran without the guard's verdict.
func TestCanceledWhileHooksRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.ToolBefore, grapnel.ModelBefore, grapnel.PromptBefore, grapnel.AgentBefore} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSetup(t, nil, []grapnel.Spec{on(kind, func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			cancel()
			return grapnel.Outcome{}, nil
		})}, wants("shell", map[string]any{"command": "ls"}), says("done"))
		_, err := s.turn(ctx, "s1", "go", agent.RunConfig{}, nil)
		if kind != grapnel.ToolBefore && !errors.Is(err, context.Canceled) { // ADK reports a failed tool to the model
			t.Errorf("%s: %v, want %v", kind, err, context.Canceled)
		}
		if asked := s.model.calls(); len(s.shell.commands()) > 0 || kind != grapnel.ToolBefore && asked > 0 {
			t.Errorf("%s: the tool ran %q, and the model was called %d times", kind, s.shell.commands(), asked)
		}
	}
}
