package await

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of a package and ends the process. The process fails if goroutines of the
// tests still run a minute later. The idle connections of net/http last longer:
//
//	func TestMain(m *testing.M) { await.Main(m) }
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := running(time.Minute); left != "" {
			fmt.Fprintln(os.Stderr, "goroutines of the tests still run:\n\n"+left)
			code = 1
		}
	}
	os.Exit(code)
}

// running waits until only this goroutine and goroutines of the runtime are left. It returns the
// stacks of the others at the end of the limit.
func running(limit time.Duration) string {
	for end := time.Now().Add(limit); ; time.Sleep(interval) {
		buffer := make([]byte, 1<<20)
		stacks := strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n")
		left := strings.Join(slices.DeleteFunc(stacks[1:], ofRuntime), "\n\n")
		if left == "" || time.Now().After(end) {
			return left
		}
	}
}

// ofRuntime reports whether the runtime started a goroutine: to receive signals, or for cgo.
func ofRuntime(stack string) bool {
	return strings.Contains(stack, "os/signal.loop") || strings.Contains(stack, "runtime.ensureSigM") ||
		strings.Contains(stack, "[syscall") && strings.Contains(stack, "runtime.goexit")
}
