package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

type factual struct{ checked error }

func (f factual) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, nil
}

func (f factual) Check() error { return f.checked }

func (f factual) Grace() time.Duration { return time.Minute }

func (f factual) ReadsID() {}

// Properties that the engine needs stay visible through the wrappers of a hook. A hook under
// `redact:` once got no event ID, so its Webhook-Id was empty.
func TestWrappersKeepFacts(t *testing.T) {
	t.Parallel()
	wrong := errors.New("it cannot work")
	specs := []grapnel.Spec{{Name: "h", Hook: &pinned{Hook: factual{wrong}}}}
	redact.New([]*policyfile.Redact{{Fields: []string{"/token"}}}).Guard(specs, func(*grapnel.Spec) bool { return true })
	hook := specs[0].Hook
	if _, ok := hook.(*redact.Hook); !ok {
		t.Fatalf("the hook is a %T, want it redacted", hook)
	}
	if c, ok := seam.As[seam.Checker](hook); !ok || !errors.Is(c.Check(), wrong) {
		t.Error("its Check is lost")
	}
	if g, ok := seam.As[seam.Graceful](hook); !ok || g.Grace() != time.Minute {
		t.Error("its Grace is lost")
	}
	if _, ok := seam.As[seam.IDReader](hook); !ok {
		t.Error("that it reads the ID is lost")
	}
}
