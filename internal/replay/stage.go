package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/counts"
	"github.com/grapnel-dev/grapnel/internal/wording"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A Stage is the environment of the hooks of a policy under evaluation: the clock, the counter of
// limits, and the answers of programs and servers. It evaluates one event after the other.
type Stage struct {
	clock    clock
	counter  counts.Memory
	standIn  standIn
	judge    func(*grapnel.Event) (*grapnel.Engine, error)
	sources  map[*grapnel.Engine]*cast
	current  *cast
	scene    *scene
	answered map[string]int // how often each recorded hook has answered in the current firing
	came     *grapnel.Record
	missing  bool // a program without a recorded answer was called
	mu       sync.Mutex
	programs map[string]*RecordedHook
}

// cast lists the sources and hooks of an engine.
type cast struct {
	sources []string
	known   map[string]bool     // recorded sources: whether the engine has them
	of      map[string][]string // sources by hook name
}

// maxCasts is the maximum number of cached engines.
const maxCasts = 256

func newStage(open Policy, file string) *Stage {
	s := &Stage{sources: map[*grapnel.Engine]*cast{}, standIn: standIn(file), programs: map[string]*RecordedHook{}}
	s.counter.Now = s.clock.now
	s.judge = open(s)
	return s
}

// Now returns the time of the current event.
func (s *Stage) Now() time.Time { return s.clock.now() }

// Counter returns the counter of limits.
func (s *Stage) Counter() interface {
	load.Counter
	Counted(owner, key string) ([]byte, error)
} {
	return &s.counter
}

// Observe receives the result of an event: the Stage is an Observer of its engines.
func (s *Stage) Observe(_ context.Context, rec *grapnel.Record) { s.came = rec }

// Run does nothing, so observing hooks do not run: the Stage is the Background of its engines.
func (s *Stage) Run(context.Context, *grapnel.Event, []grapnel.Spec) error { return nil }

// Find returns the recorded approval of a hook's answer: see grapnel.Options.
func (s *Stage) Find(ctx context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval {
	found := approval.Approvals{}.Find(ctx, ev, hook, decision)
	if found.How != "" && slices.ContainsFunc(s.scene.entry.Hooks, func(run grapnel.HookRun) bool { return run.Name == hook.Name && run.Approved >= decision }) {
		found.ID, found.Use = s.scene.entry.Approval, func(context.Context, *grapnel.Event) bool { return true }
	}
	if decision == grapnel.Ask && found.How != "" && approval.Terms(hook) != nil {
		found.Permit, found.Ask = true, s.refused
	}
	return found
}

// refused returns the recorded answer of a person who did not approve the call.
func (s *Stage) refused(context.Context, *grapnel.Event, []grapnel.HookRun) (string, grapnel.Outcome) {
	rec := &s.scene.entry.Record
	if rec.Decision == grapnel.Block && len(rec.Reasons) == 1 && rec.Reasons[0].Hook == "grapnel" {
		return "", grapnel.Outcome{Decision: grapnel.Block, Reason: rec.Reasons[0].Text}
	}
	return "", grapnel.Outcome{}
}

// ReplayHook returns the hook that replaces one that runs a program or contacts a server. It returns
// the recorded answer.
func (s *Stage) ReplayHook(name string) grapnel.Hook { return &replayHook{s, name} }

type replayHook struct {
	stage *Stage
	name  string
}

// Handle returns the recorded answer, or no opinion if the Record has no run of the hook.
func (h *replayHook) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	s := h.stage
	s.mu.Lock()
	defer s.mu.Unlock()
	run, n := s.recorded(h.name)
	stats := s.programs[h.name]
	if stats == nil {
		stats = &RecordedHook{Name: h.name}
		s.programs[h.name] = stats
	}
	if run == nil {
		stats.Unknown++
		s.missing = true
		return grapnel.Outcome{}, nil
	}
	s.answered[h.name] = n
	stats.Answers++
	if len(run.Changed) > 0 {
		stats.Changes++
	}
	var out grapnel.Outcome
	if run.Decision > grapnel.None && (run.Error == "" || run.Cause == grapnel.CauseDecision) {
		out.Decision = run.Decision
		for _, r := range s.scene.entry.Reasons {
			if r.Hook == run.Name || r.Hook == run.Source+"::"+run.Name {
				out.Reason = r.Text
			}
		}
	}
	if run.Halt {
		out.Halt = s.scene.entry.Halt
	}
	switch {
	case run.Error == "":
		return out, nil
	case run.Cause == grapnel.CauseTimeout:
		return out, fmt.Errorf("%w, then: %s", grapnel.ErrTimeout, run.Error)
	}
	return out, errors.New(run.Error)
}

