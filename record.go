package grapnel

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// A Record is what is kept of one firing: who ran, what they said, what came of
// it. Its JSON is one line of the log.
type Record struct {
	ID          string    `json:"id"`
	Time        time.Time `json:"time"`
	Agent       string    `json:"agent"`
	Session     string    `json:"session"`
	Event       Kind      `json:"event"`
	Tool        string    `json:"tool,omitempty"`
	Decision    Decision  `json:"decision"`
	Would       Decision  `json:"would,omitempty"` // what observing hooks would have decided
	Hooks       []HookRun `json:"hooks"`
	Reasons     []Reason  `json:"reasons,omitempty"`
	Halt        string    `json:"halt,omitempty"`
	Changed     []Field   `json:"changed,omitempty"`
	Conflicts   []string  `json:"conflicts,omitempty"` // fields that two hooks of one step both replaced
	Unsupported []string  `json:"unsupported,omitempty"`
	Error       string    `json:"error,omitempty"` // the event could not be read or answered as it should
	MS          float64   `json:"ms"`
	Input       *Event    `json:"input,omitempty"` // the event as it came
	Verdict     *Verdict  `json:"-"`
}

// HookRun is one hook's part in a Record.
type HookRun struct {
	Name     string   `json:"name"`
	Source   string   `json:"source"`
	Line     int      `json:"line,omitempty"` // where it stands in its source's file
	Decision Decision `json:"decision"`
	Cause    Cause    `json:"cause,omitempty"`
	Error    string   `json:"error,omitempty"`
	Halt     bool     `json:"halt,omitempty"`      // it wants the turn to end
	Changed  []Field  `json:"changed,omitempty"`   // what it set or patched, or in observe mode would have
	FailOpen bool     `json:"fail_open,omitempty"` // it failed, and the action went on all the same
	Expired  bool     `json:"expired,omitempty"`   // its Allow does not count: it was for another input, or not its to give
	Observed bool     `json:"observed,omitempty"`  // Decision is what it would have said
	Round    int      `json:"round,omitempty"`     // 2 = it was asked again
	Async    bool     `json:"async,omitempty"`     // it runs after the answer
	MS       float64  `json:"ms"`

	// What is known where it ran, and is not kept.
	Phase   Phase    `json:"-"`
	Step    int      `json:"-"` // from 1: hooks of one step were asked at once; 0 = it was not asked as the firing's others are
	Saw     *Event   `json:"-"` // the event as the steps before had left it; nil = it does not run yet
	Outcome *Outcome `json:"-"` // what it said; nil = no opinion, or it does not run yet
	Expiry  Expiry   `json:"-"` // why it is Expired
}

// Expiry is why an Allow does not count.
type Expiry uint8

// The reasons.
const (
	NotExpired    Expiry = iota
	ExpiredOpen          // a guard failed open, and nobody knows what it would have said
	ExpiredInput         // it was for another input than the one that goes on
	ExpiredSource        // it is not for its source to give
)

var expiryNames = [...]string{
	NotExpired: "", ExpiredOpen: "a guard could not answer", ExpiredInput: "it was for another input", ExpiredSource: "its source may not give it",
}

// String says it in a few words, and nothing of what has not expired.
func (x Expiry) String() string { return nameOf(expiryNames[:], int(x), "expiry") }

// An Observer is told of every firing once its Verdict is final, also after a
// block. Observe is called before Fire returns, so it must be quick; what takes
// time belongs into a Spec of PhaseObserve. It must not change the Record.
type Observer interface {
	Observe(ctx context.Context, rec *Record)
}

// ObserverFunc lets an ordinary function be an Observer.
type ObserverFunc func(ctx context.Context, rec *Record)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, rec *Record) { f(ctx, rec) }

// Background runs the observing hooks of a firing after its Verdict. ev carries
// the Verdict. Run must not wait for them; an error is put into the Record and is
// shown.
type Background interface {
	Run(ctx context.Context, ev *Event, hooks []Spec) error
}

// newID returns an identifier that sorts by time: 48 bits of milliseconds, which
// last until the year 10889, then 64 random bits.
func newID(now time.Time) string {
	var id [14]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[6:], rand.Uint64()) //nolint:gosec // an ID is no secret
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
