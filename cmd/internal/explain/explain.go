// Package explain fires an event without effects, and reports which hooks ran, what each
// answered, and how the verdict and the reply came about.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy"
)

// Explanation is what "grapnel explain --json" prints.
type Explanation struct {
	Agent   string            `json:"agent"`
	Event   grapnel.Kind      `json:"event"`
	Record  string            `json:"record,omitempty"` // the event is that of this Record, as it was kept
	Plan    []grapnel.Planned `json:"plan"`
	Hooks   []hookPart        `json:"hooks"` // in the order in which they were asked, then those of the plan that were not
	Merge   []string          `json:"merge,omitempty"`
	Verdict explainedVerdict  `json:"verdict"`
	Reply   explainedReply    `json:"reply"`
	NotYet  []notYet          `json:"not_yet,omitempty"` // hooks that wait for something to happen first
	Others  []unmatched       `json:"others,omitempty"`  // hooks that do not listen: those that nearly would, or all
	Why     []whyHook         `json:"why,omitempty"`     // of the hook that was asked about
	NotRun  []string          `json:"not_run,omitempty"` // programs and servers that would have been asked
	Error   string            `json:"error,omitempty"`   // the event could not be read
	Notices []string          `json:"notices,omitempty"`
	MS      float64           `json:"ms"` // that the firing took

	Policies []policy.Loaded `json:"policies"` // that there are

	about   []string // the event in words, a line each
	timed   bool     // it shows how long each took
	more    int      // hooks that listen to such events and are not among Others
	servers []string // hooks that ask one
	sent    *grapnel.Event
	mask    func(string) string
}

// hookPart is a hook's part in a firing.
type hookPart struct {
	Step   int           `json:"step,omitempty"` // hooks of one step see the same event
	Round  int           `json:"round,omitempty"`
	Phase  grapnel.Phase `json:"phase"`
	Hook   string        `json:"hook"`
	Source string        `json:"source"`
	File   string        `json:"file,omitempty"`
	Line   int           `json:"line,omitempty"`
	Why    []match.Check `json:"why,omitempty"` // its conditions
	Part   part          `json:"part"`
	Reason string        `json:"because,omitempty"` // of the part, in words

	Saw      map[grapnel.Field]json.RawMessage `json:"saw,omitempty"` // what it saw otherwise than as it came
	Said     *grapnel.Outcome                  `json:"said,omitempty"`
	Decision grapnel.Decision                  `json:"decision"`
	Cause    grapnel.Cause                     `json:"cause,omitempty"`
	Error    string                            `json:"error,omitempty"`
	Wrote    *wrote                            `json:"wrote,omitempty"` // of a program that was run
	MS       float64                           `json:"ms"`

	matched string
	saw     *grapnel.Event
	run     grapnel.HookRun
}

// A part is what became of a hook's answer.
type part string

// The parts.
const (
	partNone     part = "none"     // it has no opinion
	partDecides  part = "decides"  // the verdict is what it said
	partOutvoted part = "outvoted" // a stronger decision counts
	partExpired  part = "expired"  // its allow does not count
	partObserves part = "observes" // its mode is observe
	partFailed   part = "failed"   // it could not answer, which counts as no opinion
	partAdds     part = "adds"     // it decides nothing, and changes the event or tells something
	partNotAsked part = "not_asked"
	partLater    part = "later" // it runs after the answer
)

// wrote is what a program left.
type wrote struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
	Signal string `json:"signal,omitempty"`
}

// kindOf says why a hook was left out.
func (x *Explanation) kindOf(hook string) string {
	if slices.Contains(x.servers, hook) {
		return "server: explain does not ask it"
	}
	return "program: explain does not run it"
}

