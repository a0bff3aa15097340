package grapnel_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// TestUnreadReportedOnce checks that the error of an unreadable event is reported once and not once
// per hook.
func TestUnreadReportedOnce(t *testing.T) {
	t.Parallel()
	var specs []grapnel.Spec
	for _, name := range []string{"a", "b", "c"} {
		for _, phase := range []grapnel.Phase{grapnel.PhaseRule, grapnel.PhaseStep} {
			specs = append(specs, grapnel.Spec{
				Name: name + phase.String(), On: []grapnel.Kind{grapnel.ToolBefore}, Phase: phase,
				Hook: returns(grapnel.Outcome{}),
			})
			if phase == grapnel.PhaseStep {
				specs[len(specs)-1].OnError = grapnel.OnErrorOpen
			}
		}
	}
	e, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := unreadable(context.Background(), e, &grapnel.Event{Kind: grapnel.ToolBefore}, errors.New("it is empty"))
	if want := `hook "arule" and 2 more could not answer: it is empty`; v.Decision != grapnel.Block || v.Reason() != want {
		t.Errorf("%v with the reason %q, want a block with %q", v.Decision, v.Reason(), want)
	}
	if want := []string{`grapnel: hook "astep" and 2 more could not answer, treated as no opinion: it is empty`}; !slices.Equal(v.Messages, want) {
		t.Errorf("the person reads %q, want %q", v.Messages, want)
	}
}
