// Package explain fires an event without effects, and reports which hooks ran, their outcomes,
// and how the verdict and the reply were made.
package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/pause"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// Explanation is the output of "grapnel explain --json".
type Explanation struct {
	Agent   string            `json:"agent"`
	Event   grapnel.Kind      `json:"event"`
	Record  string            `json:"record,omitempty"` // ID of the Record that the event comes from
	Plan    []grapnel.Planned `json:"plan"`
	Hooks   []hookPart        `json:"hooks"` // in the order in which they ran, then hooks of the plan that did not run
	Merge   []string          `json:"merge,omitempty"`
	Verdict explainedVerdict  `json:"verdict"`
	Reply   explainedReply    `json:"reply"`
	NotYet  []notYet          `json:"not_yet,omitempty"` // hooks that match only after another event
	Others  []unmatched       `json:"others,omitempty"`  // hooks that do not match: those that nearly match, or all
	Why     []whyHook         `json:"why,omitempty"`     // about the hook of --why
	NotRun  []string          `json:"not_run,omitempty"` // programs and servers that were not started or asked
	Error   string            `json:"error,omitempty"`   // why the event could not be read
	Notices []string          `json:"notices,omitempty"`
	MS      float64           `json:"ms"` // duration of the firing

	Policies []load.Loaded `json:"policies"` // all policy files

	about   []string // description of the event, one line per value
	timed   bool     // durations are shown
	more    int      // hooks for this kind of event that are not in Others
	servers []string // names of hooks that ask servers
	sent    *grapnel.Event
	mask    func(string) string
}

// hookPart is the run of a hook in a firing.
type hookPart struct {
	Step   int           `json:"step,omitempty"` // hooks in the same step see the same event
	Round  int           `json:"round,omitempty"`
	Phase  grapnel.Phase `json:"phase"`
	Hook   string        `json:"hook"`
	Source string        `json:"source"`
	File   string        `json:"file,omitempty"`
	Line   int           `json:"line,omitempty"`
	Why    []match.Check `json:"why,omitempty"` // conditions of the hook
	Part   part          `json:"part"`
	Reason string        `json:"because,omitempty"` // explains Part

	Saw      map[grapnel.Field]json.RawMessage `json:"saw,omitempty"` // values of the event that had been changed before this run
	Outcome  *grapnel.Outcome                  `json:"outcome,omitempty"`
	Decision grapnel.Decision                  `json:"decision"`
	Cause    grapnel.Cause                     `json:"cause,omitempty"`
	Error    string                            `json:"error,omitempty"`
	Wrote    *wrote                            `json:"wrote,omitempty"` // by a program
	MS       float64                           `json:"ms"`

	matched string
	saw     *grapnel.Event
	run     grapnel.HookRun
}

// Counts reports whether the decision of the hook has an effect, if no other is stricter.
func (h *hookPart) Counts() bool { return h.Part == partDecides || h.Part == partOutvoted }

// A part is the role of a hook in the verdict.
type part string

// The values of part.
const (
	partNone     part = "none"     // no decision and no other effect
	partDecides  part = "decides"  // it has the strongest decision
	partOutvoted part = "outvoted" // another hook has a stronger decision
	partExpired  part = "expired"  // its allow is no longer valid
	partApproved part = "approved" // a person let this call pass
	partObserves part = "observes" // its mode is observe
	partFailed   part = "failed"   // it failed, which is treated as no decision
	partAdds     part = "adds"     // no decision, but a change, message or context
	partNotAsked part = "not_asked"
	partLater    part = "later" // it runs after the reply
)

// wrote is the output of a program.
type wrote struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Exit   int    `json:"exit"`
	Signal string `json:"signal,omitempty"`
}

// kindOf returns why a hook was not run.
func (x *Explanation) kindOf(hook string) string {
	if slices.Contains(x.servers, hook) {
		return "server: explain does not call it"
	}
	return "program: explain does not run it"
}

// notYet is a hook that matches only after another event.
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

// Options are the settings of an explanation.
type Options struct {
	Policies []string // in addition to those in force
	Why      string   // name of the hook to explain
	All      bool     // also hooks that do not match
	Run      bool     // run programs and ask servers
}

// New fires an event without storing anything. It runs no programs unless Options.Run is set.
func New(ctx context.Context, place local.Place, s *Subject, e *Options) (*Explanation, error) {
	ev := s.event
	x := &Explanation{Agent: ev.Agent.Name, Event: ev.Kind, Record: s.record, Plan: []grapnel.Planned{}, Hooks: []hookPart{}, sent: ev, timed: e.All || e.Why != ""}
	sp, err := spool.Open(place.State, nil)
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
	trial.reach = set.Reach
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
	for _, p := range plan.Entries { // the output may be shared, so mask the matched text
		p.Matched = x.mask(p.Matched)
		x.Plan = append(x.Plan, p)
	}

	t := explainer{x: x, engine: engine, specs: engine.Specs(""), trial: trial, rec: rec, plan: plan}
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

// notices adds the notices about the policies.
func (x *Explanation) notices(place local.Place, set *load.Set) {
	x.Policies = set.Files
	for _, file := range set.Files {
		if file.Notice != "" {
			x.Notices = append(x.Notices, file.Notice)
		}
		if file.RunBy != "" && file.RunBy == x.Agent {
			x.Notices = append(x.Notices, fmt.Sprintf("grapnel: %s runs the hooks of %s itself, so Grapnel does not run them here", file.RunBy, file.File))
		}
	}
	off, err := pause.ReadOff(place.Off())
	if err != nil {
		x.Notices = append(x.Notices, "grapnel: "+err.Error())
	}
	for _, h := range off {
		x.Notices = append(x.Notices, fmt.Sprintf("grapnel: hook %s is off: %s (to switch it on: grapnel hooks enable %[1]s)", h.Hook, h.Reason))
	}
	if pause, ok := pause.Read(place.Pause(), time.Now()); ok {
		x.Notices = append(x.Notices, pause.Notice())
	}
}

// masker returns a function that masks secrets as in Records, and by the rules of the policies.
func masker(set *load.Set) func(string) string {
	return func(text string) string {
		text = spool.Mask(text)
		if set.Hide != nil {
			text = set.Hide(text)
		}
		return text
	}
}

// notNil returns a non-nil list, so that JSON does not contain null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
