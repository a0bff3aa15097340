package spool_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A pending hook has the same ID, whichever process queues it, and another ID for another
// firing, hook or decision.
func TestPendingID(t *testing.T) {
	t.Parallel()
	hook := func(source, name string) *grapnel.Spec {
		return &grapnel.Spec{Name: name, Source: grapnel.Source{Name: source}}
	}
	event := func(id string, decision grapnel.Decision) *grapnel.Event {
		return (&grapnel.Event{ID: id}).WithVerdict(&grapnel.Verdict{Decision: decision})
	}
	first := spool.NewPending(t.Context(), hook("a.yaml", "tell"), event("1", grapnel.Block)).ID
	if again := spool.NewPending(t.Context(), hook("a.yaml", "tell"), event("1", grapnel.Block)).ID; again != first || len(first) != 28 {
		t.Errorf("the IDs are %q and %q", first, again)
	}
	for name, other := range map[string]spool.Pending{
		"firing":   spool.NewPending(t.Context(), hook("a.yaml", "tell"), event("2", grapnel.Block)),
		"hook":     spool.NewPending(t.Context(), hook("a.yaml", "tell-too"), event("1", grapnel.Block)),
		"source":   spool.NewPending(t.Context(), hook("b.yaml", "tell"), event("1", grapnel.Block)),
		"decision": spool.NewPending(t.Context(), hook("a.yaml", "tell"), event("1", grapnel.None)),
	} {
		if other.ID == first {
			t.Errorf("another %s has the same ID", name)
		}
	}
	unnamed := spool.NewPending(t.Context(), hook("a.yaml", "tell"), event("", grapnel.Block)).ID
	if again := spool.NewPending(t.Context(), hook("a.yaml", "tell"), event("", grapnel.Block)).ID; again == unnamed {
		t.Errorf("two firings without an ID have the same: %q", again)
	}
}