// notYet is a hook that would listen, had something happened before.
type notYet struct {
	Hook   string `json:"hook"`
	Source string `json:"source"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Why    string `json:"why"`
}

type explainedVerdict struct {
	Decision    grapnel.Decision                  `json:"decision"`
	Reasons     []grapnel.Reason                  `json:"reasons"`
	Messages    []string                          `json:"messages,omitempty"`
	Context     []string                          `json:"context"`
	Changes     map[grapnel.Field]json.RawMessage `json:"changes"`
	Halt        string                            `json:"halt"`
	Unsupported []string                          `json:"unsupported"`
}

type explainedReply struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
}

// Options say what is explained beside the firing.
type Options struct {
	Policies []string // beside those in force
	Why      string   // the name of a hook
	All      bool     // also hooks that do not listen
	Run      bool     // programs, and ask servers
}

// New answers an event with nothing kept, and no program run unless that is wanted.
func New(ctx context.Context, place local.Place, s *Subject, e *Options) (*Explanation, error) {
	ev := s.event
	x := &Explanation{Agent: ev.Agent.Name, Event: ev.Kind, Record: s.record, Plan: []grapnel.Planned{}, Hooks: []hookPart{}, sent: ev, timed: e.All || e.Why != ""}
	sp, err := spool.Open(place.Spool(), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sp.Close() }()
	trial := &trial{place: place, run: e.Run, counter: readOnlyCounter{sp}}
	opts := trial.options()
	opts.Unread = s.unread
	opts.Place, opts.Files = &place, place.Files(e.Policies, place.Dirs(ev, false))
	opened, err := local.Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	engine, set := opened.Engine, opened.Set
	trial.networks = set.Networks
	x.mask = masker(&set)
	x.about = eventWords(ev, x.mask)

	plan := engine.Plan(ev)
	reply := s.answer(ctx, engine)
	trial.runLater(ctx)
	x.NotRun, x.servers = trial.notRun, trial.servers
	x.Reply = explainedReply{Stdout: string(reply.Stdout), Stderr: string(reply.Stderr), Exit: reply.Exit}
	rec := &trial.record
	x.Error, x.MS = rec.Error, rec.MS
	verdict := rec.Verdict
	x.Verdict = explainedVerdict{
		Decision: verdict.Decision, Reasons: notNil(verdict.Reasons), Messages: verdict.Messages, Context: notNil(verdict.Context),
		Changes: verdict.Changes, Halt: verdict.Halt, Unsupported: notNil(verdict.Unsupported),
	}
	if x.Verdict.Changes == nil {
		x.Verdict.Changes = map[grapnel.Field]json.RawMessage{}
	}
	for _, p := range plan.Entries { // it is shown to others, and what was looked for is not told
		p.Matched = x.mask(p.Matched)
		x.Plan = append(x.Plan, p)
	}

	t := explainer{x: x, engine: engine, specs: engine.List(""), trial: trial, rec: rec, plan: plan}
	t.hooks()
	t.merge()
	t.others(e.All)
	if e.Why != "" {
		if err := t.why(e.Why, place, &set); err != nil {
			return nil, err
		}
	}
	x.notices(place, &set)
	return x, nil
}

// notices says what a person should know of the policies.
func (x *Explanation) notices(place local.Place, set *policy.Set) {
	x.Policies = set.Files
	for _, file := range set.Files {
		if file.Notice != "" {
			x.Notices = append(x.Notices, file.Notice)
		}
		if file.RunBy != "" && file.RunBy == x.Agent {
			x.Notices = append(x.Notices, fmt.Sprintf("grapnel: %s runs the hooks of %s by itself, so none of them listens here", file.RunBy, file.File))
		}
	}
	if pause, ok := pause.Read(place.Pause(), time.Now()); ok {
		x.Notices = append(x.Notices, pause.Notice())
	}
}

// masker hides secrets as Records do, and by the rules of the policies.
func masker(set *policy.Set) func(string) string {
	return func(text string) string {
		text = spool.Mask(text)
		if set.Hide != nil {
			text = set.Hide(text)
		}
		return text
	}
}

// notNil returns a list that JSON does not write as null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
