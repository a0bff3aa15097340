package hookcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A Question is one event for one server. "grapnel deliver" reads it and replies with a
// [ServerReply].
type Question struct {
	HTTP     policyfile.HTTP `json:"http"`               // with variables resolved, under the full name of the hook
	Networks []string        `json:"networks,omitempty"` // private networks that the policies allow
	ID       string          `json:"id,omitempty"`       // of the event
	Until    time.Time       `json:"until,omitzero"`     // deadline of the answer; includes the start of the program
	Event    json.RawMessage `json:"event"`              // in the plain dialect; sent byte for byte
}

// A ServerReply is the result of a Question.
type ServerReply struct {
	Answer  json.RawMessage `json:"answer,omitempty"` // the JSON object that the server answered with
	Error   string          `json:"error,omitempty"`
	Failed  bool            `json:"failed,omitempty"`  // the server failed; its circuit breaker counts this
	Timeout bool            `json:"timeout,omitempty"` // the deadline passed
}

// circuits stores the circuit breaker states of servers, shared by all processes.
type circuits interface {
	policy.Counter
	Counted(key string) ([]byte, error)
}

// asker is the hook of an `http:` entry. grapnel-hook makes no connections itself, because the
// network packages would slow down each start. It starts the program grapnel instead, and only
// while the circuit breaker of the server permits it.
//
// The nesting depth of hooks is not checked: a server does not start agents of this machine, and
// a project could set the variable that holds the depth.
type asker struct {
	http     policyfile.HTTP
	networks func() []string // private networks that the policies allow
	circuits circuits
	program  func() (string, error) // path of the program that sends the request; if nil, tell sends it
	send     func(ctx context.Context, question []byte) (ServerReply, error)
}

func newAsker(c circuits, h policyfile.HTTP, networks func() []string) *asker {
	return &asker{http: h, networks: networks, circuits: c, program: grapnelProgram}
}

// grapnelProgram returns the path of the program grapnel in the directory of this program.
func grapnelProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return beside(self)
}

// Asker returns the hook of an `http:` entry, which sends real requests. It stores its circuit
// breaker state in c.
func Asker(c circuits, h policyfile.HTTP, networks func() []string) grapnel.Hook {
	return newAsker(c, h, networks)
}

// ReadsID marks that the hook uses the event ID: the identity of the request is derived from it.
func (a *asker) ReadsID() {}

// Grace returns how long it takes to end the program that sends the request.
func (a *asker) Grace() time.Duration {
	if g, ok := process.System.(seam.Graceful); ok {
		return g.Grace()
	}
	return 0
}

// Handle sends an event to the server, if its circuit breaker permits it, and returns the
// outcome.
func (a *asker) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	pass, err := a.enter()
	if err != nil {
		return grapnel.Outcome{}, err
	}
	out, result, err := a.ask(ctx, ev)
	a.leave(pass, result)
	return out, err
}

// circuitKey returns the key of a server's circuit breaker state for one hook. Each hook has its
// own circuit per server.
func circuitKey(h *policyfile.HTTP) string { return "http\x00" + h.FullName() + "\x00" + h.URL }

// keepCircuit is how long failures are stored after the last one.
const keepCircuit = 24 * time.Hour

