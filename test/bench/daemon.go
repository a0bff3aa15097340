package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/daemon/relay/thin"
	"github.com/grapnel-dev/grapnel/spool"
	"github.com/grapnel-dev/grapnel/test/served"
)

// What a daemon is held to: a hook that asks it about 1,000 rules, in multiples of
// /bin/true, and how many Records it keeps in a second when many ask.
const (
	throughBudget = 2.2
	warmRules     = 1000
	durableRate   = 8000
	durableCalls  = 64 // at once
	durableBurst  = 16 // of each caller
	durableRuns   = 20
)

// daemons are those that the benchmark runs, and ends.
type daemons struct {
	bin  string
	open []*served.Daemon
}

func (ds *daemons) end() error {
	var errs []error
	for _, d := range ds.open {
		errs = append(errs, d.Stop())
	}
	return errors.Join(errs...)
}

// start starts a daemon with a policy.
func (ds *daemons) start(ctx context.Context, root, policy string) (*served.Daemon, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		return nil, err
	}
	d, err := served.Start(ctx, ds.bin, root, nil)
	if err == nil {
		ds.open = append(ds.open, d)
	}
	return d, err
}

// through describes grapnel-hook that asks a warm daemon, and makes sure that it does.
func (ds *daemons) through(ctx context.Context, b *benchmark, input map[string]any) (*program, error) {
	policy := policyFile(warmRules, watchNothing)
	d, err := ds.start(ctx, filepath.Join(b.dir, "daemon"), policy)
	if err != nil {
		return nil, err
	}
	before, err := d.Health(ctx)
	if err != nil {
		return nil, err
	}
	p, err := b.hook(ctx, "daemon", policy, "Bash", input)
	if err != nil {
		return nil, err
	}
	after, err := d.Health(ctx)
	if err == nil && after.Answered-before.Answered != 2 {
		err = fmt.Errorf("of 2 events the daemon has answered %d: %s", after.Answered-before.Answered, d.Said())
	}
	return p, err
}

// durable returns the row about many who ask at once, each over its connection and each of
// whose answers has its Record on disk.
func (ds *daemons) durable(ctx context.Context, dir string) (group, error) {
	d, err := ds.start(ctx, filepath.Join(dir, "durable"), policyFile(10, watchNothing))
	if err != nil {
		return group{}, err
	}
	ask := func(caller *served.Caller, line string) (*thin.Answer, error) {
		id := spool.NewID(time.Now())
		return caller.Ask(d.Question(id, served.Event(d.Root, sessionID, "toolu_"+id, line)))
	}
	caller, err := d.Call(ctx)
	if err != nil {
		return group{}, err
	}
	defer caller.Close()
	if a, err := ask(caller, canaryCommand); err != nil || !strings.Contains(string(a.Stdout), canaryReason) {
		return group{}, errors.Join(fmt.Errorf("the canary is answered with %+v: %s", a, d.Said()), err)
	}
	burst := func() (float64, error) {
		callers, errs := make([]*served.Caller, durableCalls), make([]error, durableCalls)
		for i := range callers {
			if callers[i], err = d.Call(ctx); err != nil {
				return 0, err
			}
			defer callers[i].Close()
		}
		var wait sync.WaitGroup
		begin := time.Now()
		for i := range errs {
			wait.Go(func() {
				for range durableBurst {
					a, err := ask(callers[i], plainCommand)
					if err != nil || len(a.Stdout)+len(a.Stderr) > 0 {
						errs[i] = errors.Join(fmt.Errorf("the daemon says %+v", a), err)
						return
					}
				}
			})
		}
		wait.Wait()
		return time.Since(begin).Seconds() / (durableCalls * durableBurst), errors.Join(errs...)
	}
	return group{runs: durableRuns, contests: []*contest{{
		name: fmt.Sprintf("durable Records, %d callers", durableCalls), subject: newSide("durable Records", burst),
		reference: constant("1/8,000 s", 1.0/durableRate), budget: 1,
		show: func(seconds float64) string { return fmt.Sprintf("%.0f /s", 1/seconds) },
	}}}, nil
}
