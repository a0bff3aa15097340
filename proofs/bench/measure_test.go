package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script returns a series whose runs cost the given values in order; the last value repeats. If
// log is not nil, each run appends name to it.
func script(name string, log *[]string, costs ...float64) *series {
	return newSeries(name, func() (float64, error) {
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

var errBroken = errors.New("broken")

func broken(name string) *series {
	return newSeries(name, func() (float64, error) { return 0, errBroken })
}

func TestInterleave(t *testing.T) {
	t.Parallel()
	var log []string
	a, b := script("a", &log, 3, 1, 2), script("b", &log, 5, 6, 7)
	if err := (plan{runs: 3}).interleave(t.Context(), []*series{a, b, a}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "a", "b", "a", "b"}; !slices.Equal(log, want) {
		t.Errorf("ran %q, want %q", log, want)
	}
	if a.min != 1 || b.min != 5 || a.runs != 3 || b.runs != 3 {
		t.Errorf("minima %g of %d runs and %g of %d, want 1 of 3 and 5 of 3", a.min, a.runs, b.min, b.runs)
	}
}

// A series that fails does not stop the others.
func TestInterleaveBroken(t *testing.T) {
	t.Parallel()
	bad, good := broken("bad"), script("good", nil, 1)
	if err := (plan{runs: 3}).interleave(t.Context(), []*series{bad, good}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(bad.err, errBroken) || !strings.Contains(bad.err.Error(), "bad") || good.runs != 3 {
		t.Errorf("error %v and %d runs of the other, want the name with the error, and 3", bad.err, good.runs)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	if err := (plan{runs: 1}).interleave(ctx, []*series{good}); !errors.Is(err, errBroken) {
		t.Errorf("after the context ended: %v, want its cause", err)
	}
}

// A slow path ends when its time is over, with enough runs for a minimum.
func TestInterleaveSlice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, slice := range map[int]time.Duration{5: time.Second, 11: 10 * time.Second} {
			slow := newSeries("slow", func() (float64, error) { time.Sleep(time.Second); return 1, nil })
			p := plan{runs: 100, fewest: 5, slice: slice}
			if err := p.interleave(t.Context(), []*series{slow}); err != nil || slow.runs != want {
				t.Errorf("%d runs in %v, %v; want %d", slow.runs, slice, err, want)
			}
		}
	})
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		subject, reference *series
		today, ratio       float64
		failed             bool
		runs               int // of the subject
	}{
		"below budget at once":          {script("s", nil, 3, 4), script("r", nil, 2, 2), 0, 1.5, false, 2},
		"above budget, within limit":    {script("s", nil, 4.5), script("r", nil, 2), 0, 2.25, false, 2},
		"above at first, then below":    {script("s", nil, 9, 9, 3), script("r", nil, 2), 0, 1.5, false, 4},
		"above for good":                {script("s", nil, 9), script("r", nil, 2), 0, 4.5, true, 8},
		"not met yet, and as it was":    {script("s", nil, 9), script("r", nil, 2), 4, 4.5, false, 2},
		"not met yet, and became worse": {script("s", nil, 9), script("r", nil, 2), 3, 4.5, true, 8},
		// The reference keeps its minimum, too: a slow first round must not hide a slow subject.
		"reference was disturbed": {script("s", nil, 9), script("r", nil, 3, 3, 2), 0, 4.5, true, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &path{target: target{name: name, budget: 2, today: tt.today, unit: milliseconds}, subject: tt.subject, reference: tt.reference}
			rows, err := plan{runs: 2, retries: 3, limit: 1.15}.measure(t.Context(), []*path{p}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if r := rows[0]; r.failed != tt.failed || tt.subject.runs != tt.runs || r.Ratio != tt.ratio {
				t.Errorf("row %+v, failed %v after %d runs; want ratio %g, failed %v, %d runs", r, r.failed, tt.subject.runs, tt.ratio, tt.failed, tt.runs)
			}
		})
	}
}

// Each of many candidates runs a few times, and only the worst runs as often as planned. The
// candidate that looks worst first was disturbed.
func TestMeasureScreening(t *testing.T) {
	t.Parallel()
	reference := script("r", nil, 1)
	candidate := func(name string, costs ...float64) *path {
		return &path{target: target{name: "worst", budget: 10, unit: milliseconds}, detail: name, screened: true, subject: script(name, nil, costs...), reference: reference}
	}
	paths := []*path{candidate("fast", 1), candidate("disturbed", 9, 9, 9, 2), candidate("slow", 5), candidate("middle", 4)}
	rows, err := plan{runs: 6, retries: 3, limit: 1.15}.measure(t.Context(), paths, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name, detail string
		ratio        float64
		runs         int
		hidden       bool
	}{{"dialect fast", "", 1, 2, true}, {"dialect disturbed", "", 2, 6, true}, {"worst", "slow", 5, 6, false}, {"dialect middle", "", 4, 2, true}} {
		if r := rows[i]; r.Name != want.name || r.Detail != want.detail || r.Ratio != want.ratio || r.Runs != want.runs || r.hidden != want.hidden {
			t.Errorf("row %+v, hidden %v; want %+v", r, r.hidden, want)
		}
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	ran := func(cost float64) *series {
		s := script("s", nil, cost)
		s.min, s.runs = cost, 1
		return s
	}
	if x, err := ratio(ran(3), ran(2)); x != 1.5 || err != nil {
		t.Errorf("ratio of 3 to 2 = %g, %v", x, err)
	}
	if x, err := ratio(ran(0), nil); x != 0 || err != nil {
		t.Errorf("cost of 0 without a reference = %g, %v; want no error", x, err)
	}
	bad := broken("bad")
	bad.err = errBroken
	never := newSeries("never", nil)
	if !math.IsInf(never.min, 1) {
		t.Errorf("minimum before the first run is %g, want +Inf", never.min)
	}
	for name, pair := range map[string][2]*series{
		"nothing": {nil, ran(1)}, "never ran": {never, ran(1)}, "reference never ran": {ran(1), never},
		"broken": {bad, ran(1)}, "reference broken": {ran(1), bad}, "reference costs nothing": {ran(1), ran(0)},
	} {
		if x, err := ratio(pair[0], pair[1]); err == nil {
			t.Errorf("%s: ratio %g, want an error", name, x)
		}
	}
}

// testGroup is a group of one path, whose setup logs what happens.
func testGroup(name string, log *[]string, run func() (float64, error), failure error) group {
	return group{name: name, targets: []target{{name: name, budget: 2, unit: milliseconds}}, setup: func(ctx context.Context, s *setup) error {
		*log = append(*log, "set up "+name)
		s.atEnd(func() error { *log = append(*log, "clean up "+name); return nil })
		s.paths[0].subject = newSeries(name, run)
		return errors.Join(failure, context.Cause(ctx))
	}}
}

func one() (float64, error) { return 1, nil }

// Each group is set up right before it is measured and cleaned up right after, and a group
// that fails leaves the others alone.
func TestGroups(t *testing.T) {
	t.Parallel()
	var log []string
	b := &bench{progress: io.Discard}
	rows, err := b.all(t.Context(), plan{runs: 1, limit: 1}, []group{
		testGroup("a", &log, one, nil), testGroup("b", &log, one, errBroken),
		testGroup("c", &log, func() (float64, error) { return 0, errBroken }, nil), testGroup("d", &log, one, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"set up a", "clean up a", "set up b", "clean up b", "set up c", "clean up c", "set up d", "clean up d"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
	for i, fails := range []bool{false, true, true, false} {
		if r := rows[i]; r.failed != fails || strings.Contains(r.Error, "broken") != fails {
			t.Errorf("row %+v, failed %v; want %v", r, r.failed, fails)
		}
	}
}

// The worker row failed if the other groups took more than five minutes, because its time limit
// began at their setup.
func TestGroupsAfterLongGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log []string
		slow := func() (float64, error) { time.Sleep(2 * groupLimit); return 1, nil }
		b := &bench{progress: io.Discard}
		rows, err := b.all(t.Context(), plan{runs: 2, limit: 1}, []group{testGroup("slow", &log, slow, nil), testGroup("worker", &log, one, nil)})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(rows[0].Error, errGroupLimit.Error()) || rows[1].Error != "" {
			t.Errorf("rows %+v, want an error in the first alone", rows)
		}
	})
}

func TestGroupsEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	var log []string
	stop := func() (float64, error) { cancel(errBroken); return 1, nil }
	b := &bench{progress: io.Discard}
	_, err := b.all(ctx, plan{runs: 2, limit: 1}, []group{testGroup("a", &log, stop, nil), testGroup("b", &log, one, nil)})
	if want := []string{"set up a", "clean up a"}; !errors.Is(err, errBroken) || !slices.Equal(log, want) {
		t.Errorf("after an interrupt %v and %q, want its cause and %q", err, log, want)
	}
}
