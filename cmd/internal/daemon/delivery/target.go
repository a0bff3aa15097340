package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/fault"
	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/outbound"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// defaultMost is how many concurrent attempts a server gets that sets no number. No server gets more
// than half of the MaxInFlight of the Deliverer.
const defaultMost = 8

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
	target policyfile.HTTP

	job    Job
	result Result
	hold   time.Duration
	server circuit.Result
	pass   circuit.Pass
}

// try makes one attempt. Its only effects are the request and the call of Observe.
func (d *Deliverer) try(ctx context.Context, l *lane, j Job, pass circuit.Pass, known func(tried)) tried {
	begun := time.Now()
	reply, err := d.send(ctx, &j, func(t policyfile.HTTP) { known(tried{lane: l, known: true, target: t}) })
	fault.At("deliver: told")
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

func (d *Deliverer) send(ctx context.Context, j *Job, known func(policyfile.HTTP)) (outbound.Reply, error) {
	target, err := d.resolve(ctx, j)
	if err != nil {
		return outbound.Reply{}, err
	}
	known(target)
	return webhook.Send(ctx, d.opts.Client, &target, &webhook.Delivery{ID: j.ID, Target: j.Target, Event: j.Event, Created: j.Created})
}

func (d *Deliverer) resolve(ctx context.Context, j *Job) (t policyfile.HTTP, err error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot resolve the target: panic: %v\n%s", p, debug.Stack())
		}
	}()
	return d.opts.Resolve(ctx, j)
}
