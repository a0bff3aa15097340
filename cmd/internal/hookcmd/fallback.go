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

// errNoProgram is the error of a hook that starts a program, if the agent sends its events over
// HTTP.
var errNoProgram = errors.New("not started: it needs the environment of the agent, but the agent sends events over HTTP; run \"grapnel install\" again, so that this event starts grapnel-hook")

// AnswerFallback returns the reply to an event that the agent sent to the daemon itself, so that
// no hook program can reply instead. A hook that the daemon cannot run is a failure here: on_error
// decides for a hook that starts a program. If the event cannot be judged at all, the reply is
// the same as for a failed guard that fails closed; the error then gives the cause, and the
// answer is still valid.
func (w *Warm) AnswerFallback(ctx context.Context, q *client.Question) (*client.Answer, error) {
	reply, _, err := w.answer(ctx, q, true)
	if err != nil {
		place, _ := local.Locate(q.Root, q.ID) //nolint:contextcheck // it looks up the home directory, which takes no time; only needed to choose the dialect
		var named *dialect.Dialect
		if q.Agent != "" {
			named, _ = w.agents.find(q.Agent)
		}
		d := w.agents.choose(named, q.Payload, place.Agent)
		err = fmt.Errorf("not judged: %s", strings.TrimPrefix(err.Error(), client.ErrSelf.Error()+": ")) // no hook program replies instead
		reply = lastResort(ctx, d, dialect.Input{Payload: q.Payload, Event: q.Event}, err)
	}
	return &client.Answer{Stdout: reply.Stdout, Stderr: reply.Stderr, Exit: reply.Exit}, err
}
