package hookcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/local"
)

// errNoProgram is why a hook that starts a program fails where no program asks for the agent.
var errNoProgram = errors.New("not started: it runs where the agent does, and the agent asks over http; run \"grapnel install\" again, so that this event starts grapnel-hook")

// AnswerFallback answers an event of an agent that asks the daemon itself, with no program that
// could answer in its place. What a daemon cannot do has failed here: the on_error of a hook
// that starts a program decides, and an event that cannot be judged at all is answered as if
// a guard that fails closed had failed. The error then says why; the answer holds all the
// same.
func (w *Warm) AnswerFallback(ctx context.Context, q *client.Question) (*client.Answer, error) {
	reply, _, err := w.answer(ctx, q, true)
	if err != nil {
		place, _ := local.Locate(q.Root, q.ID) //nolint:contextcheck // it asks for the home directory, which takes no time; only for the words to answer in
		var named *dialect.Dialect
		if q.Agent != "" {
			named, _ = w.agents.find(q.Agent)
		}
		d := w.agents.choose(named, q.Payload, place.Agent)
		err = fmt.Errorf("not judged: %s", strings.TrimPrefix(err.Error(), client.ErrSelf.Error()+": ")) // no program does
		reply = lastResort(ctx, d, dialect.Input{Payload: q.Payload, Event: q.Event}, err)
	}
	return &client.Answer{Stdout: reply.Stdout, Stderr: reply.Stderr, Exit: reply.Exit}, err
}
