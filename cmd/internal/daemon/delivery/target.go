package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/outbound"
)

// A Target is the destination of a job, as the policy describes it at the time of the attempt.
type Target struct {
	URL      string            // https; http only if the client's Guard allows the network
	Secrets  []string          // each makes one signature: whsec_ HMAC, whsk_ Ed25519; nil = no signature
	Headers  map[string]string // in addition to the headers of Grapnel
	Timeout  time.Duration     // of one attempt; 0 = outbound.DefaultHookTimeout, at most outbound.MaxTimeout
	Envelope string            // one of webhook.Envelopes; empty = plain

	// MaxInFlight is the maximum number of concurrent attempts; 0 = DefaultMaxInFlight. No target
	// gets more than half of the maximum of the Deliverer.
	MaxInFlight int

	// After Failures failures in a row, the target gets no attempts for Cooldown, and its jobs
	// wait. 0 = 5 failures, 30 s.
	Failures int
	Cooldown time.Duration
}

// DefaultMaxInFlight is the MaxInFlight of a Target that sets none.
const DefaultMaxInFlight = 8

// resolveTime is the timeout of Resolve, tryTime the maximum time of an attempt.
const (
	resolveTime = 10 * time.Second
	tryTime     = resolveTime + outbound.MaxTimeout
)

// errStopped is the error of an attempt that was canceled.
var errStopped = errors.New("the delivery service is stopping")

// A tried is the result of an attempt. Before that, a tried with known set has only its target.
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

// try makes one attempt. Its only effects are the request and the call of Observe.
func (d *Deliverer) try(ctx context.Context, l *lane, j Job, pass circuit.Pass, known func(tried)) tried {
	begun := time.Now()
	reply, err := d.send(ctx, &j, func(t Target) { known(tried{lane: l, known: true, target: t}) })
	if fault.On {
		fault.At("deliver: told")
	}
	end := tried{lane: l, job: j, pass: pass}
	if err != nil && ctx.Err() != nil {
		end.result = untried(&j) // it is unknown whether the receiver got it: the next attempt counts
		return end
	}
	end.result, end.hold = judge(&j, reply, err, d.opts.Now(), d.opts.Rand())
	end.server = health(end, reply, err)
	if d.opts.Observe != nil {
		d.opts.Observe(j, end.result, time.Since(begun))
	}
	return end
}

// untried returns the result that gives a job back unchanged.
func untried(j *Job) Result {
	return Result{ID: j.ID, State: Waiting, Next: j.Next, Status: j.Status, Error: j.Error, Untried: true}
}

// health returns the state of the server after an attempt, for the circuit breaker.
func health(end tried, reply outbound.Reply, err error) circuit.Result {
	switch {
	case err == nil, reply.Status != 0 && !outbound.ServerFailed(err):
		return circuit.Answered
	case end.hold > 0, !outbound.ServerFailed(err): // the server asked to wait, or the error is on this side
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
	body, media, err := webhook.Body(target.Envelope, &webhook.Delivery{ID: j.ID, Target: j.Target, Event: j.Event, Created: j.Created})
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
			err = fmt.Errorf("cannot resolve the target: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return d.opts.Resolve(ctx, j)
}
