package await_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		await.Until(t, "a minute has passed", func() bool { return time.Since(begin) >= time.Minute })
		c := make(chan string)
		go func() {
			time.Sleep(time.Minute)
			c <- "value"
		}()
		if got := await.Receive(t, "a value", c); got != "value" {
			t.Errorf("Receive = %q, want %q", got, "value")
		}
	})
}

// recorder is a test that can fail without ending the real one.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = format
	panic(r)
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(testing.TB){
		"Until":   func(tb testing.TB) { await.Until(tb, "never", func() bool { return false }) },
		"Receive": func(tb testing.TB) { await.Receive(tb, "never", make(chan int)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, begin := &recorder{TB: t}, time.Now()
				func() {
					defer func() { _ = recover() }()
					wait(r)
				}()
				if !strings.Contains(r.failure, "waited") || time.Since(begin) < await.Limit {
					t.Errorf("%s failed with %q after %v, want a failure after %v", name, r.failure, time.Since(begin), await.Limit)
				}
			})
		})
	}
}
