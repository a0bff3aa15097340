package delivery

import (
	"context"
	"encoding/json"
	"time"
)

// A Job is the delivery of one event to the address of one hook.
type Job struct {
	ID      string          `json:"id"`     // the same in every attempt, so that a receiver can recognize the job
	Record  string          `json:"record"` // the ID of the firing
	Target  string          `json:"target"` // the full name of the hook: source::name
	Hook    Hook            `json:"hook"`
	Session string          `json:"session,omitempty"`
	Ordered bool            `json:"ordered,omitempty"` // delivered after earlier ordered jobs of the same target and session
	Event   json.RawMessage `json:"event"`             // with its Verdict, as far as the hook may see it
	Created time.Time       `json:"created"`

	State  State     `json:"state"`
	Tries  int       `json:"tries"`
	Next   time.Time `json:"next,omitzero"`    // when the job is due; zero = at once
	Status int       `json:"status,omitempty"` // HTTP status of the last reply; 0 = none
	Error  string    `json:"error,omitempty"`  // of the last attempt
	Ended  time.Time `json:"ended,omitzero"`   // when the job was delivered or became dead
}

// Hook identifies a hook and the content of its file. The address and the secrets come from that
// content. They are resolved for each attempt and are not stored.
type Hook struct {
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
	File   string `json:"file,omitempty"`
	Digest string `json:"digest,omitempty"`
	Scope  string `json:"scope,omitempty"`
}

// State is the state of a Job.
type State string

// The states.
const (
	Waiting   State = "waiting"   // for its time
	Delivered State = "delivered" // an attempt succeeded with a 2xx
	Dead      State = "dead"      // no more attempts; the operator can retry it
)

// A Result is the result of one attempt to deliver a Job.
type Result struct {
	ID     string
	State  State     // Waiting = try again
	Next   time.Time // time of the next attempt, if State is Waiting
	Status int
	Error  string
	At     time.Time
	Off    bool // the target refused all deliveries (410): its jobs wait until the operator resumes it

	// Untried means that no attempt was made: the lease ends, the job is due as before, and
	// nothing is counted. State, Next, Status and Error are the values of the job.
	Untried bool
}

// A Queue stores Jobs until they are done. When a method returns without an error, its changes
// are on disk. It is safe for concurrent use.
type Queue interface {
	// Lease returns up to n jobs that are due, oldest first. It does not return them again until
	// the lease ends or they are settled. It leaves out targets that are off or in except, and
	// all ordered jobs but the first of each target and session.
	Lease(ctx context.Context, now time.Time, lease time.Duration, n int, except []string) ([]Job, error)

	// Settle stores the results of attempts.
	Settle(ctx context.Context, results []Result) error

	// NextDue returns when the next job is due that is not leased; zero = no such job.
	NextDue(ctx context.Context) (time.Time, error)
}
