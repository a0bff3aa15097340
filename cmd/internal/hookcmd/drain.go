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
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/hookfiles"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
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
		if builtin.WritesLine(hooks[i].Hook) {
			if _, err := hooks[i].Hook.Handle(ctx, ev); err == nil {
				continue
			}
		}
		// What is written down is what the hook may see: it is found anew later, by itself.
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

// keepRecords tells the spool what the policies want kept, and what they know for secrets.
func keepRecords(sp *spool.Spool, set *policy.Set) {
	var mode spool.Mode
	if mode.UnmarshalText([]byte(set.Records.Mode())) != nil {
		mode = spool.Metadata
	}
	sp.Keep(mode, set.Records.Edit(), set.Records.Sync)
	if set.Hide != nil {
		sp.Hide(set.Hide)
	}
}

// startDrain starts a program, detached, to run the observing hooks that the answer left
// behind: the one beside this that reads every kind of hook file, else this one once
// more. What cannot be started now waits for the next event.
func startDrain(inv invocation) error {
	args := []string{"hook", "--drain"}
	program, err := handoverProgram()
	if err != nil {
		if program, err = os.Executable(); err != nil {
			return err
		}
		if !isHandoverProgram(program) {
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
	place, err := local.Locate(inv.root, inv.id)
	if err != nil {
		return err
	}
	var box Outbox
	if inv.outbox != nil {
		box = inv.outbox(place)
	}
	return Drain(context.Background(), place, box)
}

// Drain runs the hooks that were put off, until none is left, and gives box what those of
// them want told that tell servers; nil = nobody takes that, and they fail. A drain that is
// under way does it all, and this one nothing. ctx ends it between two hooks.
func Drain(ctx context.Context, place local.Place, box Outbox) error {
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = sp.Close() }()
	// How a hook ended is a Record too. Of projects nobody knows here which they were.
	set := policy.Load(place.Request(place.Files(nil, nil), nil))
	keepRecords(sp, &set)
	for round := 1; ; round++ {
		err = sp.Drain(ctx, func(ctx context.Context, p spool.Pending) error { return runOne(ctx, place, sp, box, p) })
		if box == nil {
			return err
		}
		err = errors.Join(err, flush(ctx, box))
		// Somebody else may have kept the outbox to itself for a moment; where it is one who
		// stays, that one takes what was left.
		if err != nil || round == outboxRounds || !sp.Later() {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(outboxWait):
		}
	}
}

// runOne runs one hook that was put off.
func runOne(ctx context.Context, place local.Place, c circuits, box Outbox, p spool.Pending) error {
	spec, told, err := findHook(place, c, refOf(&p))
	switch {
	case err != nil:
		return fmt.Errorf("%w, put off at %s", err, p.Time.Format(time.RFC3339))
	case told != nil && box != nil:
		if err := box.Put(ctx, p, *told); err != nil {
			return fmt.Errorf("%w: %w", spool.ErrLater, err)
		}
		return nil
	}
	timeout := spec.Timeout
	if timeout == 0 {
		timeout = policyfile.DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
	defer cancel()
	_, err = spec.Hook.Handle(ctx, p.Event)
	return err
}

// A HookRef says which hook of which content of a file it was, in words that can be kept.
type HookRef struct{ Name, Source, File, Digest, Scope string }

func refOf(p *spool.Pending) HookRef {
	return HookRef{p.Hook, p.Source, p.File, p.Digest, p.Scope}
}

// findHook finds the hook as it was when it was put off: by the content of its file then,
// which is kept, not by what the file says now. Of a `notify:` it says whom it tells.
func findHook(place local.Place, c circuits, ref HookRef) (grapnel.Spec, *policyfile.HTTP, error) {
	source := grapnel.Source{Name: ref.Source, File: ref.File, Digest: ref.Digest}
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		if scope.String() == ref.Scope {
			source.Scope = scope
		}
	}
	var told []policyfile.HTTP
	req := place.Request(nil, local.Runner(place))
	req.Webhook = func(w hookfiles.Webhook) (grapnel.Hook, error) { return webhookHook(place, w), nil }
	req.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) { return newAsker(c, h, place.Opened), nil }
	req.Notify = func(h policyfile.HTTP) (grapnel.Hook, error) {
		told = append(told, h)
		return newTeller(h)
	}
	specs, err := policy.LoadSource(req, source)
	if err != nil {
		return grapnel.Spec{}, nil, err
	}
	for _, spec := range specs {
		if spec.Name != ref.Name {
			continue
		}
		for i := range told {
			if told[i].Name == spec.Name && told[i].Source == spec.Source.Name {
				return spec, &told[i], nil
			}
		}
		return spec, nil, nil
	}
	return grapnel.Spec{}, nil, fmt.Errorf("hook %q of %s is not to be found any more", ref.Name, ref.Source)
}
