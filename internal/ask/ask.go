// Package ask is the hook of an `http:` entry: it asks a server about an event, unless the circuit
// breaker of the server is open. It makes no connections itself, so grapnel-hook can link it. The
// processes of a machine share the states of the circuit breakers.
package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A Question is one event for one server. "grapnel deliver" reads it and replies with a
// [Reply].
type Question struct {
	HTTP policyfile.HTTP `json:"http"` // with variables resolved, under the full name of the hook
	policyfile.Reach
	ID    string          `json:"id,omitempty"`   // of the event
	Until time.Time       `json:"until,omitzero"` // deadline of the answer; includes the start of the program
	Event json.RawMessage `json:"event"`          // in the plain dialect, with its origin; sent byte for byte
}

// A Reply is the result of a Question.
type Reply struct {
	Answer  json.RawMessage `json:"answer,omitempty"` // the JSON object that the server answered with
	Error   string          `json:"error,omitempty"`
	Failed  bool            `json:"failed,omitempty"`  // the server failed; its circuit breaker counts this
	Timeout bool            `json:"timeout,omitempty"` // the deadline passed
}

// Circuits stores the circuit breaker states of servers, shared by all processes.
type Circuits interface {
	load.Counter
	Counted(owner, key string) ([]byte, error)
}

// A Hook is the hook of an `http:` entry. Send asks the server, and only while the circuit breaker of
// the server permits it.
//
// The nesting depth of hooks is not checked: a server does not start agents of this machine, and
// a project could set the variable that holds the depth.
type Hook struct {
	HTTP     policyfile.HTTP
	Reach    func() policyfile.Reach // what the policies allow
	Circuits Circuits

	// Send sends a Question, which is JSON in one line. An error means that the server was not asked,
	// or that there is no reply in time.
	Send func(ctx context.Context, question []byte) (Reply, error)
}

// ReadsID marks that the hook uses the event ID: the identity of the request is derived from it.
func (a *Hook) ReadsID() {}

// Grace returns how long it takes to end the program that sends the request.
func (a *Hook) Grace() time.Duration {
	if g, ok := process.System.(seam.Graceful); ok {
		return g.Grace()
	}
	return 0
}

// Handle sends an event to the server, if its circuit breaker permits it, and returns the
// outcome.
func (a *Hook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	pass, err := a.enter()
	if err != nil {
		return grapnel.Outcome{}, err
	}
	out, result, err := a.ask(ctx, ev)
	a.leave(pass, result)
	return out, err
}

// circuitKey returns the key of a server's circuit breaker state. Its owner is the hook: each hook has its
// own circuit per server.
func circuitKey(h *policyfile.HTTP) string { return "http\x00" + h.URL }

// keepCircuit is how long failures are stored after the last one.
const keepCircuit = 24 * time.Hour

// enter reports whether the server may be asked. If the state cannot be stored, the hook has no
// circuit breaker: a request that fails does less harm than a missing request.
func (a *Hook) enter() (circuit.Pass, error) {
	kept, err := a.Circuits.Counted(a.HTTP.FullName(), circuitKey(&a.HTTP))
	if err != nil || kept == nil { // read without a lock
		return circuit.Through, nil //nolint:nilerr // see the comment of enter
	}
	now, limits, patience := time.Now(), a.HTTP.Breaker.Limits(), time.Duration(a.HTTP.Timeout)+a.Grace()+time.Second
	state, pass := circuit.Read(kept).Enter(now, limits, patience)
	if pass == circuit.Probe { // only one of all concurrent requests is the probe
		err := a.Circuits.Count(a.HTTP.FullName(), circuitKey(&a.HTTP), func(kept []byte) ([]byte, time.Duration) {
			if state, pass = circuit.Read(kept).Enter(now, limits, patience); pass == circuit.Probe {
				return state.Bytes(), keepCircuit
			}
			return nil, 0
		})
		if err != nil {
			return circuit.Through, nil //nolint:nilerr // see the comment of enter
		}
	}
	if pass == circuit.Refused {
		return pass, fmt.Errorf("the server is %w", state.Err(now))
	}
	return pass, nil
}

