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
	"github.com/grapnel-dev/grapnel/internal/sample"
)

// A Firing is what came of one event: the Verdict, and all that a test may want to know
// beside it. Printed with %v it says what happened, hook by hook.
type Firing struct {
	grapnel.Verdict
	Record *grapnel.Record   // who ran, and what each said
	Late   []grapnel.HookRun // what the observing hooks came to, which run after the answer

	// Of a test that is run in the words of an agent.
	Agent string
	Reply dialect.Reply // what the agent gets
	Took  time.Duration // until the Verdict was there

	engine        *grapnel.Engine
	bytes, allocs uint64 // where that is measured
}

// Fire fires an event at an engine and waits for the observing hooks too. The engine may
// be in use elsewhere.
func Fire(ctx context.Context, engine *grapnel.Engine, ev *grapnel.Event) (Firing, error) {
	f := Firing{engine: engine}
	once, err := engine.With() // others fire through the same engine; each hears of its own
	if err != nil {
		return f, err
	}
	once.AddObserver(grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { f.Record = rec }))
	verdict, late := once.FireAll(ctx, ev)
	f.Verdict = verdict
	for run := range late {
		f.Late = append(f.Late, run)
	}
	return f, nil
}

// Specs are the hooks that were in force.
func (f Firing) Specs() []grapnel.Spec { return f.engine.Specs() }

// Runs are those of all hooks, the observing ones included.
func (f Firing) Runs() []grapnel.HookRun {
	// Of an observing hook the Record knows nothing yet but that it could not be started.
	runs := slices.DeleteFunc(slices.Clone(f.Record.Hooks), func(r grapnel.HookRun) bool {
		return r.Async && slices.ContainsFunc(f.Late, func(l grapnel.HookRun) bool { return l.Name == r.Name && l.Source == r.Source })
	})
	return append(runs, f.Late...)
}

// mostListed is how many hooks are named that do not listen.
const mostListed = 10

// String says what was fired, what came of it, and what each hook said.
func (f Firing) String() string {
	var b strings.Builder
	line := func(what, text string) { fmt.Fprintf(&b, "\t%-8s %s\n", what, text) }
	line("event", sample.ShownEvent(f.Record.Input))
	line("verdict", sample.Shown(f.Verdict))
	runs := f.Runs()
	for _, run := range runs {
		line("hook", f.name(run)+": "+shownRun(run))
	}
	if specs := f.engine.Specs(); len(runs) == 0 {
		line("hook", fmt.Sprintf("none of the %d listens", len(specs)))
		for _, s := range specs[:min(len(specs), mostListed)] {
			line("", fmt.Sprintf("%s: on %v tools %v", s.FullName(), s.On, s.Tools))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// name is a hook's name, and where it stands.
func (f Firing) name(run grapnel.HookRun) string {
	for _, s := range f.engine.Specs() {
		if s.Name == run.Name && s.Source.Name == run.Source && s.Source.File != "" {
			return fmt.Sprintf("%s (%s:%d)", run.Name, filepath.Base(s.Source.File), run.Line)
		}
	}
	return run.Name
}

func shownRun(run grapnel.HookRun) string {
	var said []string
	if run.Outcome != nil {
		said = append(said, sample.Shown(run.Outcome))
	}
	for note, is := range map[string]bool{"it only observes": run.Observed && !run.Async, "its allow does not count": run.Expired} {
		if is {
			said = append(said, note)
		}
	}
	if run.Error != "" {
		said = append(said, "could not answer: "+run.Error)
	}
	if len(said) == 0 {
		return "no opinion"
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}
