// Package late runs observing hooks after the reply. A program queues them in the outbox, and a drain
// finds them again by the content of their policy and runs them.
package late

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/ask"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/wire"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// KeepRecords configures the spool with the record mode, the edit and the masking of the
// policies.
func KeepRecords(sp *spool.Spool, set *load.Set) {
	var mode spool.Mode
	if mode.UnmarshalText([]byte(set.Records.Mode())) != nil {
		mode = spool.Metadata
	}
	sp.Keep(mode, set.Records.Edit(), set.Records.Sync)
	if set.Hide != nil {
		sp.Hide(set.Hide)
	}
}

// LimitsOf returns the limits of retention that policies set.
func LimitsOf(set *load.Set) journal.Limits {
	r := set.Retention
	return journal.Limits{MaxAge: int64(r.Days) * 24 * 60 * 60, MaxRecords: r.Records, MaxBytes: r.Size}.OrDefault()
}

// longPause is how long ago a segment of the log may have been closed. If it is longer, the machine was off for
// long or its clock is wrong, and no Record is removed.
const longPause = 30 * 24 * time.Hour

// Retire seals the closed segments of the log of a place, and removes those that exceed the limits of the policies. It
// is for machines without a daemon, which does it itself, and does nothing unless a segment was closed or the limits
// have changed since the last time.
func Retire(place local.Place, now time.Time) error {
	set := place.Settings()
	limits := LimitsOf(&set)
	due, closed, err := journal.Due(place.Journal(), limits)
	if err != nil || !due {
		return err
	}
	sp, err := spool.Open(place.State, nil)
	if err != nil {
		return err
	}
	if set.Records.Unknown || now.Sub(closed) > longPause {
		err = sp.Seal()
	} else {
		_, err = sp.Retire(limits, now)
	}
	if errors.Is(err, journal.ErrBusy) {
		err = nil
	}
	return errors.Join(err, sp.Close())
}

// Kinds construct the hooks that need a server. A nil function makes hooks that fail.
type Kinds struct {
	Webhook func(policyfile.Webhook) grapnel.Hook
	HTTP    func(ask.Circuits, policyfile.HTTP) grapnel.Hook
}

func (k Kinds) webhook(w policyfile.Webhook) grapnel.Hook {
	if k.Webhook == nil {
		return notifyHook{}
	}
	return k.Webhook(w)
}

func (k Kinds) http(c ask.Circuits, h policyfile.HTTP) grapnel.Hook {
	if k.HTTP == nil {
		return notifyHook{}
	}
	return k.HTTP(c, h)
}

// Drain runs all pending hooks. It puts the events of `notify:` hooks into box; if box is nil,
// these hooks fail. If another drain is running, it does all the work and Drain returns at once.
// Canceling ctx stops it between two hooks.
func Drain(ctx context.Context, place local.Place, kinds Kinds, box Outbox) error {
	sp, err := spool.Open(place.State, nil)
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
	req := place.Request(place.Files(nil, nil), policy.Runners{})
	req.Settled = true
	set := load.Policies(req)
	KeepRecords(sp, &set)
	var put Put
	if box != nil {
		put = box.Put
	}
	for round := 1; ; round++ {
		err = sp.Drain(ctx, Runner(place, kinds, sp, put))
		if box == nil {
			return err
		}
		err = errors.Join(err, flush(ctx, box))
		// Another process may have used the outbox for a moment. If that process is a daemon, it
		// delivers the rest.
		if err != nil || round == OutboxRounds || !sp.Later() {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(outboxWait):
		}
	}
}

// ErrDead is the error of an [Outbox] for an event that it will not deliver.
var ErrDead = errors.New("not delivered")

// A Put stores or delivers the event of one `notify:` hook, see [Outbox].
type Put func(ctx context.Context, p spool.Pending, h policyfile.HTTP) error

// Runner returns the function that runs one pending hook. It calls put for `notify:` hooks; nil =
// they fail.
func Runner(place local.Place, kinds Kinds, c ask.Circuits, put Put) func(context.Context, spool.Pending) error {
	return func(ctx context.Context, p spool.Pending) error {
		spec, target, err := Find(place, kinds, c, RefOf(&p))
		switch {
		case err != nil:
			return fmt.Errorf("%w, queued on %s", err, p.Time.Format(time.RFC3339))
		case target != nil && put != nil:
			err := put(ctx, p, *target)
			if err != nil && !errors.Is(err, ErrDead) {
				err = fmt.Errorf("%w: %w", spool.ErrLater, err)
			}
			return err
		}
		timeout := spec.Timeout
		if timeout == 0 {
			timeout = policyfile.DefaultTimeout
		}
		ctx, cancel := context.WithTimeoutCause(wire.WithOrigin(ctx, p.Origin), timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
		defer cancel()
		_, err = spec.Hook.Handle(ctx, p.Event)
		return err
	}
}

// A HookRef identifies a hook and the content of its file, in a form that can be stored.
type HookRef struct{ Name, Source, File, Digest, Scope string }

// RefOf returns the reference to a pending hook.
func RefOf(p *spool.Pending) HookRef {
	return HookRef{p.Hook, p.Source, p.File, p.Digest, p.Scope}
}

// Find loads a hook from the content that its file had when the hook was queued, which is
// stored, not from the current file. For a `notify:` hook it also returns the target.
func Find(place local.Place, kinds Kinds, c ask.Circuits, ref HookRef) (grapnel.Spec, *policyfile.HTTP, error) {
	source := grapnel.Source{Name: ref.Source, File: ref.File, Digest: ref.Digest}
	for scope := grapnel.ScopeManaged; scope <= grapnel.ScopeSession; scope++ {
		if scope.String() == ref.Scope {
			source.Scope = scope
		}
	}
	var targets []policyfile.HTTP
	req := place.Request(nil, policy.Runners{Command: local.Runner(place)})
	req.Webhook = func(w policyfile.Webhook) (grapnel.Hook, error) { return kinds.webhook(w), nil }
	req.HTTP = func(h policyfile.HTTP) (grapnel.Hook, error) { return kinds.http(c, h), nil }
	req.Notify = func(h policyfile.HTTP) (grapnel.Hook, error) {
		targets = append(targets, h)
		return Notify(h)
	}
	specs, err := load.Source(req, source)
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
