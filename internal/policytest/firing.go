package policytest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/allruns"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// A Firing is the result of one event: the Verdict, and further results that a test can check.
// The format %v prints the results of each hook.
type Firing struct {
	grapnel.Verdict
	Record *grapnel.Record   // the hooks that ran, with their results
	Late   []grapnel.HookRun // runs of observing hooks, which finish after the reply

	// For a test in the dialect of an agent.
	Agent string
	Reply dialect.Reply // the reply to the agent
	Took  time.Duration // time until the Verdict

	engine        *grapnel.Engine
	bytes, allocs uint64 // if measured
}

// Fire fires an event at an engine and also waits for the observing hooks. Other goroutines may
// use the engine at the same time.
func Fire(ctx context.Context, engine *grapnel.Engine, ev *grapnel.Event) (Firing, error) {
	f := Firing{engine: engine}
	once, err := engine.With() // a copy of the engine, so that each caller observes only its own events
	if err != nil {
		return f, err
	}
	once.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { f.Record = rec }))
	verdict, runs := allruns.Fire(ctx, once, ev)
	f.Verdict = verdict
	for run := range runs {
		f.Late = append(f.Late, run)
	}
	return f, nil
}

// Specs returns the enabled hooks.
func (f Firing) Specs() []grapnel.Spec { return f.engine.Specs("") }

// Runs returns the runs of all hooks, including the observing ones.
func (f Firing) Runs() []grapnel.HookRun {
	// The Record only has runs of observing hooks that could not be started.
	runs := slices.DeleteFunc(slices.Clone(f.Record.Hooks), func(r grapnel.HookRun) bool {
		return r.Async && slices.ContainsFunc(f.Late, func(l grapnel.HookRun) bool { return l.Name == r.Name && l.Source == r.Source })
	})
	return append(runs, f.Late...)
}

// mostListed is the maximum number of hooks without a match that a message lists.
const mostListed = 10

// String describes the event, the verdict, and the result of each hook.
func (f Firing) String() string {
	var b strings.Builder
	line := func(what, text string) { fmt.Fprintf(&b, "\t%-8s %s\n", what, text) }
	line("event", sample.ShownEvent(f.Record.Input))
	line("verdict", sample.Shown(f.Verdict))
	runs := f.Runs()
	for _, run := range runs {
		line("hook", f.name(run)+": "+shownRun(run))
	}
	specs := slices.DeleteFunc(f.engine.Specs(""), func(s grapnel.Spec) bool {
		_, marker := s.Hook.(seam.Marker[grapnel.Event, grapnel.Verdict])
		return marker // it only stores facts for later events
	})
	if len(runs) == 0 {
		line("hook", fmt.Sprintf("none of the %d hooks listens", len(specs)))
		for _, s := range specs[:min(len(specs), mostListed)] {
			line("", fmt.Sprintf("%s: on %v tools %v", s.FullName(), s.On, s.Tools))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// name returns a hook's name with its position.
func (f Firing) name(run grapnel.HookRun) string {
	for _, s := range f.engine.Specs("") {
		if s.Name == run.Name && s.Source.Name == run.Source && s.Source.File != "" {
			return fmt.Sprintf("%s (%s:%d)", run.Name, filepath.Base(s.Source.File), run.Line)
		}
	}
	return run.Name
}

func shownRun(run grapnel.HookRun) string {
	var parts []string
	if run.Outcome != nil {
		parts = append(parts, sample.Shown(run.Outcome))
	}
	for note, is := range map[string]bool{"it is in observe mode": run.Observed && !run.Async, "its allow is ignored": run.Expired} {
		if is {
			parts = append(parts, note)
		}
	}
	if run.Error != "" {
		parts = append(parts, "could not answer: "+run.Error)
	}
	if len(parts) == 0 {
		return "no opinion"
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
