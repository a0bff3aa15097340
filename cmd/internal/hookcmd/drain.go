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
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// late runs observing hooks. It runs hooks that only write a line at once, because starting a
// drain takes longer. The others wait for the drain.
type late struct{ spool *spool.Spool }

// Run queues the hooks that cannot run at once. If a line cannot be written, the drain tries
// again and records the result.
func (l late) Run(ctx context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
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

// keepRecords configures the spool with the record mode, the edit and the masking of the
// policies.
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

// drain runs all pending hooks and returns the exit code.
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

// Drain runs all pending hooks. It puts the events of `notify:` hooks into box; if box is nil,
// these hooks fail. If another drain is running, it does all the work and Drain returns at once.
// Canceling ctx stops it between two hooks.
func Drain(ctx context.Context, place local.Place, box Outbox) error {
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return err
	}
	defer func() {
		if err := sp.Err(); err != nil {
			_ = spool.AddLoss(sp.Dir(), err, time.Now())
		}
		_ = sp.Close()
	}()
	// The result of a hook is also a Record. The projects of the pending hooks are not known
	// here.
	req := place.Request(place.Files(nil, nil), nil)
	req.Settled = true
	set := policy.Load(req)
	keepRecords(sp, &set)
	for round := 1; ; round++ {
		err = sp.Drain(ctx, func(ctx context.Context, p spool.Pending) error { return runOne(ctx, place, sp, box, p) })
		if box == nil {
			return err
		}
		err = errors.Join(err, flush(ctx, box))
		// Another process may have used the outbox for a moment. If that process is a daemon, it
		// delivers the rest.
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

// runOne runs one pending hook.
func runOne(ctx context.Context, place local.Place, c circuits, box Outbox, p spool.Pending) error {
	spec, target, err := findHook(place, c, refOf(&p))
	switch {
	case err != nil:
		return fmt.Errorf("%w, queued on %s", err, p.Time.Format(time.RFC3339))
	case target != nil && box != nil:
		if err := box.Put(ctx, p, *target); err != nil {
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

// A HookRef identifies a hook and the content of its file, in a form that can be stored.
type HookRef struct{ Name, Source, File, Digest, Scope string }

func refOf(p *spool.Pending) HookRef {
	return HookRef{p.Hook, p.Source, p.File, p.Digest, p.Scope}
}

// findHook loads a hook from the content that its file had when the hook was queued, which is
// stored, not from the current file. For a `notify:` hook it also returns the target.
func findHook(place local.Place, c circuits, ref HookRef) (grapnel.Spec, *policyfile.HTTP, error) {
	source := grapnel.Source{Name: ref.Source, File: ref.File, Digest: ref.Digest}
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		if scope.String() == ref.Scope {
			source.Scope = scope
		}
	}
	var targets []policyfile.HTTP
	req := place.Request(nil, local.Runner(place))
	req.Webhook = func(w policyfile.Webhook) (grapnel.Hook, error) { return webhookHook(place, w), nil }
	req.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) { return newAsker(c, h, place.Opened), nil }
	req.Notify = func(h policyfile.HTTP) (grapnel.Hook, error) {
		targets = append(targets, h)
		return newNotifyHook(h)
	}
	specs, err := policy.LoadSource(req, source)
	if err != nil {
		return grapnel.Spec{}, nil, err
	}
	for _, spec := range specs {
		if spec.Name != ref.Name {
			continue
		}
		for i := range targets {
			if targets[i].Name == spec.Name && targets[i].Source == spec.Source.Name {
				return spec, &targets[i], nil
			}
		}
		return spec, nil, nil
	}
	return grapnel.Spec{}, nil, fmt.Errorf("hook %q of %s no longer exists", ref.Name, ref.Source)
}
