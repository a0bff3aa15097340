// Package circuit decides whether a server that has failed is asked again. It is pure:
// where the [State] is kept, and who tells the time, is the caller's.
//
// A circuit is closed: everybody gets through. After so many failures in a row it is
// open: nobody does, for a while. Then one gets through, and what becomes of that one
// closes the circuit or opens it for as long again.
package circuit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits say when a circuit opens.
type Limits struct {
	Failures int           // so many in a row; 0 = DefaultFailures
	Cooldown time.Duration // and nobody gets through for so long; 0 = DefaultCooldown
}

// What Limits are that name none.
const (
	DefaultFailures = 5
	DefaultCooldown = 30 * time.Second
)

func (l Limits) orDefault() Limits {
	if l.Failures <= 0 {
		l.Failures = DefaultFailures
	}
	if l.Cooldown <= 0 {
		l.Cooldown = DefaultCooldown
	}
	return l
}

// State is how a circuit stands. The zero State is closed.
type State struct {
	Failures int   // in a row
	Until    int64 // open until then, in nanoseconds since 1970; 0 = closed
	Trying   int64 // somebody tries until then whether the server is back; 0 = nobody
}

// Read reads what Bytes has written. What cannot be read is closed: a file that is
// damaged must not keep anybody from asking.
func Read(kept []byte) State {
	var s State
	fields := strings.Fields(string(kept))
	if len(fields) != 3 {
		return State{}
	}
	failures, err1 := strconv.Atoi(fields[0])
	until, err2 := strconv.ParseInt(fields[1], 10, 64)
	trying, err3 := strconv.ParseInt(fields[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || failures < 0 || until < 0 || trying < 0 {
		return State{}
	}
	s.Failures, s.Until, s.Trying = failures, until, trying
	return s
}

// Bytes is the State as it is kept.
func (s State) Bytes() []byte {
	b := strconv.AppendInt(nil, int64(s.Failures), 10)
	b = strconv.AppendInt(append(b, ' '), s.Until, 10)
	return strconv.AppendInt(append(b, ' '), s.Trying, 10)
}

// A Pass says whether somebody gets through.
type Pass uint8

// The passes.
const (
	Refused Pass = iota
	Through
	Probe // to find out whether the server is back
)

// Enter asks for a pass, and returns how the circuit then stands. Whoever gets a Probe
// is done within patience; then somebody else may try.
func (s State) Enter(now time.Time, limits Limits, patience time.Duration) (State, Pass) {
	limits = limits.orDefault()
	switch {
	case s.Until == 0:
		return s, Through
	case ahead(s.Until, now, limits.Cooldown), ahead(s.Trying, now, patience):
		return s, Refused
	}
	s.Trying = now.Add(patience).UnixNano()
	return s, Probe
}

// ahead reports whether a time is to come, and not further away than it can be: a clock
// that was turned back must not keep a circuit open for ever.
func ahead(at int64, now time.Time, most time.Duration) bool {
	left := time.Duration(at - now.UnixNano())
	return left > 0 && left <= most
}

// A Result is what became of a pass.
type Result uint8

// The results.
const (
	Unknown  Result = iota // it says nothing about the server
	Answered               // the server is there
	Failed                 // it is not, or is in no state to answer
)

// Leave returns how the circuit stands after a pass. What got through while the circuit
// was closed changes nothing once it is open: only a probe is news then.
func (s State) Leave(now time.Time, limits Limits, pass Pass, result Result) State {
	limits = limits.orDefault()
	switch {
	case pass == Refused:
	case pass == Probe && result == Unknown:
		s.Trying = 0
	case pass == Probe && result == Answered, s.Until == 0 && result == Answered:
		return State{}
	case pass == Probe:
		s.Failures++
		s.Until, s.Trying = now.Add(limits.Cooldown).UnixNano(), 0
	case s.Until == 0 && result == Failed:
		if s.Failures++; s.Failures >= limits.Failures {
			s.Until = now.Add(limits.Cooldown).UnixNano()
		}
	}
	return s
}

// Err says why nobody gets through.
func (s State) Err(now time.Time) error {
	at := time.Unix(0, s.Until)
	if !at.After(now) {
		return fmt.Errorf("not asked: the circuit is half open after %d failures in a row, and another request tries whether the server is back", s.Failures)
	}
	return fmt.Errorf("not asked: circuit open until %s, after %d failures in a row", at.Format("15:04:05"), s.Failures)
}
