package hooktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// recorder is a testing.TB that records messages, for tests that must fail.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) FailNow() { panic(r) }

func (r *recorder) Context() context.Context { return r.TB.Context() }

// failure returns the message of a test that fails; empty = it passes.
func failure(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(r) {
				panic(v)
			}
		}()
		test(r)
	}()
	return strings.Join(r.lines, "\n")
}
