package delivery

import (
	"context"
	"encoding/json"
	"time"
)

// A Job is one event that one hook wants told to its address.
type Job struct {
	ID      string          `json:"id"`     // the same in every try, so that a receiver knows it again
	Record  string          `json:"record"` // the ID of the firing
	Target  string          `json:"target"` // the full name of the hook: source::name
	Hook    Hook            `json:"hook"`
	Session string          `json:"session,omitempty"`
	Ordered bool            `json:"ordered,omitempty"` // after the jobs of the same target and session that came before it
	Event   json.RawMessage `json:"event"`             // with its Verdict, as the hook may see it
	Created time.Time       `json:"created"`

	State  State     `json:"state"`
	Tries  int       `json:"tries"`
	Next   time.Time `json:"next,omitzero"`    // when it is due; zero = at once
	Status int       `json:"status,omitempty"` // of the last answer; 0 = there was none
	Error  string    `json:"error,omitempty"`  // of the last try
	Ended  time.Time `json:"ended,omitzero"`   // when it was delivered or given up
}

// Hook says which hook of which content of a file it was. Its address and its secrets are
// what that content says, and are looked up when the job is done: they are kept nowhere.
type Hook struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	File   string `json:"file,omitempty"`
	Digest string `json:"digest,omitempty"`
	Scope  string `json:"scope,omitempty"`
}

// State is what has become of a Job.
type State string

// The states.
const (
	Waiting   State = "waiting"   // for its time
	Delivered State = "delivered" // a try ended with a 2xx
	Dead      State = "dead"      // given up; a person can have it tried again
)

// A Result is how a try of a Job ended.
type Result struct {
	ID     string
	State  State     // Waiting = once more
	Next   time.Time // when, of one that waits
	Status int
	Error  string
	At     time.Time
	Off    bool // the target wants no more (410): its jobs wait until a person switches it on

	// There was no try: the lease is over, the job is due as it was, and nothing is counted.
	// State, Next, Status and Error are those of the job.
	Untried bool
}

// A Queue keeps Jobs until they are done. What it was told is on disk when a method
// returns without an error. It is safe for concurrent use.
type Queue interface {
	// Lease returns up to n jobs that are due, the oldest first, and none of them again
	// before the lease is over or they are settled. It leaves out targets that are off
	// and those of except, and of ordered ones all but the first of each target and session.
	Lease(ctx context.Context, now time.Time, lease time.Duration, n int, except []string) ([]Job, error)

	// Settle says how tries ended.
	Settle(ctx context.Context, results []Result) error

	// NextDue is when the next job is due that is leased to nobody; zero = there is none.
	NextDue(ctx context.Context) (time.Time, error)
}
