package late

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

// An Outbox stores the events of `notify:` hooks until they are delivered. grapnel-hook has no
// Outbox: it queues the hooks, and a drain of the program grapnel delivers them.
type Outbox interface {
	// Put stores one event for the target of one hook. When it returns nil, the event is on disk.
	// Events with the same ID are stored once. After an error, the drain keeps the hook and tries
	// again, unless the error is an ErrDead.
	Put(ctx context.Context, p spool.Pending, h policyfile.HTTP) error

	// Flush delivers all events that are due, each once, and releases the lock that Put has
	// taken, so that other processes can use the outbox. Put may be called again later. Flush
	// returns when ctx is done.
	Flush(ctx context.Context) error
}

const (
	// FlushTime is how long a drain delivers events before it leaves the rest to the next drain.
	FlushTime = 30 * time.Second

	OutboxRounds = 3 // maximum number of rounds of a drain that finds the outbox in use
	outboxWait   = time.Second
)

func flush(ctx context.Context, box Outbox) error {
	ctx, cancel := context.WithTimeout(ctx, FlushTime)
	defer cancel()
	return box.Flush(ctx)
}

// notifyHook is the hook of a `notify:` entry. It never runs: the hook is always queued, and the
// drain finds its target by the content of its file.
type notifyHook struct{}

// Notify returns the hook of a `notify:` entry.
func Notify(policyfile.HTTP) (grapnel.Hook, error) { return notifyHook{}, nil }

// Handle always fails. It is called only without an Outbox.
func (notifyHook) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	return grapnel.Outcome{}, errors.New("notify needs the program grapnel in the directory of grapnel-hook (install both into the same directory)")
}

// NotifyOf returns the target of a `notify:` hook, and what outbound requests may reach now.
// Address, signing key and headers come from the file content that the hook was queued for.
// env:NAME and file:PATH are resolved again at each call, variables from the environment of this
// process.
func NotifyOf(place local.Place, ref HookRef) (policyfile.HTTP, policyfile.Reach, error) {
	_, target, err := Find(place, Kinds{}, nil, ref)
	if err != nil {
		return policyfile.HTTP{}, policyfile.Reach{}, err
	}
	if target == nil {
		return policyfile.HTTP{}, policyfile.Reach{}, fmt.Errorf("hook %q of %s has no notify target", ref.Name, ref.Source)
	}
	h, err := target.Resolve()
	if err != nil {
		return policyfile.HTTP{}, policyfile.Reach{}, err
	}
	h.Name = target.FullName()
	return h, place.Reach(), nil
}
