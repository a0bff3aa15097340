package grapnel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

var stubborn = grapnel.Spec{Name: "stubborn", On: []grapnel.Kind{grapnel.AgentAfter, grapnel.SubagentAfter}, Hook: grapnel.Func(
	func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "go on"}, nil
	})}

func stop(kind grapnel.Kind, session string, active bool) *grapnel.Event {
	return &grapnel.Event{Kind: kind, Session: grapnel.Session{ID: session}, Stop: &grapnel.Stop{Active: active}}
}

// TestStopsAreCapped checks that a hook that always blocks the stop does not keep an agent
// running forever.
func TestStopsAreCapped(t *testing.T) {
	t.Parallel()
	for _, kind := range []grapnel.Kind{grapnel.AgentAfter, grapnel.SubagentAfter} {
		e, err := grapnel.New([]grapnel.Spec{stubborn}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 3 { // each time the agent wants to stop by itself, the count restarts
			for i := range grapnel.MaxStops {
				if v := e.Fire(t.Context(), stop(kind, "s", i > 0)); v.Decision != grapnel.Block {
					t.Fatalf("%s, round %d: block %d is %v, want block", kind, round, i+1, v.Decision)
				}
			}
			v := e.Fire(t.Context(), stop(kind, "s", true))
			if v.Decision != grapnel.None || len(v.Reasons) > 0 || !strings.Contains(strings.Join(v.Messages, ""), "may stop now: go on") ||
				!strings.Contains(strings.Join(v.Unsupported, ""), "block: not sent") {
				t.Errorf("%s: the block after %d is %v, %q, want that the agent may stop, and that the person is told", kind, grapnel.MaxStops, v.Decision, v.Messages)
			}
			if v := e.Fire(t.Context(), stop(kind, "other", false)); v.Decision != grapnel.Block {
				t.Errorf("%s: another session is %v, want block", kind, v.Decision)
			}
		}
	}
}

func failingStops(string, bool) (int, error) { return 0, errors.New("read-only") }

// TestStopsWithoutACount checks that an agent without a working counter is kept from stopping
// once and may then stop.
func TestStopsWithoutACount(t *testing.T) {
	t.Parallel()
	e, err := grapnel.New([]grapnel.Spec{stubborn}, &grapnel.Options{Stops: failingStops})
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Fire(t.Context(), stop(grapnel.AgentAfter, "s", false)); v.Decision != grapnel.Block {
		t.Errorf("the first block is %v", v.Decision)
	}
	if v := e.Fire(t.Context(), stop(grapnel.AgentAfter, "s", true)); v.Decision != grapnel.None || !strings.Contains(strings.Join(v.Messages, ""), "read-only") {
		t.Errorf("the second block is %v, %q, want that the agent may stop", v.Decision, v.Messages)
	}
}
