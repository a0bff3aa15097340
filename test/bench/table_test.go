package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewRow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ratio, budget, margin float64
		ok                    bool
	}{
		"half of it":              {1, 2, 0.5, true},
		"exactly on budget":       {2, 2, 0, true},
		"above, within tolerance": {2.2, 2, -0.1, true},
		"at the tolerance":        {2.3, 2, -0.15, true},
		"beyond the tolerance":    {2.31, 2, -0.155, false},
		"one allocation of one":   {1, 1, 0, true},
		"two allocations of one":  {2, 1, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := row{Name: "path", Ratio: test.ratio, Budget: test.budget, Margin: test.margin, OK: test.ok}
			if got := newRow("path", test.ratio, test.budget); got != want {
				t.Errorf("newRow(%g, %g) = %+v, want %+v", test.ratio, test.budget, got, want)
			}
		})
	}
}

func TestFailed(t *testing.T) {
	t.Parallel()
	rows := []row{newRow("a", 3, 2), newRow("b", 1, 2), newRow("c", 4, 2)}
	if got, want := failed(rows), []string{"a", "c"}; !slices.Equal(got, want) {
		t.Errorf("failed(%+v) = %q, want %q", rows, got, want)
	}
}

func TestPrintTable(t *testing.T) {
	t.Parallel()
	rows := []row{
		newRow("grapnel-hook, no policy", 1.7241, 1.9),
		newRow("event nobody listens to", 107, 150),
		newRow("8 at once – total", 1.4, 1.3),
		newRow("too slow", 9, 2),
	}
	for i, measured := range []string{"1.62 ms", "107 ns", "20.00 ms", "9.00 ms"} {
		rows[i].measured, rows[i].unit = measured, []string{"/bin/true", "ns", "eight in turn", "static Go"}[i]
	}
	var b strings.Builder
	if err := printTable(&b, rows); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
path                     measured  ratio  budget  of             margin  ok
grapnel-hook, no policy   1.62 ms   1.72    1.90  /bin/true        +9 %  ok
event nobody listens to    107 ns    107     150  ns              +29 %  ok
8 at once – total        20.00 ms   1.40    1.30  eight in turn    -8 %  ok, above budget
too slow                  9.00 ms      9       2  static Go      -350 %  FAIL
`, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rows.json")
	r := newRow("path", 1.72408, 2)
	r.measured, r.unit = "1 ms", "/bin/true"
	if err := writeJSON(file, []row{r}); err != nil {
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
	want := []map[string]any{{"name": "path", "ratio": 1.724, "budget": 2.0, "margin": 0.138, "ok": true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := writeJSON(filepath.Join(file, "below-a-file"), nil); err == nil {
		t.Error("writing below a file succeeded")
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ratio, static, unrest float64
		unit                  string
		ok                    bool
	}{
		"as fast as usual":       {2.31, 1.5, 1, "/bin/true", false},
		"faster":                 {2.31, 1.1, 1, "/bin/true", false},
		"slow, and so is all":    {3, 2.1, 1, "/bin/true", true},
		"slow, and worse":        {3.3, 2.1, 1, "/bin/true", false},
		"shared with others":     {3.3, 1.5, 1.5, "/bin/true", true},
		"shared, and worse":      {3.5, 1.5, 1.5, "/bin/true", false},
		"slow and shared":        {4.8, 2.1, 1.5, "/bin/true", true},
		"so slow that it is odd": {7, 9, 9, "/bin/true", false},
		"in process":             {3, 2.1, 1, "ns", true},
		"no time":                {3, 2.1, 1, "MB", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRow("a", tt.ratio, 2)
			r.unit = tt.unit
			if r.allow(pace(tt.static, tt.unrest)); r.OK != tt.ok {
				t.Errorf("ok = %v with %g of 2 where the static program takes %g, and half of all runs %g times the shortest; want %v", r.OK, tt.ratio, tt.static, tt.unrest, tt.ok)
			}
		})
	}
}
