// Package await lets a test wait for the result of another goroutine or process:
//
//	await.Until(t, "the daemon listens", func() bool { return reachable(socket) })
//	reply := await.Receive(t, "the reply", replies)
//
// All waits share one long limit. A test must not set a shorter limit, because it would fail on a
// busy machine without a defect. Use testing/synctest where all goroutines run in the test
// process and block only on each other.
package await

import (
	"testing"
	"time"
)

// Limit is the longest wait. A condition that is still false then is assumed to stay false.
const Limit = 2 * time.Minute

const interval = 5 * time.Millisecond

// Until calls ok until it returns true, and ends the test when Limit has passed. The argument
// what describes the condition in the failure message. Until must run in the goroutine of the
// test.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !ok(); time.Sleep(interval) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for this condition: %s", Limit, what)
		}
	}
}

// Receive returns the next value of c, and ends the test when Limit has passed. It returns the
// zero value if c is closed. Receive must run in the goroutine of the test.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Limit):
		t.Fatalf("waited %v for a value: %s", Limit, what)
		panic("unreachable")
	}
}
