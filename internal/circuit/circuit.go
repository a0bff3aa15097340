// Package circuit implements a circuit breaker for servers. It is pure: the caller stores the
// [State] and provides the time.
//
// A closed circuit lets every request pass. After a number of failures in a row the circuit opens
// and refuses all requests for a cooldown. Then one request passes as a probe. Its result closes
// the circuit or opens it for another cooldown.
package circuit

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits define when a circuit opens and for how long.
type Limits struct {
	Failures int           // failures in a row that open the circuit; 0 = DefaultFailures
	Cooldown time.Duration // time for which the circuit stays open; 0 = DefaultCooldown
}

// The defaults of Limits.
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

// State is the state of a circuit. The zero State is closed.
type State struct {
	Failures int   // failures in a row
	Until    int64 // the circuit is open until then, in nanoseconds since 1970; 0 = closed
	Trying   int64 // a probe is running, at most until then, in nanoseconds since 1970; 0 = no probe
}

// Read decodes a State that Bytes encoded. Invalid data gives a closed circuit, because a damaged
// file must not block requests.
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

// Bytes encodes the State for Read.
func (s State) Bytes() []byte {
	b := strconv.AppendInt(nil, int64(s.Failures), 10)
	b = strconv.AppendInt(append(b, ' '), s.Until, 10)
	return strconv.AppendInt(append(b, ' '), s.Trying, 10)
}

// A Pass is the decision about one request.
type Pass uint8

// The decisions about a request.
const (
	Refused Pass = iota
	Through
	Probe // passes to find out whether the server is back
)

// Enter requests a pass and returns the new State. A caller that gets a Probe must finish within
// patience; then another caller may probe.
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

// ahead reports whether a time is in the future by at most most. After a clock is set back, a
// time may be too far ahead; such a time must not keep a circuit open forever.
func ahead(at int64, now time.Time, most time.Duration) bool {
	left := time.Duration(at - now.UnixNano())
	return left > 0 && left <= most
}

// A Result is the result of a request.
type Result uint8

// The results of a request.
const (
	Unknown  Result = iota // the request gives no information about the server
	Answered               // the server works
	Failed                 // the server is unreachable or cannot answer
)

// Leave returns the new State after a request. A request that passed while the circuit was closed
// changes nothing once the circuit is open; then only a probe does.
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

// Err returns the reason for a refused request.
func (s State) Err(now time.Time) error {
	at := time.Unix(0, s.Until)
	if !at.After(now) {
		return fmt.Errorf("not asked: the circuit is half open after %d failures in a row, and another request tries whether the server is back", s.Failures)
	}
	return fmt.Errorf("not asked: circuit open until %s, after %d failures in a row", at.Format("15:04:05"), s.Failures)
}
