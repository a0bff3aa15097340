package grapnel

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// kept is a Marker that records the Verdicts it got.
type kept struct {
	Func
	decisions []Decision
	err       error
}

func (k *kept) Mark(_ context.Context, _ *Event, v *Verdict) error {
	k.decisions = append(k.decisions, v.Decision)
	return k.err
}

// TestMarkers checks that Markers get the final Verdict before Fire returns, and that their
// failures are treated like failures of a guard.
func TestMarkers(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk full")
	block := Spec{Name: "guard", Phase: PhaseRule, Hook: Guard(func(*Event) string { return "no" })}
	for name, tt := range map[string]struct {
		kind      Kind
		specs     []Spec
		err       error
		onError   OnError
		observe   bool
		want      Decision
		decisions []Decision // calls of a Marker that does not fail
	}{
		"nobody objects":         {kind: ToolBefore, decisions: []Decision{None}},
		"it was blocked":         {kind: ToolBefore, specs: []Spec{block}, want: Block, decisions: []Decision{Block}},
		"it fails":               {kind: ToolBefore, err: broken, decisions: []Decision{None}},
		"it fails closed":        {kind: ToolBefore, err: broken, onError: OnErrorClosed, want: Block, decisions: []Decision{None, Block}},
		"it fails and asks":      {kind: ToolBefore, err: broken, onError: OnErrorAsk, want: Ask, decisions: []Decision{None, Ask}},
		"it fails and observes":  {kind: ToolBefore, err: broken, onError: OnErrorClosed, observe: true, decisions: []Decision{None}},
		"it fails after a stop":  {kind: AgentAfter, err: broken, onError: OnErrorClosed, decisions: []Decision{None}},
		"it fails after the end": {kind: SessionEnd, err: broken, onError: OnErrorClosed, decisions: []Decision{None}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, bad := &kept{}, &kept{err: tt.err}
			var rec Record
			specs := append(tt.specs,
				Spec{Name: "good", Phase: PhaseObserve, Hook: good},
				Spec{Name: "bad", Phase: PhaseObserve, Hook: bad, OnError: tt.onError, Observe: tt.observe})
			e, err := New(specs, &Options{Observers: []Observer{ObserverFunc(func(_ context.Context, r *Record) { rec = *r })}})
			if err != nil {
				t.Fatal(err)
			}
			v := e.Fire(context.Background(), &Event{Kind: tt.kind, Tool: &Tool{Name: "x"}})
			if v.Decision != tt.want || rec.Decision != tt.want {
				t.Errorf("decision %v, recorded %v, want %v: %+v", v.Decision, rec.Decision, tt.want, v)
			}
			if len(good.decisions) != len(tt.decisions) || good.decisions[0] != tt.decisions[0] || good.decisions[len(good.decisions)-1] != tt.decisions[len(tt.decisions)-1] {
				t.Errorf("it was told %v, want %v", good.decisions, tt.decisions)
			}
			recorded := slices.ContainsFunc(rec.Hooks, func(run HookRun) bool { return run.Name == "bad" && run.Error != "" })
			if recorded != (tt.err != nil) || slices.ContainsFunc(rec.Hooks, func(run HookRun) bool { return run.Name == "good" }) {
				t.Errorf("recorded is %+v, want only the error %v", rec.Hooks, tt.err)
			}
			if n := len(e.Plan(&Event{Kind: tt.kind, Tool: &Tool{Name: "x"}}).Entries); n != len(specs) {
				t.Errorf("the plan has %d hooks, want %d", n, len(specs))
			}
		})
	}
}

// TestMarkersOfUnreadEvents checks that Markers are not called for unreadable events.
func TestMarkersOfUnreadEvents(t *testing.T) {
	t.Parallel()
	k := &kept{}
	e, err := New([]Spec{{Name: "k", Phase: PhaseObserve, Hook: k, OnError: OnErrorClosed}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Fire(context.Background(), &Event{Kind: ToolBefore, Terms: &Terms{Unread: errors.New("torn")}}); v.Decision != Block || len(k.decisions) != 0 {
		t.Errorf("Fire: %v, and told is %v", v.Decision, k.decisions)
	}
	if _, decides := e.Listens(ToolBefore); !decides {
		t.Error("Listens: what fails closed can block")
	}
}
