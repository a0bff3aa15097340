package grapnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// inBubble runs a test with fake time, which advances when all goroutines wait. Afterwards it
// lets abandoned hooks end.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t)
		time.Sleep(2 * time.Hour)
	})
}

// sleeps returns a hook that waits without regard to its context and then answers.
func sleeps(d time.Duration, answer grapnel.Hook) grapnel.Hook {
	return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		time.Sleep(d)
		return answer.Handle(ctx, ev)
	})
}

// obeys returns a hook that waits until its context is done and returns the context's error.
func obeys() grapnel.Hook {
	return grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
		<-ctx.Done()
		return grapnel.Outcome{}, ctx.Err()
	})
}

type graceful struct {
	grapnel.Hook
	grace time.Duration
}

func (g graceful) Grace() time.Duration { return g.grace }

func within(limit time.Duration, s grapnel.Spec) grapnel.Spec {
	s.Timeout = limit
	return s
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec  grapnel.Spec
		want  grapnel.Decision
		err   string
		after time.Duration
	}{
		"in time":         {step("h", sleeps(time.Second, decides(grapnel.Ask, ""))), grapnel.Ask, "", time.Second},
		"abandoned":       {step("h", sleeps(time.Hour, returns(grapnel.Outcome{}))), grapnel.Block, "took longer than its timeout of 2s", 2 * time.Second},
		"abandoned, open": {open(step("h", sleeps(time.Hour, decides(grapnel.Block, "")))), grapnel.None, "took longer than its timeout of 2s", 2 * time.Second},
		"abandoned rule":  {rule("h", sleeps(time.Hour, returns(grapnel.Outcome{}))), grapnel.Block, "took longer than its timeout of 2s", 2 * time.Second},
		"obeys":           {rule("h", obeys()), grapnel.Block, "took longer than its timeout of 2s", 2 * time.Second},
		"grace used": {
			open(step("h", graceful{sleeps(3*time.Second, returns(grapnel.Outcome{})), 5 * time.Second})), grapnel.None,
			"took longer than its timeout of 2s", 3 * time.Second,
		},
		"grace used up": {
			open(step("h", graceful{sleeps(time.Hour, decides(grapnel.Block, "")), 5 * time.Second})), grapnel.None,
			"took longer than its timeout of 2s", 7 * time.Second,
		},
		"block in its grace": {
			step("h", graceful{sleeps(3*time.Second, decides(grapnel.Block, "no")), 5 * time.Second}), grapnel.Block,
			"took longer than its timeout of 2s", 3 * time.Second,
		},
		"allow in its grace": {
			open(step("h", graceful{sleeps(3*time.Second, decides(grapnel.Allow, "")), 5 * time.Second})), grapnel.None,
			"took longer than its timeout of 2s", 3 * time.Second,
		},
		"error in its grace": {
			open(step("h", graceful{sleeps(3*time.Second, fails(errors.New("killed"))), 5 * time.Second})), grapnel.None,
			"took longer than its timeout of 2s: killed", 3 * time.Second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				begun := time.Now()
				v, rec := fire(t, toolEvent("x"), within(2*time.Second, tt.spec))
				if took := time.Since(begun); took != tt.after {
					t.Errorf("Fire took %v, want %v", took, tt.after)
				}
				r := run(t, rec, "h")
				if v.Decision != tt.want || r.Error != tt.err {
					t.Errorf("decision %v, error %q, want %v, %q", v.Decision, r.Error, tt.want, tt.err)
				}
				if tt.err != "" && r.Cause != grapnel.CauseTimeout {
					t.Errorf("cause %q, want timeout", r.Cause)
				}
				if want := float64(tt.after.Milliseconds()); r.MS != want || rec.MS != want {
					t.Errorf("the Record says %v and %v ms, want %v", r.MS, rec.MS, want)
				}
			})
		})
	}
}

// TestNoTimeoutIsNeverAbandoned checks that a hook without a timeout runs inline and Fire waits
// for it.
func TestNoTimeoutIsNeverAbandoned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v, _ := fire(t, toolEvent("x"), step("h", sleeps(time.Hour, decides(grapnel.Block, "no"))))
		if v.Decision != grapnel.Block {
			t.Errorf("decision %v, want block", v.Decision)
		}
	})
}

