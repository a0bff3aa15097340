package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// A trial is a firing without a Record.
type trial struct {
	place   local.Place
	run     bool // run programs and ask servers
	counter readOnlyCounter
	reach   policyfile.Reach // what outbound requests may reach

	record grapnel.Record
	later  grapnel.Event  // event for observing hooks
	late   []grapnel.Spec // programs that run after the reply

	mu      sync.Mutex // hooks of one step run concurrently
	notRun  []string
	servers []string
	wrote   map[programKey][]wrote // in the order of the runs
	ended   map[string]lateEnd     // by the full name of the hook
}

// programKey distinguishes programs with the same name.
type programKey struct{ hook, dir string }

// lateEnd is the result of an observing program.
type lateEnd struct {
	err  error
	took time.Duration
}

func (t *trial) options() *local.Options {
	t.wrote, t.ended = map[programKey][]wrote{}, map[string]lateEnd{}
	digest := ""
	approvals := approval.Approvals{Store: t.place.Approvals(), DryRun: true, Policy: func() string { return digest }}
	return &local.Options{
		Runners: dryrun.Runners(t.answer),
		Counter: t.counter, Background: t.Run, Approved: approvals.Find,
		Observers: []grapnel.Observer{grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { t.record = *rec })},
		Loaded:    func(set *load.Set) error { digest = set.Digest(); return nil },
	}
}

// answer returns the hook for a call: the real one, or one that reports that it was not asked.
func (t *trial) answer(c dryrun.Call) (grapnel.Hook, error) {
	if c.Program == nil {
		t.servers = append(t.servers, c.Name)
	}
	switch {
	case c.Observes():
		return nil, nil // it is never run here
	case !t.run:
		return t.notAsked(c.Name), nil
	case c.Server != nil:
		return hookcmd.Asker(t.counter, *c.Server, func() policyfile.Reach { return t.reach }), nil
	}
	hook := local.Runner(t.place)(*c.Program)
	if cmd, ok := hook.(*process.Command); ok {
		cmd.Executor = endingRecorder{cmd.Executor, func(end *process.Ending) {
			t.mu.Lock()
			defer t.mu.Unlock()
			key := programKey{c.Name, c.Program.Dir}
			t.wrote[key] = append(t.wrote[key], wrote{string(end.Stdout.Head), string(end.Stderr.Head), end.Exit, end.Signal})
		}}
	}
	return hook, nil
}

// notAsked returns a hook without an opinion that records that it was skipped.
func (t *trial) notAsked(hook string) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		t.skip(hook)
		return grapnel.Outcome{}, nil
	})
}

func (t *trial) skip(hook string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.notRun, hook) { // it may be skipped twice
		t.notRun = append(t.notRun, hook)
	}
}

// Run collects the observing hooks that are programs, and skips the others.
func (t *trial) Run(_ context.Context, ev *grapnel.Event, hooks []grapnel.Spec) error {
	t.later = *ev
	for _, h := range hooks {
		switch {
		case builtin.WritesLine(h.Hook): // skip, because it would write to a file
		case t.run && !slices.Contains(t.servers, h.Name):
			t.late = append(t.late, h)
		default:
			t.skip(h.Name)
		}
	}
	return nil
}

// lateTimeout is the timeout of an observing program without its own.
const lateTimeout = 5 * time.Minute

// runLater runs the observing programs one after the other.
func (t *trial) runLater(ctx context.Context) {
	for i := range t.late {
		s := &t.late[i]
		timeout := s.Timeout
		if timeout <= 0 {
			timeout = lateTimeout
		}
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", grapnel.ErrTimeout, timeout))
		begun := time.Now()
		_, err := s.Hook.Handle(ctx, &t.later)
		t.ended[s.FullName()] = lateEnd{err, time.Since(begun)}
		cancel()
	}
}

// output removes and returns the output of the earliest run of a program.
func (t *trial) output(hook, dir string) *wrote {
	key := programKey{hook, dir}
	if len(t.wrote[key]) == 0 {
		return nil
	}
	out := t.wrote[key][0]
	t.wrote[key] = t.wrote[key][1:]
	return &out
}

// endingRecorder records how programs end.
type endingRecorder struct {
	process.Executor

	record func(*process.Ending)
}

// Run implements process.Executor.
func (l endingRecorder) Run(ctx context.Context, p *process.Program) (*process.Ending, error) {
	end, err := l.Executor.Run(ctx, p)
	if err == nil && end == nil {
		err = errors.New("its Executor does not report its exit")
	}
	if err == nil {
		l.record(end)
	}
	return end, err
}

// Grace returns the grace period of the Executor.
func (l endingRecorder) Grace() time.Duration {
	if g, ok := l.Executor.(seam.Graceful); ok {
		return g.Grace()
	}
	return 0
}

// readOnlyCounter is a Counter that stores nothing, so that a dry run does not use up limits.
type readOnlyCounter struct{ spool *spool.Spool }

// Count calls change with the stored value and drops the result.
func (l readOnlyCounter) Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error {
	kept, err := l.spool.Counted(owner, key)
	if err == nil {
		change(kept)
	}
	return err
}

// Counted returns the stored value.
func (l readOnlyCounter) Counted(owner, key string) ([]byte, error) {
	return l.spool.Counted(owner, key)
}
