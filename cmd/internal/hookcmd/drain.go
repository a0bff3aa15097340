package hookcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/late"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// queue is where observing hooks wait. It runs hooks that only write a line at once, because starting a
// drain takes longer. The others wait for the drain.
type queue struct{ spool *spool.Spool }

// Run queues the hooks that cannot run at once. If a line cannot be written, the drain tries
// again and records the result.
func (l queue) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	var waiting []grapnel.Spec
	var failed error
	for i := range hooks {
		if builtin.WritesLine(hooks[i].Hook) {
			if _, err := hooks[i].Hook.Handle(ctx, ev); err == nil {
				continue
			}
		}
		// The queued event is redacted for the hook; the drain finds the hook itself
		// again.
		shown, err := redact.Shown(hooks[i].Hook, ev)
		switch {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("hook %q: %w", hooks[i].FullName(), err))
		case shown != ev:
			failed = errors.Join(failed, l.spool.Run(ctx, shown, hooks[i:i+1]))
		default:
			waiting = append(waiting, hooks[i])
		}
	}
	return errors.Join(failed, l.spool.Run(ctx, ev, waiting))
}

// startDrain starts a detached program that runs the pending observing hooks: the program grapnel
// in the same directory, which has an outbox, else another process of this program. If it cannot be
// started, the hooks wait for the next event.
func startDrain(inv invocation) error {
	args := []string{"hook", "--drain"}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if other, err := beside(program); err == nil {
		program = other
	} else {
		args = args[1:]
	}
	switch {
	case inv.root != "":
		args = append(args, "--root", inv.root)
	case inv.id != "":
		args = append(args, "--id", inv.id)
	}
	return spool.StartDrain(program, args)
}

// drain runs all pending hooks, removes old Records, and returns the exit code.
func drain(inv invocation, stderr io.Writer) int {
	err := runPending(inv)
	if err != nil {
		fmt.Fprintf(stderr, "grapnel: error: drain: %v\n", err)
		return exitFailure
	}
	return 0
}

func runPending(inv invocation) error {
	place, err := local.Locate(inv.root, inv.id)
	if err != nil {
		return err
	}
	var box late.Outbox
	if inv.outbox != nil {
		box = inv.outbox(place)
	}
	return errors.Join(Drain(context.Background(), place, box), late.Retire(place, time.Now()))
}

// Drain runs all pending hooks, see [late.Drain]. It starts the program grapnel for each server.
func Drain(ctx context.Context, place local.Place, box late.Outbox) error {
	return late.Drain(ctx, place, kindsOf(place), box)
}

func kindsOf(place local.Place) late.Kinds {
	return late.Kinds{
		Webhook: func(w policyfile.Webhook) grapnel.Hook { return webhookHook(place, w) },
		HTTP:    func(c ask.Circuits, h policyfile.HTTP) grapnel.Hook { return Asker(c, h, place.Reach) },
	}
}
