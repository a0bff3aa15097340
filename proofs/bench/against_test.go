package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// servedSide returns a side that measures the group "g" in this process.
func servedSide(t *testing.T, ends *int, paths ...*path) *side {
	t.Helper()
	g := group{name: "g", setup: func(_ context.Context, s *setup) error {
		s.paths = paths
		s.atEnd(func() error { *ends++; return nil })
		return nil
	}}
	requests, in := io.Pipe()
	out, replies := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- errors.Join((&bench{}).serve(t.Context(), []group{g}, requests, replies), replies.Close())
	}()
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return &side{out: json.NewDecoder(bufio.NewReader(out)), request: json.NewEncoder(in)}
}

func costing(name string, costs ...float64) *path {
	return &path{target: target{name: name, unit: milliseconds}, subject: script(name, nil, costs...)}
}

func compareTwo(t *testing.T, p plan, before, after []*path) map[string]*compared {
	t.Helper()
	ends := 0
	rows, err := p.compareGroup(t.Context(), "g", [2]*side{servedSide(t, &ends, before...), servedSide(t, &ends, after...)})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*compared{}
	for _, r := range rows {
		byName[r.Name] = r
	}
	return byName
}

// A row is worse if its minimum is more than 5 % higher. A row that looks worse by chance is measured
// again until its minimum is found.
func TestCompare(t *testing.T) {
	t.Parallel()
	rows := compareTwo(t, plan{runs: 4},
		[]*path{costing("same", 3, 1, 2), costing("slower", 1), costing("faster", 1), costing("by chance", 1), costing("gone", 1), {target: target{name: "fails"}, subject: broken("fails")}},
		[]*path{costing("fails", 1), costing("by chance", 2, 2, 2, 2, 2, 2, 2, 2, 2, 1), costing("new", 1), costing("same", 1.05), costing("slower", 1.06), costing("faster", 0.9)})
	for name, want := range map[string]string{"same": "same", "slower": "WORSE", "faster": "better", "by chance": "same", "fails": "ERROR"} {
		r := rows[name]
		if r == nil || r.state() != want {
			t.Errorf("%s: %+v, want %s", name, r, want)
		}
	}
	if len(rows) != 5 {
		t.Errorf("%d rows, want those that both commits have: %v", len(rows), rows)
	}
	if r := rows["slower"]; r.Runs <= 4 || r.Change != 0.06 || r.Unit != "ms" {
		t.Errorf("a worse row is %+v, want that it was measured again", r)
	}
	if r := rows["same"]; r.Runs != 4 {
		t.Errorf("a row that is not worse ran %d times, want 4", r.Runs)
	}
}

// A group that the other commit lacks is no row.
func TestCompareWithoutGroup(t *testing.T) {
	t.Parallel()
	ends := 0
	rows, err := (plan{runs: 1}).compareGroup(t.Context(), "unknown", [2]*side{servedSide(t, &ends), servedSide(t, &ends)})
	if err != nil || len(rows) > 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// A group is cleaned up before the next one is set up. A request for a path that does not exist
// is an error.
func TestServe(t *testing.T) {
	t.Parallel()
	ends := 0
	c := servedSide(t, &ends, costing("a", 7))
	for _, want := range []int{0, 1} {
		r, err := c.ask(request{Open: "g"})
		if err != nil || len(r.Paths) != 1 || ends != want {
			t.Errorf("%+v, %v, %d groups were cleaned up, want %d", r, err, ends, want)
		}
	}
	if r, err := c.ask(request{Run: 0}); err != nil || r.Cost != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.ask(request{Run: 1}); err == nil || err.Error() != "no path 1" {
		t.Errorf("a path that does not exist: %v", err)
	}
}

// The sides of a row run one after the other, and change places in each round.
func TestInTurn(t *testing.T) {
	t.Parallel()
	var log []string
	r := &compared{before: script("b", &log, 1), after: script("a", &log, 1)}
	if err := (plan{runs: 3}).inTurn(t.Context(), []*compared{r}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(log, ""); got != "baabba" {
		t.Errorf("ran in the order %s, want baabba", got)
	}
}

func TestPrintCompared(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := printCompared(&b, "0123abc", []*compared{{Name: "hook", Unit: "ms", Before: 2, After: 2.2, Change: 0.1, Runs: 40, Worse: true}, {Name: "other", Error: "broken"}}); err != nil {
		t.Fatal(err)
	}
	want := `path   0123abc    here   change  runs  
hook      2 ms  2.2 ms  +10.0 %    40  WORSE
other        -       -        -     -  ERROR

worse by more than 5 %, or without a result: hook; other broken
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