// recorded returns the recorded run for the current call of a hook, and its number. After the
// last recorded run it returns that run again.
func (s *Stage) recorded(name string) (last *grapnel.HookRun, n int) {
	for i := range s.scene.entry.Hooks {
		run := &s.scene.entry.Hooks[i]
		if run.Name != name || run.Async || !slices.ContainsFunc(s.current.of[name], func(source string) bool { return s.standIn.same(source, run.Source) }) {
			continue
		}
		last = run
		if n++; n > s.answered[name] {
			break
		}
	}
	return last, n
}

// A standIn is a policy file that replaces another one, see Options.StandIn.
type standIn string

// same reports whether a source of the policy is identified with a recorded source.
func (s standIn) same(now, then string) bool {
	if now == then {
		return true
	}
	rest, ours := strings.CutPrefix(now, string(s))
	if s == "" || !ours {
		return false
	}
	_, pack, _ := strings.Cut(rest, "#")
	_, packThen, _ := strings.Cut(then, "#")
	return pack == packThen
}

// played is the result of an event.
type played struct {
	grapnel.Record
	missing bool // a program had no recorded answer
}

// play evaluates an event.
func (s *Stage) play(ctx context.Context, sc *scene) (*played, error) {
	s.clock.at, s.scene, s.came, s.missing = sc.entry.Time, sc, nil, false
	s.answered = map[string]int{}
	ev := *sc.event // a copy, because another Stage must not see changes by this one
	engine, err := s.judge(&ev)
	if err != nil {
		return nil, err
	}
	s.current = s.castOf(engine)
	engine.Fire(ctx, &ev)
	if s.came == nil {
		return nil, errors.New("the policy has no observer: the Stage must be one of its observers")
	}
	p := &played{Record: *s.came, missing: s.missing}
	for i := range p.Hooks { // the new values are not known, only the changed fields
		run := &p.Hooks[i]
		if s.answered[run.Name] == 0 || run.Observed {
			continue
		}
		if then, _ := s.recorded(run.Name); then != nil {
			for _, f := range then.Changed {
				if !slices.Contains(p.Changed, f) && slices.Contains(sc.entry.Changed, f) {
					p.Changed = append(p.Changed, f)
				}
			}
		}
	}
	return p, nil
}

func (s *Stage) castOf(engine *grapnel.Engine) *cast {
	if c := s.sources[engine]; c != nil {
		return c
	}
	if len(s.sources) >= maxCasts {
		clear(s.sources)
	}
	c := &cast{known: map[string]bool{}, of: map[string][]string{}}
	for _, spec := range engine.Specs("") {
		if !c.known[spec.Source.Name] {
			c.known[spec.Source.Name] = true
			c.sources = append(c.sources, spec.Source.Name)
		}
		c.of[spec.Name] = append(c.of[spec.Name], spec.Source.Name)
	}
	s.sources[engine] = c
	return c
}

// maxSources is the maximum number of missing sources in a report.
const maxSources = 64

// note adds to a report the recorded hooks that are not from a source of the policy.
func (s *Stage) note(r *Report, sc *scene) {
	c := s.current
	for i := range sc.entry.Hooks {
		source := sc.entry.Hooks[i].Source
		known, looked := c.known[source]
		if !looked {
			known = strings.HasPrefix(source, "grapnel:") || slices.ContainsFunc(c.sources, func(now string) bool { return s.standIn.same(now, source) })
			if len(c.known) < maxCasts && len(source) <= maxName {
				c.known[source] = known
			}
		}
		source = wording.Shorten(source, maxName)
		if _, counted := r.gone[source]; !known && (counted || len(r.gone) < maxSources) {
			r.gone[source]++
		}
	}
}
