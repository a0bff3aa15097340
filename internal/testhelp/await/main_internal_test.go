package await

import (
	"strings"
	"testing"
)

// Main reports a goroutine that still runs, and none that has ended.
func TestRunning(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	if got := running(0); !strings.Contains(got, "created by github.com/grapnel-dev/grapnel/internal/testhelp/await.TestRunning") {
		t.Errorf("running() = %s, want the goroutine of this test", got)
	}
	close(end)
	Until(t, "the goroutine has ended", func() bool { return !strings.Contains(running(0), "await.TestRunning") })
	if stack := "goroutine 7 [syscall]:\nos/signal.signal_recv()\nos/signal.loop()"; !ofRuntime(stack) {
		t.Error("the goroutine that receives signals is of the runtime")
	}
}
