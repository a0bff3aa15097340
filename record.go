package grapnel

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// A Record describes one firing. Its JSON is one line of the log.
type Record struct {
	ID          string    `json:"id"`
	Time        time.Time `json:"time"`
	Agent       string    `json:"agent"`
	Session     string    `json:"session"`
	Event       Kind      `json:"event"`
	Tool        string    `json:"tool,omitempty"`
	Decision    Decision  `json:"decision"`
	Would       Decision  `json:"would,omitempty"` // the decision that observing hooks would have made
	Hooks       []HookRun `json:"hooks"`
	Reasons     []Reason  `json:"reasons,omitempty"`
	Halt        string    `json:"halt,omitempty"`
	Changed     []Field   `json:"changed,omitempty"`
	Conflicts   []string  `json:"conflicts,omitempty"` // fields that two hooks of one step both replaced; empty under Grapnel's Preset
	Unsupported []string  `json:"unsupported,omitempty"`
	Error       string    `json:"error,omitempty"` // the event could not be read or fully handled

	// Where an event was judged, and by which policy. The engine sets only Approval.
	Host           string `json:"host,omitempty"`            // name of the machine
	User           string `json:"user,omitempty"`            // name of the user
	Machine        string `json:"machine,omitempty"`         // random ID of the state directory
	PolicyDigest   string `json:"policy_digest,omitempty"`   // digest of the policies in force
	PolicyRevision string `json:"policy_revision,omitempty"` // revision of the managed policy, such as "42" or "42 (expired)"
	Approval       string `json:"approval,omitempty"`        // ID of the approval that was used, see HookRun.Approved
	CallDigest     string `json:"call_digest,omitempty"`     // identifies the stopped call for an approval
	Provenance     string `json:"provenance,omitempty"`      // reserved: ID of the origin of the event's data
	Gateway        string `json:"gateway,omitempty"`         // reserved: name of the gateway that judged the event
	TokensIn       int    `json:"tokens_in,omitempty"`       // tokens of the model's input, if the agent reports them
	TokensOut      int    `json:"tokens_out,omitempty"`      // tokens of the model's output

	MS      float64  `json:"ms"`
	Input   *Event   `json:"input,omitempty"` // the event as it was fired
	Verdict *Verdict `json:"-"`
}

// HookRun is one hook's entry in a Record.
type HookRun struct {
	Name       string   `json:"name"`
	Source     string   `json:"source"`
	Line       int      `json:"line,omitempty"` // line in its source's file
	Decision   Decision `json:"decision"`
	Cause      Cause    `json:"cause,omitempty"`
	Error      string   `json:"error,omitempty"`
	Halt       bool     `json:"halt,omitempty"`       // the hook wants to end the turn
	Changed    []Field  `json:"changed,omitempty"`    // fields that the hook changed, or in observe mode would have changed
	FailOpen   bool     `json:"fail_open,omitempty"`  // the hook failed, and the action continued
	Expired    bool     `json:"expired,omitempty"`    // its Allow is ignored: another input runs, a guard failed open, or its source may not allow
	Observed   bool     `json:"observed,omitempty"`   // Decision is the decision that the hook would have made
	Round      int      `json:"round,omitempty"`      // 2 = the hook ran again in the second round
	Approved   Decision `json:"approved,omitempty"`   // would have stopped the call, but a person approved it: see Record.Approval
	Superseded bool     `json:"superseded,omitempty"` // the hook ran again, because another of its step changed the event first
	Async      bool     `json:"async,omitempty"`      // the hook runs after the answer
	MS         float64  `json:"ms"`

	// For Observers; not stored.
	Phase   Phase    `json:"-"`
	Step    int      `json:"-"` // from 1: hooks of one step were called together; 0 = the hook ran outside the steps
	Saw     *Event   `json:"-"` // the event that the hook got; nil = it has not run yet
	Outcome *Outcome `json:"-"` // the hook's answer; nil = no opinion, or it has not run yet
	Output  *Output  `json:"-"` // the result of the hook's program or server; nil = the hook ran neither, or got no result
	Expiry  string   `json:"-"` // why its Allow is ignored, in a few words
	Err     error    `json:"-"` // why the hook failed, with Error as its text; see ErrTimeout, ErrPanic and ErrIllegal
}

// An Observer gets the Record of every firing when its Verdict is final. Fire waits for it, so it
// must be quick; slow work is for a Spec of PhaseObserve. It must not change the Record.
type Observer interface {
	Observe(ctx context.Context, rec *Record)
}

// ObserverFunc adapts an ordinary function to an Observer.
type ObserverFunc func(ctx context.Context, rec *Record)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, rec *Record) { f(ctx, rec) }

// newID returns an identifier that sorts by time: 48 bits of milliseconds, which last until the
// year 10889, then 64 random bits.
func newID(now time.Time) string {
	var id [14]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	binary.BigEndian.PutUint64(id[6:], rand.Uint64()) // an ID is not a secret
	var text [2 * len(id)]byte
	hex.Encode(text[:], id[:])
	return string(text[:])
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
