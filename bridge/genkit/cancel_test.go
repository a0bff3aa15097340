package genkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// Regression: a guard does not start if the context is canceled while another hook runs. The
// tool or the model ran without the guard's verdict.
func TestCanceledWhileHooksRun(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.ToolBefore, grapnel.ModelBefore, grapnel.PromptBefore} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSetup(t, nil, []grapnel.Spec{on(kind, func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			cancel()
			return grapnel.Outcome{}, nil
		})}, wants("ls"), says("done"))
		if _, err := s.generate(ctx, "go"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", kind, err, context.Canceled)
		}
		if asked := s.model.calls(); len(s.commands()) > 0 || kind != grapnel.ToolBefore && asked > 0 {
			t.Errorf("%s: the tool ran %q, and the model was called %d times", kind, s.commands(), asked)
		}
	}
}
