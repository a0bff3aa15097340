package circuit

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

var limits = Limits{Failures: 3, Cooldown: 10 * time.Second}

// A circuit opens after a number of failures in a row, lets one probe pass after the cooldown,
// and follows the result of the probe.
func TestCircuit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var s State
	enter := func(want Pass) Pass {
		t.Helper()
		var pass Pass
		if s, pass = s.Enter(now, limits, time.Second); pass != want {
			t.Fatalf("%+v at %v: pass %v, want %v", s, now, pass, want)
		}
		return pass
	}
	leave := func(p Pass, r Result) { s = s.Leave(now, limits, p, r) }

	for range 2 {
		leave(enter(Through), Failed)
	}
	leave(enter(Through), Answered) // interrupts the row of failures
	for range 2 {
		leave(enter(Through), Failed)
	}
	late := enter(Through)
	leave(enter(Through), Unknown) // gives no information
	leave(enter(Through), Failed)
	enter(Refused)
	if err := s.Err(now); !strings.Contains(err.Error(), "circuit open until "+now.Add(10*time.Second).Format("15:04:05")+", after 3 failures") {
		t.Error(err)
	}
	leave(late, Answered) // began before the circuit opened
	now = now.Add(9999 * time.Millisecond)
	enter(Refused)

	now = now.Add(time.Millisecond)
	probe := enter(Probe)
	enter(Refused)
	if err := s.Err(now); !strings.Contains(err.Error(), "half open") {
		t.Error(err)
	}
	leave(late, Failed)
	leave(probe, Failed)
	enter(Refused)
	now = now.Add(10 * time.Second)
	enter(Probe)
	now = now.Add(time.Second) // the process with the probe was killed
	leave(enter(Probe), Unknown)
	leave(enter(Probe), Answered)
	if enter(Through); s != (State{}) {
		t.Errorf("closed it is %+v", s)
	}
}

// A clock that is set back does not keep the circuit open.
func TestClockTurnedBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	s := State{Failures: 3, Until: now.Add(5 * time.Second).UnixNano()}
	if _, pass := s.Enter(now.Add(-time.Hour), limits, time.Second); pass != Probe {
		t.Errorf("an hour earlier: pass %v", pass)
	}
}

// A State is decoded unchanged, and damaged data gives a closed circuit.
func TestBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := State{rapid.IntRange(0, 1<<30).Draw(t, "failures"), rapid.Int64Range(0, 1<<62).Draw(t, "until"), rapid.Int64Range(0, 1<<62).Draw(t, "trying")}
		if got := Read(s.Bytes()); got != s {
			t.Fatalf("%s is read as %+v", s.Bytes(), got)
		}
	})
	for _, kept := range []string{"", "1 2", "1 2 3 4", "-1 2 3", "a b c", "1 -2 3", "99999999999999999999 1 1", "\x00\xff"} {
		if got := Read([]byte(kept)); got != (State{}) {
			t.Errorf("%q is read as %+v", kept, got)
		}
	}
}
