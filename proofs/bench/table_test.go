package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// measured is a path that costs ratio times its reference.
func measured(t target, ratio float64) *path {
	if t.unit.name == "" {
		t.unit = milliseconds
	}
	series := func(name string, cost float64) *series {
		s := newSeries(name, nil)
		s.min, s.runs = cost, 1
		return s
	}
	return &path{target: t, subject: series("subject", ratio*2), reference: series("reference", 2), floor: series("floor", 2)}
}

func TestRow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		target
		ratio, limit, margin float64
		ok, failed           bool
		state                string
	}{
		"half of it":                  {target{budget: 2}, 1, 1.15, 0.5, true, false, "ok"},
		"exactly on budget":           {target{budget: 2}, 2, 1.15, 0, true, false, "ok"},
		"above, within the limit":     {target{budget: 2}, 2.2, 1.15, -0.1, true, false, "ok, above budget"},
		"at the limit":                {target{budget: 2}, 2.3, 1.15, -0.15, true, false, "ok, above budget"},
		"beyond the limit":            {target{budget: 2}, 2.31, 1.15, -0.155, false, true, "FAIL"},
		"shared machine":              {target{budget: 2}, 3.9, 2, -0.95, true, false, "ok, above budget"},
		"shared machine, beyond":      {target{budget: 2}, 4.1, 2, -1.05, false, true, "FAIL"},
		"one allocation of one":       {target{budget: 1, exact: true}, 1, 2, 0, true, false, "ok"},
		"two allocations of one":      {target{budget: 1, exact: true}, 2, 2, -1, false, true, "FAIL"},
		"not met yet":                 {target{budget: 2, today: 7}, 7.5, 1.15, -2.75, false, false, "not met yet (7.00)"},
		"not met yet, but was better": {target{budget: 2, today: 7}, 8.1, 1.15, -3.05, false, true, "FAIL"},
		"rate, held to the floor":     {target{budget: 2, todayFloors: 7}, 7.5, 1.15, -2.75, false, false, "not met yet (7.00)"},
		"rate, but was better":        {target{budget: 2, todayFloors: 7}, 8.1, 1.15, -3.05, false, true, "FAIL"},
		"was not met":                 {target{budget: 2, today: 7}, 1.5, 1.15, 0.25, true, false, "ok (met now)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judge([]*path{measured(tt.target, tt.ratio)}, tt.limit)[0]
			if r.Ratio != tt.ratio || r.Margin != tt.margin || r.OK != tt.ok || r.failed != tt.failed || r.state() != tt.state {
				t.Errorf("row %+v, failed %v, %q; want %+v", r, r.failed, r.state(), tt)
			}
		})
	}
}

// A budget may be added to the ratio of another row.
func TestRowAbove(t *testing.T) {
	t.Parallel()
	none, daemon := measured(target{name: "none", budget: 1.35}, 1.25), measured(target{name: "daemon", budget: 0.2, above: "none"}, 1.4)
	if r := judge([]*path{none, daemon}, 1)[1]; r.Budget != 1.45 || !r.OK {
		t.Errorf("row %+v, want a budget of 1.45", r)
	}
	none.err = errBroken
	if r := judge([]*path{none, daemon}, 1)[1]; r.Error == "" || !r.failed {
		t.Errorf("without the other row: %+v, want an error", r)
	}
}

func TestPrintTable(t *testing.T) {
	t.Parallel()
	blocked := measured(target{name: "later", budget: 125, unit: records}, 1)
	blocked.notYet, blocked.reference = "there is no option", nil
	wrong := measured(target{name: "wrong", budget: 2}, 1)
	wrong.err = errBroken
	noReference := measured(target{name: "no listener", budget: 150, unit: nanoseconds}, 53)
	noReference.reference = nil
	slow := measured(target{name: "worst", budget: 2}, 9)
	slow.detail = "agent"
	rows := judge([]*path{measured(target{name: "grapnel-hook – no policy", budget: 1.9}, 1.7241), noReference, slow, blocked, wrong}, 1.15)
	var b strings.Builder
	if err := printTable(&b, rows, false); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
path                      measured  ratio  budget     floor  margin  ok
grapnel-hook – no policy   3.45 ms   1.72    1.90      1.00    +9 %  ok
no listener                 106 ns      -  150 ns      2 ns   +29 %  ok
worst (agent)             18.00 ms   9.00    2.00      1.00  -350 %  FAIL
later                            -      -  8000/s  500000/s       -  not possible yet
wrong                            -      -    2.00         -       -  ERROR

later: not possible yet: there is no option

wrong: ERROR: broken
`, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// The table of all rows fits a terminal of 120 columns, even with long figures.
func TestTableWidth(t *testing.T) {
	t.Parallel()
	var paths []*path
	for _, g := range groups() {
		for _, target := range g.targets {
			target.today = 99
			p := measured(target, 1234.5)
			if target.unit.name != "ms" {
				p.reference = nil
			}
			paths = append(paths, p)
		}
	}
	paths[len(paths)-1].detail = "some-agent"
	var b strings.Builder
	if err := printTable(&b, judge(paths, 1e6), false); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line); n > 121 {
			t.Errorf("%d columns, want at most 120: %s", n-1, line)
		}
	}
}

// Every target has a unique name, and a ceiling only if it does not meet its budget.
func TestTargets(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range groups() {
		for i, target := range g.targets {
			if target.name == "" || seen[target.name] || target.budget <= 0 || target.unit.format == nil {
				t.Errorf("%s: target %+v", g.name, target)
			}
			if target.today != 0 && target.todayFloors != 0 {
				t.Errorf("%s: has two ceilings", target.name)
			}
			if target.today != 0 && target.today <= target.budget {
				t.Errorf("%s: today %g meets the budget of %g", target.name, target.today, target.budget)
			}
			above := false
			for _, other := range g.targets[:i] {
				above = above || other.name == target.above
			}
			if target.above != "" && !above {
				t.Errorf("%s: no row %q before it in its group", target.name, target.above)
			}
			seen[target.name] = true
		}
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rows.json")
	p := measured(target{name: "path", budget: 2, today: 3}, 1.72408)
	if err := writeJSON(file, judge([]*path{p}, 1.15)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	want := []map[string]any{{
		"name": "path", "ratio": 1.724, "budget": 2.0, "margin": 0.138, "ok": true,
		"today": 3.0, "floor": 1.0, "measured": 3.44816, "unit": "ms", "reference": "reference", "runs": 1.0,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := writeJSON[row](filepath.Join(file, "below-a-file"), nil); err == nil {
		t.Error("writing below a file succeeded")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct{ code, runs, groups int }{
		"": {-1, 200, len(groups())}, "-quick -gate -limit 2": {-1, 40, len(groups())}, "-n 3 -run ^hook$": {-1, 3, 1},
		"-run [": {code: 64}, "-run nothing": {code: 64}, "-limit 0.5": {code: 64}, "-n -1": {code: 64}, "more": {code: 64}, "-h": {code: 0},
	} {
		o, code := parse(strings.Fields(args), io.Discard)
		if code != want.code || code < 0 && (o.plan.runs != want.runs || len(o.groups) != want.groups) {
			t.Errorf("%q: exit status %d, %d runs of %d groups; want %+v", args, code, o.plan.runs, len(o.groups), want)
		}
	}
}
