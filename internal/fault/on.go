//go:build faults

package fault

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// On reports whether this is a build with faults.
const On = true

// The settings from the environment. They are read before main.
var (
	killAt, killLeft = kill(os.Getenv("GRAPNEL_FAULT_KILL"))
	sleepAt, sleep   = pause(os.Getenv("GRAPNEL_FAULT_SLEEP"))
	clock            = os.Getenv("GRAPNEL_FAULT_CLOCK")
	profile          = os.Getenv("GRAPNEL_FAULT_PROFILE")
	seenFile         = os.Getenv("GRAPNEL_FAULT_SEEN")
	seen             sync.Map
)

func kill(text string) (string, *atomic.Int64) {
	point, times, _ := strings.Cut(text, "*")
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil {
		n = 1
	}
	left := new(atomic.Int64)
	left.Store(n)
	return point, left
}

func pause(text string) (string, time.Duration) {
	point, long, _ := strings.Cut(text, "=")
	d, _ := time.ParseDuration(long)
	return point, d
}

// At marks a point at which the process can die.
func At(point string) {
	if seenFile != "" {
		if _, before := seen.LoadOrStore(point, true); !before {
			note(point)
		}
	}
	if point == sleepAt {
		time.Sleep(sleep)
	}
	if point == killAt && killLeft.Add(-1) == 0 {
		die()
	}
}

func note(point string) {
	f, err := os.OpenFile(seenFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, _ = f.WriteString(point + "\n")
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "grapnel: error: cannot note the point %q: %v\n", point, err)
	}
}

// die ends the process like a power failure: without any cleanup.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = p.Kill()
	}
	select {} // the signal may arrive later
}

// Less returns a size or a duration divided by 1024, at least 1, so that tests reach limits of
// minutes or of millions of lines. A process that is profiled keeps n.
func Less[T ~int64](n T) T {
	if profile != "" {
		return n
	}
	return max(1, n/1024)
}

// Now returns the time plus the duration in the file GRAPNEL_FAULT_CLOCK. The duration can be
// negative.
func Now() time.Time {
	now := time.Now()
	if clock == "" {
		return now
	}
	text, err := os.ReadFile(clock)
	if err != nil {
		return now
	}
	ahead, err := time.ParseDuration(string(bytes.TrimSpace(text)))
	if err != nil {
		return now
	}
	return now.Add(ahead).Round(0) // a jump of the wall clock, which a monotonic reading would hide
}

func init() {
	if profile == "" {
		return
	}
	f, err := os.Create(profile)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "grapnel: error: no profile: %v\n", err)
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM) // the program also handles this signal
	go func() {
		<-signals
		pprof.StopCPUProfile()
		_ = f.Close()
	}()
}
