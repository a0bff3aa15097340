package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// script is a side that costs what the script says, run by run; the last entry
// lasts. It notes its name in log, if there is one.
func script(name string, log *[]string, costs ...float64) *side {
	return newSide(name, func() (float64, error) {
		if log != nil {
			*log = append(*log, name)
		}
		cost := costs[0]
		if len(costs) > 1 {
			costs = costs[1:]
		}
		return cost, nil
	})
}

func TestInterleave(t *testing.T) {
	t.Parallel()
	var log []string
	a, b := script("a", &log, 3, 1, 2), script("b", &log, 5, 6, 7)
	if err := interleave(t.Context(), plan{runs: 3}, a, b, a); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "a", "b", "a", "b"}; !slices.Equal(log, want) {
		t.Errorf("ran %q, want %q", log, want)
	}
	if a.min != 1 || b.min != 5 || a.runs != 3 || b.runs != 3 {
		t.Errorf("minima %g of %d runs and %g of %d, want 1 of 3 and 5 of 3", a.min, a.runs, b.min, b.runs)
	}
}

func TestInterleaveStops(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	ctx, cancel := context.WithCancelCause(t.Context())
	bad := newSide("bad", func() (float64, error) { return 0, broken })
	if err := interleave(ctx, plan{runs: 1}, bad); !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("a side that fails: %v, want it named with its error", err)
	}
	cancel(broken)
	if err := interleave(ctx, plan{runs: 1}, constant("good", 1)); !errors.Is(err, broken) {
		t.Errorf("after the context ended: %v, want its cause", err)
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		subject, reference *side
		ratio              float64
		ok                 bool
		runs               int // of the subject
	}{
		"below budget at once":           {script("s", nil, 3, 4), script("r", nil, 2, 2), 1.5, true, 2},
		"above budget, within tolerance": {script("s", nil, 4.5), script("r", nil, 2), 2.25, true, 2},
		"above at first, then below":     {script("s", nil, 9, 9, 3), script("r", nil, 2), 1.5, true, 4},
		"above for good":                 {script("s", nil, 9), script("r", nil, 2), 4.5, false, 8},
		// The reference, too, keeps its best: a slow first round must not hide a slow subject.
		"reference was disturbed": {script("s", nil, 9), script("r", nil, 3, 3, 2), 4.5, false, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &contest{name: name, subject: test.subject, reference: test.reference, budget: 2, show: milliseconds}
			rows, err := measure(t.Context(), plan{runs: 2, retries: 3}, group{contests: []*contest{c}})
			if err != nil {
				t.Fatal(err)
			}
			if r := rows[0]; r.OK != test.ok || test.subject.runs != test.runs || r.Ratio != test.ratio {
				t.Errorf("row %+v after %d runs, want ratio %g, ok %v, %d runs", r, test.subject.runs, test.ratio, test.ok, test.runs)
			}
		})
	}
}

// Of many rows each is measured a few times, and the worst as often as planned: the first
// that looks worst here was disturbed, and is not.
func TestMeasureScreening(t *testing.T) {
	t.Parallel()
	reference := script("r", nil, 1)
	row := func(name string, costs ...float64) *contest {
		return &contest{name: name, subject: script(name, nil, costs...), reference: reference, budget: 10, show: milliseconds}
	}
	g := group{screening: 2, contests: []*contest{row("fast", 1), row("disturbed", 9, 9, 9, 2), row("slow", 5), row("middle", 4)}}
	rows, err := measure(t.Context(), plan{runs: 6, retries: 3}, g)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		ratio         float64
		runs, worstOf int
		beneath       bool
	}{{1, 2, 0, true}, {2, 6, 0, true}, {5, 6, 4, false}, {4, 2, 0, true}} {
		r, runs := rows[i], g.contests[i].subject.runs
		if r.Ratio != want.ratio || runs != want.runs || r.worstOf != want.worstOf || r.beneath != want.beneath {
			t.Errorf("row %+v after %d runs, want %+v", r, runs, want)
		}
	}
	short := worst(rows)
	if len(short) != 1 || short[0].Name != "slow, the worst of 4" || rows[2].Name != "slow" {
		t.Errorf("the short table is %+v, want the slow row alone", short)
	}
}

func TestMeasureBeside(t *testing.T) {
	t.Parallel()
	reference := script("r", nil, 2)
	c := &contest{name: "row", subject: script("s", nil, 3), reference: reference, budget: 2, show: milliseconds}
	floor := &contest{name: "floor", subject: script("f", nil, 4, 2.5), reference: reference, show: milliseconds}
	rows, err := measure(t.Context(), plan{runs: 2, retries: 3}, group{contests: []*contest{c}, beside: []*contest{floor}})
	if err != nil || len(rows) != 1 || rows[0].Name != "row" {
		t.Fatalf("rows %+v, %v; want the one of the contest", rows, err)
	}
	if ratio, err := floor.ratio(); err != nil || ratio != 1.25 || reference.runs != 2 {
		t.Errorf("beside it %g, %v after %d runs of the reference; want 1.25 after 2", ratio, err, reference.runs)
	}
}

func TestMeasureRefuses(t *testing.T) {
	t.Parallel()
	c := &contest{name: "path", subject: constant("s", 1), reference: constant("r", 0), budget: 1, show: milliseconds}
	if rows, err := measure(t.Context(), plan{runs: 1, retries: 3}, group{contests: []*contest{c}}); err == nil {
		t.Errorf("a reference that costs nothing gave %+v, want an error", rows)
	}
	if rows, err := measure(t.Context(), plan{runs: 0, retries: 3}, group{contests: []*contest{c}}); err == nil {
		t.Errorf("no runs gave %+v, want an error", rows)
	}
	c.reference = newSide("never run", nil)
	if !math.IsInf(c.reference.min, 1) {
		t.Errorf("minimum before the first run is %g, want +Inf", c.reference.min)
	}
	if r, err := c.row(); err == nil {
		t.Errorf("a side that never ran gave %+v, want an error", r)
	}
}

// A gate on a machine that is very busy ends, with runs enough for a minimum.
func TestMeasureLate(t *testing.T) {
	t.Parallel()
	c := &contest{name: "path", subject: script("s", nil, 9), reference: script("r", nil, 2), budget: 2, show: milliseconds}
	p := plan{runs: 10 * fewest, retries: 3, until: time.Now().Add(-time.Second)}
	rows, err := measure(t.Context(), p, group{contests: []*contest{c}})
	if err != nil || len(rows) != 1 || rows[0].OK {
		t.Fatalf("%+v, %v, want one row that fails", rows, err)
	}
	if c.subject.runs != fewest || c.reference.runs != fewest {
		t.Errorf("%d and %d runs, want %d of each and no more", c.subject.runs, c.reference.runs, fewest)
	}
}

func TestUnrest(t *testing.T) {
	t.Parallel()
	for want, all := range map[float64][]float64{1: nil, 1.5: {2, 3, 2, 3, 9}} {
		if got := (&side{min: 2, all: all}).unrest(); got != want {
			t.Errorf("unrest of %v = %g, want %g", all, got, want)
		}
	}
}
