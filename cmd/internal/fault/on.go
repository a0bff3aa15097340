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

// On is whether this is a build with faults.
const On = true

// What the environment says. It is read before main.
var (
	killAt, killLeft = kill(os.Getenv("GRAPNEL_FAULT_KILL"))
	sleepAt, sleep   = pause(os.Getenv("GRAPNEL_FAULT_SLEEP"))
	clock            = os.Getenv("GRAPNEL_FAULT_CLOCK")
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

// At is a point at which a process can die.
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

// die ends the process as a machine does that loses its power: nothing is tidied up.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = p.Kill()
	}
	select {} // it may take a moment to arrive
}

// Less is how large or long something is, made less: what happens after a minute or a
// million lines happens here.
func Less[T ~int64](n T) T { return max(1, n/1024) }

// Now is the time, as far ahead or back as the file of the clock says now.
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
	name := os.Getenv("GRAPNEL_FAULT_PROFILE")
	if name == "" {
		return
	}
	f, err := os.Create(name)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "grapnel: error: no profile: %v\n", err)
		return
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM) // and so do others
	go func() {
		<-told
		pprof.StopCPUProfile()
		_ = f.Close()
	}()
}
