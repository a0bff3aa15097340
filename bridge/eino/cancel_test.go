package eino_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/bridge/eino"
)

// Regression: a guard does not start if the context is canceled while another hook runs. The
// tool or the model ran without the guard's verdict.
func TestCanceledWhileHooksRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.ToolBefore, grapnel.ModelBefore} {
		each(t, func(t *testing.T, run func(*eino.Bridge, model.ToolCallingChatModel, []tool.BaseTool) agent) {
			ctx, cancel := context.WithCancel(t.Context())
			b := bridge(t, nil, hook("cancels", kind, func(*grapnel.Event) (grapnel.Outcome, error) {
				cancel()
				return grapnel.Outcome{}, nil
			}))
			m, w := all(`{"text":"dig"}`, "as you like"), &workshop{}
			if _, err := run(b, m, w.tools(t))(ctx, prompt); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want %v", kind, err, context.Canceled)
			}
			if asked := m.times(); len(w.done()) > 0 || kind == grapnel.ModelBefore && asked > 0 {
				t.Errorf("%s: the tools ran with %q, and the model was called %d times", kind, w.done(), asked)
			}
		})
	}
}
