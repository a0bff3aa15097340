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

// A Kind of suggestion says what was found.
type Kind string

// The kinds, in reading order.
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

// Kinds returns every Kind.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{FailsOpen, Fails, AlwaysApproved, NeverApproved, Shadowed, NeverMatched, TooWide, Slow, LimitUnused, LimitHit, FailsAgain}

// A Hook is one of those in force, of which something may be suggested.
type Hook struct {
	grapnel.Spec
	Policy *policyfile.Hook // as its file has it; nil = its file does not hold it: it is of a pack, or of another system's file
	Leaves bool             // it is a program or a server
}

// Thresholds say how much is enough to speak of. Zero stands for the default.
type Thresholds struct {
	Asked    int           // questions of a rule: 5
	Answer   time.Duration // between a question and the end of the call, before somebody can have answered: 1s
	Matched  int           // times that a rule matched, before it counts as shadowed: 5
	Seen     int           // events at which a rule had its chance, or at which a hook had nothing to say: 100
	Days     int           // between the first and the last of those, before a rule counts as one that never matches: 21
	Failures int           // of a hook: 3
	Slow     time.Duration // that 5 % of the runs of a hook exceed: 1s
	Runs     int           // of a hook, before its times, limits and tools count: 20
	Repeats  int           // of a command that had just failed: 5
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

// SuggestOptions are what [Suggest] works with.
type SuggestOptions struct {
	Hooks      []Hook               // in force, in the order in which they run
	Files      map[string][]byte    // what the files of the hooks hold, by name
	Changed    map[string]time.Time // and when that was changed last
	Policy     string               // the file that new rules belong into
	StandIn    string               // as in Options
	Wants      func(*spool.Entry) bool
	Thresholds Thresholds
	Progress   func(records int)
}

// Advice is what Records suggest.
type Advice struct {
	From        time.Time    `json:"from,omitzero"` // of the first and of the last Record
	To          time.Time    `json:"to,omitzero"`
	Records     int          `json:"records"`
	NoEvents    int          `json:"no_events"` // of which only metadata is known
	Suggestions []Suggestion `json:"suggestions"`
}

// A Suggestion is a change of a policy that Records speak for. It is no proof.
type Suggestion struct {
	Kind     Kind      `json:"kind"`
	Rule     *Rule     `json:"rule,omitempty"` // nil = a rule that there is not yet
	File     string    `json:"file,omitempty"`
	Title    string    `json:"title"`  // what was found
	Advice   string    `json:"advice"` // what to do about it, and what the Records cannot tell
	Count    int       `json:"count"`  // Records that speak for it
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Records  []string  `json:"records"`  // IDs of some
	Evidence []string  `json:"evidence"` // further facts
	Hunk     string    `json:"hunk,omitempty"`
}

// Suggest reads Records in the order of time, and says which rules they speak for. Memory
// does not grow with their number.
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

// suggestions are what was found, the most pressing first.
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
				s.Evidence = append(s.Evidence, "its file was changed after the first of these Records, last at "+at.Local().Format("2006-01-02 15:04"))
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
