package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/process"
)

// workerContest returns the row about a program that is kept running, and what ends it.
func workerContest(ctx context.Context, bin string) (g group, end func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	w := &process.Worker{Command: process.Command{Name: "echo", Args: []string{filepath.Join(bin, "echoworker")}, Dir: bin, Executor: process.System}}
	end = func() error {
		cancel()
		return w.Close(context.WithoutCancel(ctx))
	}
	ev := shellEvent(plainCommand)
	var failed error
	ask := func() {
		if out, err := w.Handle(ctx, ev); err != nil || out.Decision != grapnel.None {
			failed = fmt.Errorf("the worker says %v: %w", out.Decision, err)
		}
	}
	ask()
	c := timed("worker round trip", 20_000, ask)
	run := c.subject.run
	c.subject.run = func() (float64, error) {
		cost, err := run()
		if failed != nil {
			err = failed
		}
		return cost, err
	}
	g.contests = []*contest{c}
	return g, end, failed
}
