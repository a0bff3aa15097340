// Package rapid checks laws with random cases:
//
//	rapid.Check(t, func(t *rapid.T) {
//		n := rapid.IntRange(0, 9).Draw(t, "n")
//		if square(n) < n {
//			t.Errorf("square(%d) = %d", n, square(n))
//		}
//	})
//
// Names and meaning are the same as in pgregory.net/rapid, of which Grapnel needs a small part.
// The library does not require that module, because the module graph of every user would get it.
// A law must give the same result for the same drawn values.
package rapid

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
)

var (
	checks = flag.Int("rapid.checks", 100, "number of random cases of each law")
	seeds  = flag.Uint64("rapid.seed", 0, "check only the case with this seed, not random ones")
)

// Check calls a law with random cases. A case that the law skips does not count, and a law that skips
// nearly all fails. For the first case that fails it looks for a smaller one
// that fails too, and reports its drawn values and the messages of the law.
func Check(t testing.TB, law func(*T)) {
	t.Helper()
	n := *checks
	if *seeds != 0 {
		n = 1
	}
	for valid, tries := 0, 1; valid < n; tries++ {
		seed := *seeds
		if seed == 0 {
			seed = rand.Uint64() | 1
		}
		c := run(t, law, &T{rand: rand.New(rand.NewPCG(seed, 0))})
		if !c.failed {
			if !c.skipped {
				valid++
			} else if tries >= 10*n {
				t.Fatalf("the law skipped %d of %d cases, so it says too little", tries-valid, tries)
			}
			continue
		}
		last := run(t, law, &T{given: shrink(t, law, c.drawn), verbose: true})
		if !last.failed {
			last.log = append(c.log, "with the same values the law holds, so it depends on something else")
		}
		for _, line := range last.log {
			t.Log(line)
		}
		t.Fatalf("the law does not hold; repeat it with -rapid.seed=%d", seed)
	}
}

// shrink returns the smallest failing numbers that it finds: it removes some of them, and makes
// others smaller. It calls the law at most 2,000 times.
func shrink(tb testing.TB, law func(*T), numbers []uint64) []uint64 {
	calls := 2000
	try := func(smaller []uint64) bool {
		if calls--; calls < 0 || !run(tb, law, &T{given: smaller}).failed {
			return false
		}
		numbers = smaller
		return true
	}
	for better := true; better; {
		better = false
		for size := min(16, len(numbers)); size > 0; size /= 2 {
			for i := len(numbers) - size; i >= 0; i-- {
				if i+size <= len(numbers) && try(slices.Delete(slices.Clone(numbers), i, i+size)) {
					better = true
				}
			}
		}
		for i, n := range numbers {
			for _, smaller := range []uint64{0, n / 2, n - 1} {
				if n > 0 && try(slices.Replace(slices.Clone(numbers), i, i+1, smaller)) {
					better = true
					break
				}
			}
		}
	}
	return numbers
}

// T is one case of a law. It embeds the test that calls Check, but keeps failures and messages
// until Check knows the case to report.
type T struct {
	testing.TB

	rand    *rand.Rand
	given   []uint64 // replaces rand
	drawn   []uint64
	verbose bool // logs drawn values
	failed  bool
	skipped bool
	log     []string
	cleanup []func()
	context context.Context
}

// Values with which a law ends early.
type (
	stopped struct{}
	skipped struct{}
)

// run calls the law once.
func run(tb testing.TB, law func(*T), t *T) *T {
	ctx, cancel := context.WithCancel(tb.Context())
	t.TB, t.context = tb, ctx
	defer func() {
		cancel()
		for _, f := range slices.Backward(t.cleanup) {
			f()
		}
	}()
	func() {
		defer func() {
			switch p := recover().(type) {
			case nil, stopped:
			case skipped:
				t.skipped = true
			default:
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		law(t)
	}()
	return t
}

// choice draws a number below n, or any number if n is 0.
func (t *T) choice(n uint64) uint64 {
	var got uint64
	switch {
	case t.rand == nil && len(t.drawn) < len(t.given):
		got = t.given[len(t.drawn)]
	case t.rand == nil: // 0
	case n == 0:
		got = t.rand.Uint64()
	default:
		got = t.rand.Uint64N(n)
	}
	if n > 0 {
		got = min(got, n-1)
	}
	t.drawn = append(t.drawn, got)
	return got
}

// number draws a number from 0 to most. Small numbers and most are more frequent if the range is
// large.
func (t *T) number(most uint64) uint64 {
	if most < 1<<10 {
		return t.choice(most + 1)
	}
	switch width := t.choice(uint64(bits.Len64(most)) + 2); {
	case width > uint64(bits.Len64(most)):
		return most
	case width == 64:
		return min(t.choice(0), most)
	default:
		return min(t.choice(1<<width), most)
	}
}

// more reports whether a list with n items gets one more. Lists have from least to most items; most
// is -1 for any number.
func (t *T) more(n, least, most int) bool {
	if n < least {
		return true
	}
	room := 9
	if most >= 0 {
		room = most - least
	}
	return (most < 0 || n < most) && t.choice(uint64(room)/2+2) > 0
}

// Repeat calls random actions, and the action "" before the first one and after each of them. An
// action that calls Skip does not count.
func (t *T) Repeat(actions map[string]func(*T)) {
	t.Helper()
	check := actions[""]
	if check == nil {
		check = func(*T) {}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(actions)), func(name string) bool { return name == "" })
	check(t)
	for t.choice(31) > 0 {
		name := SampledFrom(names).Draw(t, "action")
		if skip := t.try(actions[name]); !skip {
			check(t)
		}
	}
}

func (t *T) try(action func(*T)) (skip bool) {
	defer func() {
		if p := recover(); p != nil {
			if _, skip = p.(skipped); !skip {
				panic(p)
			}
		}
	}()
	action(t)
	return false
}

// The methods of [testing.TB] that concern one case.

// Context is canceled when the case ends.
func (t *T) Context() context.Context { return t.context }

// Cleanup calls f when the case has ended.
func (t *T) Cleanup(f func()) { t.cleanup = append(t.cleanup, f) }

// Failed reports whether the case has failed.
func (t *T) Failed() bool { return t.failed }

// Fail marks the case as failed and continues.
func (t *T) Fail() { t.failed = true }

// FailNow marks the case as failed and ends it.
func (t *T) FailNow() { t.failed = true; panic(stopped{}) }

// SkipNow ends the case, or the action of Repeat.
func (t *T) SkipNow() { panic(skipped{}) }

// Log keeps a message for the report.
func (t *T) Log(args ...any) { t.log = append(t.log, fmt.Sprintln(args...)) }

// Logf keeps a message for the report.
func (t *T) Logf(format string, args ...any) { t.log = append(t.log, fmt.Sprintf(format, args...)) }

// Error is Log and Fail.
func (t *T) Error(args ...any) { t.Log(args...); t.Fail() }

// Errorf is Logf and Fail.
func (t *T) Errorf(format string, args ...any) { t.Logf(format, args...); t.Fail() }

// Fatal is Log and FailNow.
func (t *T) Fatal(args ...any) { t.Log(args...); t.FailNow() }

// Fatalf is Logf and FailNow.
func (t *T) Fatalf(format string, args ...any) { t.Logf(format, args...); t.FailNow() }

// Skip is Log and SkipNow.
func (t *T) Skip(args ...any) { t.Log(args...); t.SkipNow() }

// Skipf is Logf and SkipNow.
func (t *T) Skipf(format string, args ...any) { t.Logf(format, args...); t.SkipNow() }
