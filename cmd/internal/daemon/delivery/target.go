package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/outbound"
)

// A Target is where a job goes, and how, as the policy says when it is tried.
type Target struct {
	URL      string            // https; http only where the client's Guard has the network open
	Secrets  []string          // each makes a signature: whsec_ HMAC, whsk_ Ed25519; nil = nothing is signed
	Headers  map[string]string // beside our own
	Timeout  time.Duration     // of one try; 0 = outbound.DefaultHookTimeout, at most outbound.MaxTimeout
	Envelope string            // one of Envelopes; empty = EnvelopePlain

	// MaxInFlight is how many tries may be under way at once; 0 = DefaultMaxInFlight. No
	// target gets more than half of what all together may have.
	MaxInFlight int

	// After so many failures in a row it is left alone for so long, and its jobs wait
	// without being tried. 0 = 5 failures, 30 s.
	Failures int
	Cooldown time.Duration
}

// DefaultMaxInFlight is the MaxInFlight of a Target that names none.
const DefaultMaxInFlight = 8

// resolveTime is how long it may take to find out where a job goes, lookTime how long a
// try may take at most.
const (
	resolveTime = 10 * time.Second
	tryTime     = resolveTime + outbound.MaxTimeout
)

// errStopped is why a try was given up.
var errStopped = errors.New("the deliverer stops")

// A tried says how a try ended. Before that, one with known set says where it goes.
type tried struct {
	lane   *lane
	known  bool
	target Target

	job    Job
	result Result
	hold   time.Duration
	server circuit.Result
	pass   circuit.Pass
}

// try tries a job once. It has no effect but on the receiver and those who observe.
func (d *Deliverer) try(ctx context.Context, l *lane, j Job, pass circuit.Pass, known func(tried)) tried {
	begun := time.Now()
	reply, err := d.send(ctx, &j, func(t Target) { known(tried{lane: l, known: true, target: t}) })
	if fault.On {
		fault.At("deliver: told")
	}
	end := tried{lane: l, job: j, pass: pass}
	if err != nil && ctx.Err() != nil {
		end.result = untried(&j) // nobody knows whether it was heard: it is said again, and counts then
		return end
	}
	end.result, end.hold = judge(&j, reply, err, d.opts.Now(), d.opts.Rand())
	end.server = health(end, reply, err)
	if d.opts.Observe != nil {
		d.opts.Observe(j, end.result, time.Since(begun))
	}
	return end
}

// untried gives a job back as it was.
func untried(j *Job) Result {
	return Result{ID: j.ID, State: Waiting, Next: j.Next, Status: j.Status, Error: j.Error, Untried: true}
}

// health is what a try says about the server.
func health(end tried, reply outbound.Reply, err error) circuit.Result {
	switch {
	case err == nil, reply.Status != 0 && !outbound.ServerFailed(err):
		return circuit.Answered
	case end.hold > 0, !outbound.ServerFailed(err): // it said for how long; it is about us
		return circuit.Unknown
	default:
		return circuit.Failed
	}
}

func (d *Deliverer) send(ctx context.Context, j *Job, known func(Target)) (outbound.Reply, error) {
	target, err := d.resolve(ctx, j)
	if err != nil {
		return outbound.Reply{}, err
	}
	known(target)
	body, media, err := envelope(target.Envelope, j)
	if err != nil {
		return outbound.Reply{}, err
	}
	return d.opts.Client.Post(ctx, outbound.Message{
		URL: target.URL, ID: j.ID, Body: body, Type: media, Secrets: target.Secrets, Headers: target.Headers, Timeout: target.Timeout,
	})
}

func (d *Deliverer) resolve(ctx context.Context, j *Job) (t Target, err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("where it goes could not be found out: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return d.opts.Resolve(ctx, j)
}
