package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/spool"
)

// late runs observing hooks: at once those that only write a line, since to start a
// drain for them would take longer, and the others in the drain.
type late struct{ spool *spool.Spool }

// Run puts off what cannot be done at once. A line that could not be written is tried
// once more there, where how a hook ended is kept.
func (l late) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	var waiting []grapnel.Spec
	var failed error
	for i := range hooks {
		if policy.WritesLine(hooks[i].Hook) {
			if _, err := hooks[i].Hook.Handle(ctx, ev); err == nil {
				continue
			}
		}
		// What is written down is what the hook may see: it is found anew later, by itself.
		shown, err := policy.Shown(hooks[i].Hook, ev)
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

// keepRecords tells the spool what the policies want kept, and what they know for secrets.
func keepRecords(sp *spool.Spool, set *policy.Set) {
	var mode spool.Mode
	if mode.UnmarshalText([]byte(set.Records.Mode())) != nil {
		mode = spool.Metadata
	}
	sp.Keep(mode, set.Records.Edit())
	if set.Hide != nil {
		sp.Hide(set.Hide)
	}
}

// startDrain starts a program, detached, to run the observing hooks that the answer left
// behind: the one beside this that reads every kind of hook file, else this one once
// more. What cannot be started now waits for the next event.
func startDrain(inv invocation) error {
	args := []string{"hook", "--drain"}
	program, err := fuller()
	if err != nil {
		if program, err = os.Executable(); err != nil {
			return err
		}
		if !isFuller(program) {
			args = args[1:]
		}
	}
	switch {
	case inv.root != "":
		args = append(args, "--root", inv.root)
	case inv.id != "":
		args = append(args, "--id", inv.id)
	}
	return spool.StartDrain(program, args)
}

// drain runs what waits, until nothing is left.
func drain(inv invocation, stderr io.Writer) int {
	err := runPending(inv)
	if err != nil {
		fmt.Fprintf(stderr, "grapnel: error: drain: %v\n", err)
		return exitFailure
	}
	return 0
}

func runPending(inv invocation) error {
	place, err := Locate(inv.root, inv.id)
	if err != nil {
		return err
	}
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return err
	}
	// How a hook ended is a Record too. Of projects nobody knows here which they were.
	set := policy.Load(place.Request(place.Files(nil, nil), nil))
	keepRecords(sp, &set)
	err = sp.Drain(context.Background(), func(ctx context.Context, p spool.Pending) error {
		spec, err := findPending(place, sp, p)
		if err != nil {
			return err
		}
		timeout := spec.Timeout
		if timeout == 0 {
			timeout = policy.DefaultTimeout
		}
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
		defer cancel()
		_, err = spec.Hook.Handle(ctx, p.Event)
		return err
	})
	return err
}

// findPending finds the hook as it was when it was put off: by the content of its
// file then, which is kept, not by what the file says now.
func findPending(place Place, c circuits, p spool.Pending) (grapnel.Spec, error) {
	source := grapnel.Source{Name: p.Source, File: p.File, Digest: p.Digest}
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		if scope.String() == p.Scope {
			source.Scope = scope
		}
	}
	req := place.Request(nil, runner(place))
	req.Webhook = func(w policy.Webhook) (grapnel.Hook, error) { return webhookHook(place, w), nil }
	req.HTTP = func(h policy.HTTP) (grapnel.Hook, error) { return newAsker(c, h, place.Opened), nil }
	specs, err := policy.LoadSource(req, source)
	if err != nil {
		return grapnel.Spec{}, err
	}
	for _, spec := range specs {
		if spec.Name == p.Hook {
			return spec, nil
		}
	}
	return grapnel.Spec{}, fmt.Errorf("hook %q of %s is not to be found any more, put off at %s", p.Hook, p.Source, p.Time.Format(time.RFC3339))
}