// enter reports whether the server may be asked. If the state cannot be stored, the hook has no
// circuit breaker: a request that fails does less harm than a missing request.
func (a *asker) enter() (circuit.Pass, error) {
	kept, err := a.circuits.Counted(circuitKey(&a.http))
	if err != nil || kept == nil { // read without a lock
		return circuit.Through, nil //nolint:nilerr // see the comment of enter
	}
	now, limits, patience := time.Now(), a.http.Breaker.Limits(), time.Duration(a.http.Timeout)+a.Grace()+time.Second
	state, pass := circuit.Read(kept).Enter(now, limits, patience)
	if pass == circuit.Probe { // only one of all concurrent requests is the probe
		err := a.circuits.Count(circuitKey(&a.http), func(kept []byte) ([]byte, time.Duration) {
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
func (a *asker) leave(pass circuit.Pass, result circuit.Result) {
	if pass == circuit.Through && result == circuit.Unknown {
		return
	}
	if pass == circuit.Through && result == circuit.Answered {
		if kept, err := a.circuits.Counted(circuitKey(&a.http)); err == nil && circuit.Read(kept) == (circuit.State{}) {
			return
		}
	}
	now, limits := time.Now(), a.http.Breaker.Limits()
	_ = a.circuits.Count(circuitKey(&a.http), func(kept []byte) ([]byte, time.Duration) { // an error is ignored; see enter
		return circuit.Read(kept).Leave(now, limits, pass, result).Bytes(), keepCircuit
	})
}

// ask sends the request through tell or the program, and returns the outcome and the result for
// the circuit breaker.
func (a *asker) ask(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, circuit.Result, error) {
	question, err := a.question(ctx, ev)
	if err != nil {
		return grapnel.Outcome{}, circuit.Unknown, err
	}
	var reply ServerReply
	if a.send != nil {
		reply, err = a.send(ctx, question)
	} else {
		var program string
		if program, err = a.program(); err != nil {
			return grapnel.Outcome{}, circuit.Unknown, err
		}
		reply, err = runDeliver(ctx, program, a.http.Name, question)
	}
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
func (a *asker) question(ctx context.Context, ev *grapnel.Event) ([]byte, error) {
	h, err := a.http.Resolve()
	if err != nil {
		return nil, err
	}
	h.Name = a.http.FullName()
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
	if err != nil {
		return nil, fmt.Errorf("cannot encode the event: %w", err)
	}
	head, err := json.Marshal(Question{HTTP: h, Networks: a.networks(), ID: ev.ID, Until: until, Event: json.RawMessage("0")})
	if err != nil {
		return nil, err
	}
	// The event is appended unchanged: it may be large and is JSON already.
	head = head[:len(head)-len("0}")]
	return append(append(head, event...), '}'), nil
}

// maxServerReply is the maximum size of a ServerReply in bytes: the answer and its JSON wrapper.
const maxServerReply = process.DefaultMaxOutput + 64<<10

// runDeliver runs "grapnel deliver", which makes the connection. It passes no environment
// variables: an agent's project could set one that changes the trusted certificates or the proxy.
func runDeliver(ctx context.Context, program, hook string, stdin []byte) (ServerReply, error) {
	end, err := process.System.Run(ctx, &process.Program{
		Args: []string{program, "deliver"}, Env: []string{}, Dir: filepath.Dir(program), Stdin: append(stdin, '\n'), MaxOutput: maxServerReply,
		Hook: hook, Inherit: process.InheritMinimal,
	})
	if err == nil && end.Stopped != nil {
		err = end.Stopped
	}
	if err != nil {
		return ServerReply{}, fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	text := strings.TrimSpace(string(end.Stderr.Head))
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "grapnel: error: "), "\n")
	switch {
	case end.Signal != "":
		return ServerReply{}, fmt.Errorf("%s was ended by signal %s", filepath.Base(program), end.Signal)
	case end.Exit != 0:
		return ServerReply{}, fmt.Errorf("exit code %d: %s", end.Exit, text)
	case end.Stdout.Cut > 0:
		return ServerReply{}, fmt.Errorf("the output of %s is larger than %d bytes", filepath.Base(program), maxServerReply)
	case len(end.Stdout.Head) == 0:
		return ServerReply{}, nil // it delivered to a webhook, which has no answer
	}
	var reply ServerReply
	if err := json.Unmarshal(end.Stdout.Head, &reply); err != nil {
		return ServerReply{}, fmt.Errorf("cannot decode the output of %s (do both programs have the same version?): %w", filepath.Base(program), err)
	}
	return reply, nil
}

// Circuit returns why the server of a hook would not be asked now, or nil.
func Circuit(place local.Place, h *policyfile.HTTP, now time.Time) error {
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return nil // reported elsewhere
	}
	defer func() { _ = sp.Close() }()
	kept, err := sp.Counted(circuitKey(h))
	if err != nil || kept == nil {
		return nil
	}
	state, pass := circuit.Read(kept).Enter(now, h.Breaker.Limits(), time.Duration(h.Timeout))
	if pass != circuit.Refused {
		return nil
	}
	return state.Err(now)
}
