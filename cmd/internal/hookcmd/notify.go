package hookcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// An Outbox keeps what hooks want told to servers until those have heard. grapnel-hook has
// none: it writes down what it would tell, and a drain of the program grapnel brings it.
type Outbox interface {
	// Put keeps one event for the server of one hook. It is on disk when it returns nil; one
	// with the same ID is kept once. After an error the drain keeps it, and comes again.
	Put(ctx context.Context, p spool.Pending, h policyfile.HTTP) error

	// Flush tells what is due, each once, and lets go of what Put has taken hold of, so that
	// others can use it. Put may be called again. It returns when ctx is done.
	Flush(ctx context.Context) error
}

const (
	// flushTime is how long a drain tells servers before it leaves the rest to the next.
	flushTime = 30 * time.Second

	outboxRounds = 3 // of a drain that finds the outbox in use
	outboxWait   = time.Second
)

func flush(ctx context.Context, box Outbox) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	return box.Flush(ctx)
}

// teller is the hook of a `notify:`. It runs nowhere: each is put off, and who runs what
// was put off knows it by what it was made of.
type teller struct{}

func newTeller(policyfile.HTTP) (grapnel.Hook, error) { return teller{}, nil }

// Handle is called where there is no Outbox.
func (teller) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, errors.New("the program grapnel is needed to tell a server, and it is not beside grapnel-hook (install both into the same directory)")
}

// NotifyOf looks up whom a hook tells: its address, what its requests are signed with and
// its headers, as the content of its file says that it was put off for, and the networks
// that are open now. What env:NAME and file:PATH stand for is looked up anew each time, the
// variables among those of this process.
func NotifyOf(place local.Place, ref HookRef) (policyfile.HTTP, []string, error) {
	_, told, err := findHook(place, nil, ref)
	if err != nil {
		return policyfile.HTTP{}, nil, err
	}
	if told == nil {
		return policyfile.HTTP{}, nil, fmt.Errorf("hook %q of %s tells no server", ref.Name, ref.Source)
	}
	h, err := told.Resolve()
	if err != nil {
		return policyfile.HTTP{}, nil, err
	}
	h.Name = told.FullName()
	return h, place.Opened(), nil
}
