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
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A Question is one event for one server that is asked: what "grapnel deliver" reads, and
// answers with a [ServerReply].
type Question struct {
	HTTP     policyfile.HTTP `json:"http"`               // with what its words stand for, under the full name of the hook
	Networks []string        `json:"networks,omitempty"` // that were opened
	ID       string          `json:"id,omitempty"`       // of the event
	Until    time.Time       `json:"until,omitzero"`     // when the answer has to be there, the start of the program included
	Event    json.RawMessage `json:"event"`              // in the plain dialect: what is sent, byte for byte
}

// A ServerReply is what came of a Question.
type ServerReply struct {
	Answer  json.RawMessage `json:"answer,omitempty"` // the object that the server answered with
	Error   string          `json:"error,omitempty"`
	Failed  bool            `json:"failed,omitempty"`  // the server is in no state to answer
	Timeout bool            `json:"timeout,omitempty"` // the time was over
}

// A circuits keeps how the circuits of servers stand, for all processes.
type circuits interface {
	policy.Counter
	Counted(key string) ([]byte, error)
}

// asker is the hook of a `http:`. grapnel-hook cannot ask itself: what connects to a
// server would make every start of it slower. So it starts the program that can, and only
// while the circuit of the server lets it through.
//
// How deep hooks are nested does not matter: a server starts no agent of ours, and a
// project can set the variable that counts.
type asker struct {
	http     policyfile.HTTP
	networks func() []string // that were opened
	circuits circuits
	program  func() (string, error) // that asks; where it is nil, tell does
	tell     func(ctx context.Context, question []byte) (ServerReply, error)
}

func newAsker(c circuits, h policyfile.HTTP, networks func() []string) *asker {
	return &asker{http: h, networks: networks, circuits: c, program: func() (string, error) {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		return beside(self)
	}}
}

// Asker makes the hook of a `http:` that is really asked. How its circuit stands is kept in c.
func Asker(c circuits, h policyfile.HTTP, networks func() []string) grapnel.Hook {
	return newAsker(c, h, networks)
}

// ReadsID: the identity of the request is made of it.
func (a *asker) ReadsID() {}

// Grace is what it takes to end the program.
func (a *asker) Grace() time.Duration {
	if g, ok := process.System.(grapnel.Graceful); ok {
		return g.Grace()
	}
	return 0
}

// Handle asks about an event.
func (a *asker) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	pass, err := a.enter()
	if err != nil {
		return grapnel.Outcome{}, err
	}
	out, result, err := a.ask(ctx, ev)
	a.leave(pass, result)
	return out, err
}

// circuitKey is where the circuit of a server is kept for a hook. No hook opens that of
// another.
func circuitKey(h *policyfile.HTTP) string { return "http\x00" + h.FullName() + "\x00" + h.URL }

// keepCircuit is how long failures are remembered after the last.
const keepCircuit = 24 * time.Hour

// enter says whether the server may be asked. Where nothing can be kept there is no
// circuit: to ask in vain does less harm than not to ask.
func (a *asker) enter() (circuit.Pass, error) {
	kept, err := a.circuits.Counted(circuitKey(&a.http))
	if err != nil || kept == nil { // and without a lock
		return circuit.Through, nil //nolint:nilerr // see above
	}
	now, limits, patience := time.Now(), a.http.Breaker.Limits(), time.Duration(a.http.Timeout)+a.Grace()+time.Second
	state, pass := circuit.Read(kept).Enter(now, limits, patience)
	if pass == circuit.Probe { // but one, of all that come now
		err := a.circuits.Count(circuitKey(&a.http), func(kept []byte) ([]byte, time.Duration) {
			if state, pass = circuit.Read(kept).Enter(now, limits, patience); pass == circuit.Probe {
				return state.Bytes(), keepCircuit
			}
			return nil, 0
		})
		if err != nil {
			return circuit.Through, nil //nolint:nilerr // see above
		}
	}
	if pass == circuit.Refused {
		return pass, fmt.Errorf("the server is %w", state.Err(now))
	}
	return pass, nil
}