// leave stores the result of a request, if it changes the circuit breaker state.
func (a *Hook) leave(pass circuit.Pass, result circuit.Result) {
	if pass == circuit.Through && result == circuit.Unknown {
		return
	}
	if pass == circuit.Through && result == circuit.Answered {
		if kept, err := a.Circuits.Counted(a.HTTP.FullName(), circuitKey(&a.HTTP)); err == nil && circuit.Read(kept) == (circuit.State{}) {
			return
		}
	}
	now, limits := time.Now(), a.HTTP.Breaker.Limits()
	_ = a.Circuits.Count(a.HTTP.FullName(), circuitKey(&a.HTTP), func(kept []byte) ([]byte, time.Duration) { // an error is ignored; see enter
		return circuit.Read(kept).Leave(now, limits, pass, result).Bytes(), keepCircuit
	})
}

// ask sends the request, and returns the outcome and the result for the circuit breaker.
func (a *Hook) ask(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, circuit.Result, error) {
	question, err := a.question(ctx, ev)
	if err != nil {
		return grapnel.Outcome{}, circuit.Unknown, err
	}
	reply, err := a.Send(ctx, question)
	switch {
	case err != nil && errors.Is(err, grapnel.ErrTimeout): // the program has a shorter timeout of its own, so it hangs or has not started
		return grapnel.Outcome{}, circuit.Failed, err
	case err != nil:
		return grapnel.Outcome{}, circuit.Unknown, err
	case reply.Error != "":
		result := circuit.Unknown
		if reply.Failed {
			result = circuit.Failed
		}
		if reply.Timeout {
			return grapnel.Outcome{}, result, fmt.Errorf("%w: %s", grapnel.ErrTimeout, reply.Error)
		}
		return grapnel.Outcome{}, result, errors.New(reply.Error)
	}
	out, err := dialect.Plain().ReadOutcome(ev, dialect.Output{Stdout: reply.Answer})
	if err != nil {
		return grapnel.Outcome{}, circuit.Failed, err
	}
	return out, circuit.Answered, nil
}

// question returns the input of the program that sends the request.
func (a *Hook) question(ctx context.Context, ev *grapnel.Event) ([]byte, error) {
	h, err := a.HTTP.Resolve()
	if err != nil {
		return nil, err
	}
	h.Name = a.HTTP.FullName()
	until := time.Now().Add(time.Duration(h.Timeout))
	if end, ok := ctx.Deadline(); ok {
		// The program must time out first, so that its more detailed error is reported.
		left := time.Until(end)
		end = end.Add(-min(left/10, 100*time.Millisecond))
		if end.Before(until) {
			until = end
		}
	}
	event, err := dialect.Plain().WriteEvent(ev)
	if err == nil {
		event, err = wire.Originated(event, wire.OriginFrom(ctx).For(a.HTTP.Name, a.HTTP.Source, ev.Verdict()))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode the event: %w", err)
	}
	head, err := json.Marshal(Question{HTTP: h, Reach: a.Reach(), ID: ev.ID, Until: until, Event: json.RawMessage("0")})
	if err != nil {
		return nil, err
	}
	// The event is appended unchanged: it may be large and is JSON already.
	head = head[:len(head)-len("0}")]
	return append(append(head, event...), '}'), nil
}

// Circuit returns why the server of a hook would not be asked now, or nil.
func Circuit(place local.Place, h *policyfile.HTTP, now time.Time) error {
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		return nil // reported elsewhere
	}
	defer func() { _ = sp.Close() }()
	kept, err := sp.Counted(h.FullName(), circuitKey(h))
	if err != nil || kept == nil {
		return nil
	}
	state, pass := circuit.Read(kept).Enter(now, h.Breaker.Limits(), time.Duration(h.Timeout))
	if pass != circuit.Refused {
		return nil
	}
	return state.Err(now)
}
