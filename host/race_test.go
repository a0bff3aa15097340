package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
)

// Ten thousand firings while hooks are added and removed on every side, with timeouts, observers,
// observing hooks, events in the background and sub-agents. Each firing uses a consistent set of
// hooks: all hooks of one generation, which one Update added, or none. Run with -race; nothing
// remains running.
//
// Proves: FL-37
func TestFiringWhileHooksChange(t *testing.T) {
	t.Parallel()
	const workers, firings, together = 8, 10_000, 3

	// Each hook of a generation sets its own field of the answer to its number.
	generation := func(n int) []grapnel.Spec {
		var specs []grapnel.Spec
		for i := range together {
			s := grapnel.Spec{
				Name: fmt.Sprint("member ", i), Source: grapnel.Source{Name: "generation"}, On: []grapnel.Kind{grapnel.ToolBefore, grapnel.ModelBefore},
				Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
					out := grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{}}
					field := grapnel.FieldInput
					if ev.Kind == grapnel.ModelBefore {
						field = grapnel.FieldRequest
					}
					out.Patch[field] = json.RawMessage(fmt.Sprintf(`{"m%d":%d}`, i, n))
					return out, nil
				}),
			}
			if i == 1 && n%50 == 0 {
				s.Timeout = time.Minute // in its own goroutine
			}
			specs = append(specs, s)
		}
		return specs
	}
	// whole reports whether all members of one generation have answered, or none.
	whole := func(raw json.RawMessage) bool {
		var got map[string]int
		if err := json.Unmarshal(raw, &got); err != nil {
			return false
		}
		return len(got) == 0 || len(got) == together && got["m0"] == got["m1"] && got["m1"] == got["m2"]
	}

	var records, late, session atomic.Int64
	count := func(n *atomic.Int64) grapnel.Hook {
		return grapnel.Watch(func(context.Context, *grapnel.Event) { n.Add(1) })
	}
	engine, err := grapnel.New(generation(0), &grapnel.Options{
		Observers: []grapnel.Observer{grapnel.ObserverFunc(func(context.Context, *grapnel.Record) { records.Add(1) })},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Add(grapnel.Spec{Name: "late", On: []grapnel.Kind{grapnel.ToolAfter}, Phase: grapnel.PhaseObserve, Hook: count(&late)}); err != nil {
		t.Fatal(err)
	}
	ofSession, err := grapnel.New([]grapnel.Spec{{Name: "s", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: count(&session)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	flyto, _ := host.FindManners("flyto") // model.after is fired in the background
	h := host.New(engine, &host.Options{Manners: flyto, ShowMessage: func(_ context.Context, message string) { t.Error(message) }})
	ctx, s, _, err := h.Start(grapnel.NewContext(t.Context(), ofSession), grapnel.Session{ID: "s"}, "startup")
	if err != nil {
		t.Fatal(err)
	}

	stop := make(chan struct{})
	var changing, firing sync.WaitGroup
	changing.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			err := engine.Update(func(specs []grapnel.Spec) []grapnel.Spec {
				var kept []grapnel.Spec
				for _, s := range specs {
					if s.Source.Name != "generation" {
						kept = append(kept, s)
					}
				}
				if n%7 == 0 {
					return kept // no hooks for a moment
				}
				return append(kept, generation(n)...)
			})
			err = errors.Join(err, engine.Add(grapnel.Spec{Name: "x", Source: grapnel.Source{Name: "guest"}, Hook: grapnel.Watch(func(context.Context, *grapnel.Event) {})}))
			if removed := engine.Remove(func(s *grapnel.Spec) bool { return s.Source.Name == "guest" }); err != nil || removed != 1 {
				t.Errorf("%v, %d removed, want 1", err, removed)
			}
		}
	})
	changing.Go(func() {
		for on := false; ; on = !on {
			select {
			case <-stop:
				ofSession.Enable(true)
				return
			default:
				ofSession.Enable(on)
				remove := ofSession.AddObserver(grapnel.ObserverFunc(func(context.Context, *grapnel.Record) {}))
				remove()
			}
		}
	})
	call := func(ctx context.Context) error {
		r, err := host.Tool(ctx, host.Call{Name: "x"}, echo)
		if err == nil && !whole(r.Output) {
			err = fmt.Errorf("a call met hooks that do not belong together: %s", r.Output)
		}
		return err
	}
	ask := func(ctx context.Context) error {
		got, err := host.Model(ctx, map[string]int{}, func(_ context.Context, q map[string]int) (map[string]int, error) { return q, nil })
		if raw, _ := json.Marshal(got); err == nil && !whole(raw) {
			err = fmt.Errorf("a question met hooks that do not belong together: %s", raw)
		}
		return err
	}
	const rounds = firings / workers / 8 // of each 8 events: two calls and a question in a sub-agent, and the sub-agent's own two
	for range workers {
		firing.Go(func() {
			for range rounds {
				_, err := host.Subagent(ctx, grapnel.Subagent{ID: "a"}, "task", func(ctx context.Context, _ string) (string, error) {
					host.SessionFromContext(ctx).Update(func(info *grapnel.Session) { info.Mode = "busy" })
					return "", errors.Join(call(ctx), ask(ctx))
				})
				s.Update(func(info *grapnel.Session) { info.Turn += "." })
				if err = errors.Join(err, call(ctx)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	firing.Wait()
	close(stop)
	changing.Wait()
	s.End(ctx, "exit")
	if err := errors.Join(h.Close(ctx), engine.Close(ctx), ofSession.Close(ctx)); err != nil {
		t.Error(err)
	}
	if n, want := records.Load(), int64(workers*rounds*8+3); n != want { // plus session.start, session.end and gateway.stop
		t.Errorf("%d firings, want %d", n, want)
	}
	if n, want := late.Load(), int64(workers*rounds*2); n != want {
		t.Errorf("%d observing hooks ran, want %d: one after each call", n, want)
	}
	if session.Load() == 0 {
		t.Error("the hooks of the session were never met")
	}
	if turn := s.Info().Turn; strings.Count(turn, ".") != workers*rounds {
		t.Errorf("%d updates of the session count, want %d", len(turn), workers*rounds)
	}
}