// TestTimeoutsOfOneStepRunTogether checks that timeouts and grace periods of the hooks in one
// step run in parallel.
func TestTimeoutsOfOneStepRunTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var specs []grapnel.Spec
		for _, name := range []string{"a", "b", "c"} {
			specs = append(specs, within(2*time.Second, step(name, graceful{sleeps(time.Hour, returns(grapnel.Outcome{})), 3 * time.Second})))
		}
		begun := time.Now()
		_, rec := fire(t, toolEvent("x"), specs...)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("Fire took %v, want 5s", took)
		}
		for _, r := range rec.Hooks {
			if r.MS != 5000 || r.Cause != grapnel.CauseTimeout {
				t.Errorf("run %+v, want a timeout after 5s", r)
			}
		}
	})
}

// TestTimeoutDecidesWhatRunsTogether checks the promise of Spec.Timeout: steps of equal priority with
// a Timeout run at the same time, and steps without one run one after the other.
func TestTimeoutDecidesWhatRunsTogether(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Minute: time.Second} {
		inBubble(t, func(t *testing.T) {
			var specs []grapnel.Spec
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				specs = append(specs, within(limit, step(name, sleeps(time.Second, returns(grapnel.Outcome{})))))
			}
			begun := time.Now()
			fire(t, toolEvent("x"), specs...)
			if took := time.Since(begun); took != want {
				t.Errorf("five hooks of 1s with the timeout %v took %v, want %v", limit, took, want)
			}
		})
	}
}

// TestChangeThatMeetsAChangeCostsOneMoreCall checks that hooks of equal priority take as long as
// the slowest of them, and that each change of an event that an earlier hook has changed costs one
// more call.
func TestChangeThatMeetsAChangeCostsOneMoreCall(t *testing.T) {
	t.Parallel()
	for changes, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 3 * time.Second} {
		inBubble(t, func(t *testing.T) {
			var calls atomic.Int32
			var specs []grapnel.Spec
			for i := range 5 {
				var out grapnel.Outcome
				if i < changes {
					out.Patch = map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(fmt.Sprintf(`{"added_%d":true}`, i))}
				}
				specs = append(specs, within(time.Minute, step(fmt.Sprint("h", i), grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
					calls.Add(1)
					time.Sleep(time.Second)
					return out, nil
				}))))
			}
			begun := time.Now()
			v, _ := fire(t, toolEvent("x"), specs...)
			if took, again := time.Since(begun), max(0, changes-1); took != want || int(calls.Load()) != 5+again {
				t.Errorf("%d of five hooks of 1s change the event: %v and %d calls, want %v and %d", changes, took, calls.Load(), want, 5+again)
			}
			if n := strings.Count(string(v.Event.Tool.Input), "added_"); n != changes {
				t.Errorf("input %s, want %d changes", v.Event.Tool.Input, changes)
			}
		})
	}
}

// TestSlowHookDelaysNoOther checks that a hook that answered in time is not late because
// another hook of its step is slow.
func TestSlowHookDelaysNoOther(t *testing.T) {
	t.Parallel()
	for range 20 { // select chooses randomly between two ready channels
		inBubble(t, func(t *testing.T) {
			v, rec := fire(t, toolEvent("x"),
				within(2*time.Second, step("quick", sleeps(time.Second, decides(grapnel.Allow, "")))),
				step("inline", sleeps(time.Hour, returns(grapnel.Outcome{}))))
			if r := run(t, rec, "quick"); r.Error != "" || r.MS != 1000 || v.Decision != grapnel.Allow {
				t.Errorf("decision %v, run %+v, want its answer after 1s", v.Decision, r)
			}
		})
	}
}

// TestCauseOfTheCaller checks that the Record distinguishes a slow hook from an agent that
// disconnected.
func TestCauseOfTheCaller(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		gone := errors.New("the agent went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		var k keeper
		engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}},
			within(time.Minute, step("abandoned", sleeps(time.Hour, returns(grapnel.Outcome{})))),
			within(time.Minute, step("obeys", obeys())))
		begun := time.Now()
		engine.Fire(ctx, toolEvent("x"))
		if took := time.Since(begun); took != time.Second {
			t.Errorf("Fire took %v, want 1s", took)
		}
		for _, r := range k.rec.Hooks {
			if r.Error != gone.Error() || r.Cause != grapnel.CauseError {
				t.Errorf("run %+v, want %q", r, gone)
			}
		}
	})
}

