package adk

import (
	"context"
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// The plugin keeps a limited number of sessions. It ends the least recently used one that has
// no active run, and resumes it when it is used again.
func TestMaxSessions(t *testing.T) {
	t.Parallel()
	var heard []string
	engine, err := grapnel.New([]grapnel.Spec{{Name: "heard", On: []grapnel.Kind{grapnel.SessionStart, grapnel.SessionEnd}, Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
		heard = append(heard, fmt.Sprint(ev.Kind, " ", ev.Session.ID, " ", ev.Cause))
	})}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := newBridge(host.New(engine, nil), nil)
	run := func(i int, resumed bool) *run {
		return b.at(t.Context(), fmt.Sprint("run", i, resumed), key{session: fmt.Sprint(i)}, resumed)
	}
	busy := run(0, false)
	for i := 1; i < maxSessions; i++ {
		run(i, false).forget()
	}
	heard = nil
	run(maxSessions, false).forget()
	run(1, true).forget()
	busy.forget()
	if got, want := fmt.Sprint(heard), "[session.end 1 idle session.start 10000 startup session.end 2 idle session.start 1 resume]"; got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
	if len(b.runs) != 0 || len(b.sessions) != maxSessions {
		t.Errorf("%d runs and %d sessions are kept, want 0 and %d", len(b.runs), len(b.sessions), maxSessions)
	}
}

// A run that never ends is forgotten when its context ends.
func TestRunForgotten(t *testing.T) {
	t.Parallel()
	b := newBridge(host.New(nil, nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	r := b.at(ctx, "run", key{session: "1"}, false)
	cancel()
	forgotten := make(chan struct{})
	context.AfterFunc(ctx, func() {
		r.forget() // waits for the other call
		close(forgotten)
	})
	<-forgotten
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.runs) != 0 || b.sessions[key{session: "1"}].runs != 0 {
		t.Error("the run is kept")
	}
}
