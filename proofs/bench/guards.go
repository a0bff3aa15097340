package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// The group of slow guards: hooks of one priority, each of which waits.
const (
	slowGuards = 5
	guardWait  = 200 * time.Millisecond
)

// setupGuards measures hooks of equal priority that wait, in multiples of one such hook. Without
// changes they cost as much as one of them. If two of them change the event, the second one is
// called again with the first change, so they cost as much as two.
func setupGuards(ctx context.Context, s *setup) error {
	one, err := newGuards(1, 0)
	if err != nil {
		return err
	}
	same, err := newGuards(slowGuards, 0)
	if err != nil {
		return err
	}
	changed, err := newGuards(slowGuards, 2)
	if err != nil {
		return err
	}
	single := one.fired(ctx, 1)
	s.paths[0].subject = same.fired(ctx, slowGuards)
	s.paths[1].subject = changed.fired(ctx, slowGuards+1)
	for i, waits := range []int{1, 2} {
		s.paths[i].reference, s.paths[i].floor = single, waiting(waits)
	}
	calls := newSeries("calls", func() (float64, error) {
		n, _, err := changed.fire(ctx)
		return float64(n), err
	})
	s.paths[2].subject = calls
	s.paths[2].floor = newSeries("calls of five guards", func() (float64, error) { return slowGuards, nil })
	return nil
}

// guards is an engine with hooks that wait. The first of them change the event.
type guards struct {
	engine  *grapnel.Engine
	changes int
	calls   atomic.Int64
}

func newGuards(n, changes int) (*guards, error) {
	g := &guards{changes: changes}
	specs := make([]grapnel.Spec, n)
	for i := range specs {
		var out grapnel.Outcome
		if i < changes {
			out.Patch = map[grapnel.Field]json.RawMessage{grapnel.FieldInput: fmt.Appendf(nil, `{"changed_%d":true}`, i)}
		}
		specs[i] = grapnel.Spec{
			Name: fmt.Sprintf("guard-%d", i), On: []grapnel.Kind{grapnel.ToolBefore}, Timeout: time.Minute,
			Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				g.calls.Add(1)
				time.Sleep(guardWait)
				return out, nil
			}),
		}
	}
	var err error
	g.engine, err = grapnel.New(specs, nil)
	return g, err
}

// fire fires one event and checks that it has all changes.
func (g *guards) fire(ctx context.Context) (calls int64, took time.Duration, err error) {
	before := g.calls.Load()
	begin := time.Now()
	v := g.engine.Fire(ctx, shellEvent(plainCommand))
	took = time.Since(begin)
	var input map[string]any
	if err := json.Unmarshal(v.Event.Tool.Input, &input); err != nil {
		return 0, 0, err
	}
	if len(input) != 1+g.changes || v.Decision != grapnel.None {
		return 0, 0, fmt.Errorf("decision %v, input %s, want %d changes", v.Decision, v.Event.Tool.Input, g.changes)
	}
	return g.calls.Load() - before, took, nil
}

// fired measures one event, in milliseconds.
func (g *guards) fired(ctx context.Context, want int64) *series {
	return newSeries("guards", func() (float64, error) {
		calls, took, err := g.fire(ctx)
		if err == nil && calls != want {
			err = fmt.Errorf("%d calls, want %d", calls, want)
		}
		return float64(took.Nanoseconds()) / 1e6, err
	})
}

// waiting is the unavoidable work: to wait n times, one after the other.
func waiting(n int) *series {
	return newSeries("wait", func() (float64, error) {
		begin := time.Now()
		for range n {
			time.Sleep(guardWait)
		}
		return float64(time.Since(begin).Nanoseconds()) / 1e6, nil
	})
}
