package replay

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A Kind is the kind of a suggestion.
type Kind string

// The kinds, in the order for display.
const (
	FailsOpen      Kind = "fails-open"
	Fails          Kind = "fails"
	AlwaysApproved Kind = "always-approved"
	NeverApproved  Kind = "never-approved"
	Shadowed       Kind = "shadowed"
	NeverMatched   Kind = "never-matched"
	TooWide        Kind = "too-wide"
	Slow           Kind = "slow"
	LimitUnused    Kind = "limit-unused"
	LimitHit       Kind = "limit-hit"
	FailsAgain     Kind = "fails-again"
)

// Kinds returns every Kind, in the order for display.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{FailsOpen, Fails, AlwaysApproved, NeverApproved, Shadowed, NeverMatched, TooWide, Slow, LimitUnused, LimitHit, FailsAgain}

// A Hook is an enabled hook that suggestions may be about.
type Hook struct {
	grapnel.Spec
	Policy *policyfile.Hook // the hook in its policy file; nil = it is from a pack or from another system's file
	Leaves bool             // it runs a program or contacts a server
}

// Thresholds are the minimum values for a suggestion. Zero means the default.
type Thresholds struct {
	Asked    int           // questions asked by a rule: 5
	Answer   time.Duration // time between a question and the end of the call, below which no user can have answered: 1s
	Matched  int           // matches of a rule before it is reported as shadowed: 5
	Seen     int           // events that a rule could have matched, or at which a hook had no effect: 100
	Days     int           // days between the first and the last of these events before a rule is reported as never matching: 21
	Failures int           // failures of a hook: 3
	Slow     time.Duration // duration that 5 % of the runs of a hook exceed: 1s
	Runs     int           // runs of a hook before its durations, limits and tools are analyzed: 20
	Repeats  int           // retries of a command right after it failed: 5
}

func (t *Thresholds) fill() {
	for _, n := range []struct {
		of *int
		or int
	}{{&t.Asked, 5}, {&t.Matched, 5}, {&t.Seen, 100}, {&t.Days, 21}, {&t.Failures, 3}, {&t.Runs, 20}, {&t.Repeats, 5}} {
		*n.of = cmp.Or(*n.of, n.or)
	}
	t.Slow, t.Answer = cmp.Or(t.Slow, time.Second), cmp.Or(t.Answer, time.Second)
}

// SuggestOptions are the options of [Suggest].
type SuggestOptions struct {
	Hooks      []Hook               // the enabled hooks, in the order in which they run
	Files      map[string][]byte    // contents of the hooks' files, by name
	Changed    map[string]time.Time // time of the last change of each file
	Policy     string               // the file for new rules
	StandIn    string               // see Options.StandIn
	Wants      func(*spool.Entry) bool
	Thresholds Thresholds
	Progress   func(records int)
}

// Advice is the result of [Suggest].
type Advice struct {
	From        time.Time    `json:"from,omitzero"` // time of the first Record; To is the time of the last
	To          time.Time    `json:"to,omitzero"`
	Records     int          `json:"records"`
	NoEvents    int          `json:"no_events"` // Records without an event, only with metadata
	Suggestions []Suggestion `json:"suggestions"`
}

// A Suggestion is a change of a policy that Records support. The Records do not prove that it is
// right.
type Suggestion struct {
	Kind     Kind      `json:"kind"`
	Rule     *Rule     `json:"rule,omitempty"` // nil = the suggestion is a new rule
	File     string    `json:"file,omitempty"`
	Title    string    `json:"title"`  // the finding
	Advice   string    `json:"advice"` // the recommended change, and its uncertainty
	Count    int       `json:"count"`  // Records that support it
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Records  []string  `json:"records"`  // IDs of some of them
	Evidence []string  `json:"evidence"` // further facts
	Hunk     string    `json:"hunk,omitempty"`
}

// Suggest reads Records in the order of time and suggests changes of the policy. Its memory does
// not grow with the number of Records.
func Suggest(ctx context.Context, records iter.Seq2[Record, error], opts SuggestOptions) (*Advice, error) {
	a := &adviser{
		opts: &opts, th: opts.Thresholds, advice: &Advice{}, byName: map[string][]*tally{},
		ends: map[string]bool{}, fails: map[string]time.Time{}, repeats: map[string]*repeated{},
	}
	a.th.fill()
	for i := range opts.Hooks {
		t := &tally{hook: &opts.Hooks[i], order: i, about: map[string]int{}, lines: map[string]int{}, where: map[string]bool{}, modes: map[string]int{}, tools: map[string]*toolTally{}}
		if h := t.hook.Policy; h != nil && h.Limit != nil && h.Limit.Sum == "" {
			t.used = newWindow(h.Limit)
		}
		if t.waits() {
			a.waiting = append(a.waiting, t)
		}
		a.tallies = append(a.tallies, t)
		a.byName[t.hook.Name] = append(a.byName[t.hook.Name], t)
	}
	for batch := range decoded(records, opts.Wants, opts.Progress) {
		if ctx.Err() != nil {
			break
		}
		for i := range batch {
			a.look(&batch[i])
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.advice.Suggestions = a.suggestions()
	return a.advice, nil
}

// suggestions returns the findings, the most important first.
func (a *adviser) suggestions() []Suggestion {
	list, opts := []Suggestion{}, a.opts
	for _, t := range a.tallies {
		for _, find := range []func(*tally) *Suggestion{a.failing, a.approved, a.shadowed, a.unmatched, a.wide, a.slow, a.limit} {
			s := find(t)
			if s == nil {
				continue
			}
			s.Rule, s.File = &Rule{t.hook.Name, t.hook.Source.Name, t.hook.Line}, t.hook.Source.File
			if at := opts.Changed[s.File]; at.After(s.First) {
				s.Evidence = append(s.Evidence, "its file changed after the first of these records, last at "+at.Local().Format("2006-01-02 15:04"))
			}
			list = append(list, *s)
		}
	}
	if s := a.again(); s != nil {
		list = append(list, *s)
	}
	for i := range list {
		if list[i].Records == nil {
			list[i].Records = []string{}
		}
		if list[i].Evidence == nil {
			list[i].Evidence = []string{}
		}
	}
	slices.SortStableFunc(list, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(b.Count, a.Count))
	})
	return list
}
