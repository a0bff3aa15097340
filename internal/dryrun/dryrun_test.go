package dryrun_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Each kind of hook comes to the answer as what it is. A program cannot be refused when a policy is
// loaded, so its error is the error of each event.
func TestRunners(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var calls []string
	answer := func(c dryrun.Call) (grapnel.Hook, error) {
		kind := "webhook"
		switch {
		case c.Program != nil:
			kind = "program"
		case c.Server != nil:
			kind = "server"
		case c.Target != nil:
			kind = "target"
		}
		if c.Observes() {
			kind += ", observes"
		}
		calls = append(calls, c.Name+": "+kind)
		if c.Name == "broken" {
			return nil, broken
		}
		return nil, nil
	}
	run := dryrun.Runners(answer)
	ev := &grapnel.Event{Kind: grapnel.ToolBefore}
	if out, err := run.Command(policyfile.Command{Name: "a"}).Handle(t.Context(), ev); err != nil || out.Decision != grapnel.None {
		t.Errorf("without an answer: %v, %v", out, err)
	}
	if _, err := run.Command(policyfile.Command{Name: "broken"}).Handle(t.Context(), ev); !errors.Is(err, broken) {
		t.Errorf("a broken program: %v", err)
	}
	if _, err := run.HTTP(policyfile.HTTP{Name: "broken"}); !errors.Is(err, broken) {
		t.Errorf("a broken server: %v", err)
	}
	_, _ = run.Notify(policyfile.HTTP{Name: "n"})
	_, _ = run.Webhook(policyfile.Webhook{Name: "w"})
	want := []string{"a: program", "broken: program", "broken: server", "n: target, observes", "w: webhook, observes"}
	if !slices.Equal(calls, want) {
		t.Errorf("got %q, want %q", calls, want)
	}
}