// leave keeps what became of a request, if that is news.
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
	_ = a.circuits.Count(circuitKey(&a.http), func(kept []byte) ([]byte, time.Duration) { // see enter
		return circuit.Read(kept).Leave(now, limits, pass, result).Bytes(), keepCircuit
	})
}

// ask lets the program ask.
func (a *asker) ask(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, circuit.Result, error) {
	question, err := a.question(ctx, ev)
	if err != nil {
		return grapnel.Outcome{}, circuit.Unknown, err
	}
	var said ServerReply
	if a.tell != nil {
		said, err = a.tell(ctx, question)
	} else {
		var program string
		if program, err = a.program(); err != nil {
			return grapnel.Outcome{}, circuit.Unknown, err
		}
		said, err = runDeliver(ctx, program, a.http.Name, question)
	}
	switch {
	case err != nil && errors.Is(err, grapnel.ErrTimeout): // it keeps the time itself, and a little less: it hangs, or has not begun
		return grapnel.Outcome{}, circuit.Failed, err
	case err != nil:
		return grapnel.Outcome{}, circuit.Unknown, err
	case said.Error != "":
		result := circuit.Unknown
		if said.Failed {
			result = circuit.Failed
		}
		if said.Timeout {
			return grapnel.Outcome{}, result, fmt.Errorf("%w: %s", grapnel.ErrTimeout, said.Error)
		}
		return grapnel.Outcome{}, result, errors.New(said.Error)
	}
	out, err := dialect.Plain().ReadOutcome(ev, dialect.Output{Stdout: said.Answer})
	if err != nil {
		return grapnel.Outcome{}, circuit.Failed, err
	}
	return out, circuit.Answered, nil
}

// question is what the program reads.
func (a *asker) question(ctx context.Context, ev *grapnel.Event) ([]byte, error) {
	h, err := a.http.Resolve()
	if err != nil {
		return nil, err
	}
	h.Name = a.http.FullName()
	until := time.Now().Add(time.Duration(h.Timeout))
	if end, ok := ctx.Deadline(); ok {
		// Its own time is over first, and it says what it waited for.
		left := time.Until(end)
		end = end.Add(-min(left/10, 100*time.Millisecond))
		if end.Before(until) {
			until = end
		}
	}
	event, err := dialect.Plain().WriteEvent(ev)
	if err != nil {
		return nil, fmt.Errorf("the event cannot be written: %w", err)
	}
	head, err := json.Marshal(Question{HTTP: h, Networks: a.networks(), ID: ev.ID, Until: until, Event: json.RawMessage("0")})
	if err != nil {
		return nil, err
	}
	// The event may be large, and is JSON already.
	head = head[:len(head)-len("0}")]
	return append(append(head, event...), '}'), nil
}

// maxServerReply is the size of the largest ServerReply: an answer, and what is around it.
const maxServerReply = process.DefaultMaxOutput + 64<<10

// runDeliver has "grapnel deliver" do something that takes a connection. It is started without
// any variable: an agent's project could name in one whom to trust, or through whom to go.
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
		return ServerReply{}, fmt.Errorf("%s says more than %d bytes", filepath.Base(program), maxServerReply)
	case len(end.Stdout.Head) == 0:
		return ServerReply{}, nil // it has told a webhook
	}
	var said ServerReply
	if err := json.Unmarshal(end.Stdout.Head, &said); err != nil {
		return ServerReply{}, fmt.Errorf("cannot read what %s says (are both programs of one version?): %w", filepath.Base(program), err)
	}
	return said, nil
}

// Circuit says why the server of a hook would not be asked now, or nothing.
func Circuit(place local.Place, h *policyfile.HTTP, now time.Time) error {
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return nil // said elsewhere
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