// TestBudget checks that no step starts after the time for all steps is used up.
func TestBudget(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("the budget of 3s is spent"))
		defer cancel()
		var k keeper
		last := scoped("last", grapnel.ScopeManaged, 3, returns(grapnel.Outcome{}))
		engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}},
			open(within(2*time.Second, scoped("first", grapnel.ScopeUser, 1, sleeps(time.Hour, returns(grapnel.Outcome{}))))),
			open(within(2*time.Second, scoped("second", grapnel.ScopeUser, 2, sleeps(time.Hour, returns(grapnel.Outcome{}))))), last)
		begun := time.Now()
		v := engine.Fire(ctx, toolEvent("x"))
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("Fire took %v, want 3s", took)
		}
		var got []string
		for _, r := range k.rec.Hooks {
			got = append(got, r.Name+": "+r.Error)
		}
		want := []string{
			"first: took longer than its timeout of 2s", "second: the budget of 3s is spent", "last: not started: the budget of 3s is spent",
		}
		if !slices.Equal(got, want) || v.Decision != grapnel.Block {
			t.Errorf("decision %v, runs %q, want a block by the managed step and %q", v.Decision, got, want)
		}
	})
}

// TestAbandonedAnswerIsNotSeen checks that a late answer of an abandoned hook is discarded.
func TestAbandonedAnswerIsNotSeen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		v, rec := fire(t, toolEvent("x"), within(time.Second, step("h", sleeps(2*time.Second, returns(setCommand("late"))))))
		time.Sleep(time.Minute)
		if command(t, v) != "x" || v.Changes != nil || len(rec.Hooks) != 1 || rec.Hooks[0].Changed != nil {
			t.Errorf("Verdict %+v, Record %+v", v, rec)
		}
	})
}

func TestCloseWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		var k keeper
		var d diary
		late := func(name string, wait time.Duration) grapnel.Spec {
			return phase(grapnel.PhaseObserve, name, sleeps(wait, grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
				if ctx.Err() == nil {
					d.write(name)
				}
				return grapnel.Outcome{}, nil
			})))
		}
		panicking := phase(grapnel.PhaseObserve, "panics", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { panic("boom") }))
		exiting := phase(grapnel.PhaseObserve, "exits", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			runtime.Goexit()
			return grapnel.Outcome{}, nil
		}))
		engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}},
			late("short", time.Second), late("long", time.Minute), panicking, exiting)

		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		engine.Fire(ctx, toolEvent("x"))
		cancel() // background work continues after the caller's context ends
		if took := time.Since(begun); took != 0 {
			t.Errorf("Fire waited %v for observing hooks", took)
		}

		hasty, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("in a hurry"))
		defer cancel()
		if err := engine.Close(hasty); err == nil || err.Error() != "in a hurry" {
			t.Errorf("Close = %v, want what ended its context", err)
		}
		if err := engine.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if took := time.Since(begun); took != time.Minute || len(d.read()) != 2 {
			t.Errorf("Close returned after %v, when %q had run", took, d.read())
		}

		v := engine.Fire(t.Context(), toolEvent("y"))
		want := "observing hooks were not started: the engine is closed"
		if k.rec.Error != want || !slices.Equal(v.Messages, []string{"grapnel: " + want}) {
			t.Errorf("after Close: Record.Error %q, messages %q, want %q", k.rec.Error, v.Messages, want)
		}
	})
}

// TestObservingHooksAreBounded checks that an observing hook's time limit is its timeout, or five
// minutes without one.
func TestObservingHooksAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ timeout, want time.Duration }{{0, 5 * time.Minute}, {time.Second, time.Second}} {
		inBubble(t, func(t *testing.T) {
			cause := make(chan error, 1)
			engine := newEngine(t, nil, within(tt.timeout, phase(grapnel.PhaseObserve, "h", grapnel.Func(func(ctx context.Context, _ *grapnel.Event) (grapnel.Outcome, error) {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				return grapnel.Outcome{}, nil
			}))))
			begun := time.Now()
			engine.Fire(t.Context(), toolEvent("x"))
			if err := engine.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took != tt.want {
				t.Errorf("it ran for %v, want %v", took, tt.want)
			}
			if err := <-cause; !errors.Is(err, grapnel.ErrTimeout) || !strings.HasSuffix(err.Error(), tt.want.String()) {
				t.Errorf("cause %v, want its timeout of %v", err, tt.want)
			}
		})
	}
}
