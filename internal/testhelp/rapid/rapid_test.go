package rapid_test

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	text string
}

func (r *recorder) Log(args ...any) { r.text += fmt.Sprintln(args...) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.text += fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// report returns what Check reports about a law, or "" if the law holds.
func report(t *testing.T, law func(*rapid.T)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		rapid.Check(r, law)
	}()
	<-done
	return r.text
}

func TestCheckReportsASmallCase(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		law  func(*rapid.T)
		want []string
	}{
		"number": {func(t *rapid.T) {
			if n := rapid.IntRange(0, 1000).Draw(t, "n"); n > 10 {
				t.Errorf("too large: %d", n)
			}
		}, []string{"n: 11\n", "too large: 11", "-rapid.seed="}},
		"list": {func(t *rapid.T) {
			if list := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b"})).Draw(t, "list"); slices.Contains(list, "b") {
				t.Fatal("b")
			}
		}, []string{`list: []string{"b"}`}},
		"nothing": {func(t *rapid.T) { t.Skip() }, []string{"the law skipped 1000 of 1000 cases"}},
		"panic":   {func(*rapid.T) { panic("oh") }, []string{"panic: oh", "rapid_test.go:"}},
		"states": {func(t *rapid.T) {
			n := 0
			t.Repeat(map[string]func(*rapid.T){
				"add":  func(*rapid.T) { n++ },
				"skip": func(t *rapid.T) { t.Skip("not now") },
				"": func(t *rapid.T) {
					if n > 2 {
						t.Error("three")
					}
				},
			})
		}, []string{"action: \"add\"\naction: \"add\"\naction: \"add\"\nthree"}},
	} {
		got := report(t, test.law)
		for _, want := range test.want {
			if !strings.Contains(strings.ReplaceAll(got, "\n\n", "\n"), want) {
				t.Errorf("%s: Check reports\n%s\nwant %q", name, got, want)
			}
		}
	}
}

func TestCheckAcceptsALaw(t *testing.T) {
	t.Parallel()
	cases, cleaned := 0, 0
	got := report(t, func(t *rapid.T) {
		cases++
		t.Cleanup(func() { cleaned++ })
		if rapid.Bool().Draw(t, "skip") {
			t.Skip()
		}
		if t.Context().Err() != nil {
			t.Error("the context is done")
		}
	})
	if got != "" || cases < 100 || cleaned != cases {
		t.Errorf("%d cases, %d cleaned up: %s", cases, cleaned, got)
	}
}

// Numbers and texts keep to their limits and reach them.
func TestGenerators(t *testing.T) {
	t.Parallel()
	const expr = `[-+]?([0-9]{0,4}(\.[0-9]{0,3})?(ns|m|h)){0,3}`
	re := regexp.MustCompile(`^` + expr + `$`)
	seen := map[any]bool{}
	for range 20 {
		rapid.Check(t, func(t *rapid.T) {
			for _, r := range [][2]int64{{0, 3}, {-3, 3}, {-9, -7}, {-5000, 1}, {math.MinInt64, math.MaxInt64}, {1, math.MaxInt64}, {math.MinInt64, -1}} {
				n := rapid.Int64Range(r[0], r[1]).Draw(t, "n")
				if n < r[0] || n > r[1] {
					t.Errorf("%d is not in %d", n, r)
				}
				seen[fmt.Sprint(r, n)] = true
			}
			if f := rapid.Float64Range(-1, 1e12).Draw(t, "f"); f < -1 || f > 1e12 {
				t.Errorf("%v is not between -1 and 1e12", f)
			}
			if f := rapid.Float64().Draw(t, "any f"); math.IsNaN(f) || math.IsInf(f, 0) {
				t.Errorf("%v is not finite", f)
			}
			if s := rapid.StringN(1, 3).Draw(t, "s"); !utf8.ValidString(s) || utf8.RuneCountInString(s) < 1 || utf8.RuneCountInString(s) > 3 {
				t.Errorf("%q is not a text of one to three runes", s)
			}
			if s := rapid.StringMatching(expr).Draw(t, "match"); !re.MatchString(s) {
				t.Errorf("%q does not match", s)
			}
			list := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 4, rapid.ID[int]).Draw(t, "list")
			slices.Sort(list)
			if len(slices.Compact(slices.Clone(list))) != len(list) {
				t.Errorf("%d has an item twice", list)
			}
			seen[len(list)] = true
			seen[fmt.Sprint(rapid.Permutation([]int{1, 2, 3}).Draw(t, "order"))] = true
		})
	}
	for _, want := range []any{
		0, 4, "[1 2 3]", "[3 2 1]", "[2 1 3]", "[0 3] 0", "[0 3] 3", "[-3 3] -3", "[-3 3] 3", "[-9 -7] -9", "[-5000 1] -5000", "[-5000 1] 1",
		fmt.Sprint([2]int64{math.MinInt64, math.MaxInt64}, math.MinInt64), fmt.Sprint([2]int64{math.MinInt64, math.MaxInt64}, math.MaxInt64),
	} {
		if !seen[want] {
			t.Errorf("%v was not drawn", want)
		}
	}
}
