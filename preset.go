package grapnel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Preset is one system's way of running hooks, as a set of options. The zero Preset is
// Grapnel's default. A program with hooks that were written for another system sets that system's
// Preset in [Options], and its hooks run under the rules that they expect.
//
// No Preset can undo a Block, even if the other system lets a later hook do so.
type Preset struct {
	Name     string
	Order    Order
	Chain    bool            // each hook is its own step; otherwise hooks of equal rank run together
	Parallel bool            // hooks of one step run at the same time even if they have no timeout
	InChain  bool            // rewrites and rules run among the steps, ordered by rank, instead of before them
	RunAll   bool            // the other hooks also run after a Block
	Changes  Changes         // how changes of several hooks are combined
	Merges   map[Field]Merge // merge rules that override the Contract, per field
	Reasons  Reasons
	Names    Names // how a second hook of the same name is treated
	Once     Once  // which hooks run if several have the same Spec.Key
	DropLate bool  // ignore the Outcome of a hook that exceeded its timeout

	DropIllegal bool // ignore the parts of an Outcome that the event does not permit, instead of treating them as a failure that blocks

	// Defaults for Specs that do not set these fields; see Defaults.
	Timeout    time.Duration // 0 = Specs without a Timeout keep none
	MaxTimeout time.Duration // upper limit for timeouts; 0 = no limit
	OnError    OnError
}

// Order defines how hooks are ranked.
type Order uint8

// The orders. Hooks of the same rank keep the order in which they were added.
const (
	OrderPriority     Order = iota // lower priority first, then the stronger scope
	OrderRegistration              // all hooks have the same rank
	OrderReversed                  // higher priority first
)

// Changes defines which earlier changes a hook sees, and which changes remain.
type Changes uint8

// The modes for changes.
const (
	ChangesChain    Changes = iota // each hook sees the earlier changes: if hooks of one step change the event, the later ones run again
	ChangesLastWins                // all hooks see the event as it was fired; the last hook that replaces a field wins
	ChangesOverlay                 // each step sees tool inputs and requests merged member by member; the last object wins as a whole
	ChangesNone                    // a change is illegal, except for a text that is joined to the agent's own, such as a summary
)

// Reasons defines which reasons a Verdict contains.
type Reasons uint8

// The modes for reasons.
const (
	ReasonsDecisive Reasons = iota // the reasons of all hooks that made the decision
	ReasonsFirst                   // the reason of the first of these hooks
	ReasonsAll                     // the reasons of all hooks that gave one
)

// Names defines how two hooks with the same full name are treated.
type Names uint8

// The rules for names.
const (
	NamesUnique  Names = iota // the second is an error
	NamesReplace              // the second replaces the first
	NamesRepeat               // both run
)

// Once defines which hooks run if several have the same [Spec.Key].
type Once uint8

// The modes for keys.
const (
	OnceNot   Once = iota // all of them: keys have no effect
	OnceFirst             // only the first
	OnceLast              // only the last one of a step
)

// presets has one row per system, Grapnel first.
var presets = []Preset{
	{Name: "grapnel"},
	{
		Name: "claude", Order: OrderRegistration, RunAll: true, Changes: ChangesLastWins, Names: NamesRepeat, Once: OnceFirst,
		Timeout: 600 * time.Second, OnError: OnErrorOpen,
	},
	{
		Name: "gemini", Order: OrderRegistration, RunAll: true, Changes: ChangesOverlay, Merges: map[Field]Merge{FieldTools: MergeUnion},
		Reasons: ReasonsAll, Names: NamesRepeat, Once: OnceFirst, Timeout: 60 * time.Second, OnError: OnErrorOpen, DropLate: true,
	},
	{
		Name: "ironclaw", Chain: true, InChain: true, Reasons: ReasonsFirst, Names: NamesReplace, DropIllegal: true,
		Timeout: 5 * time.Second, MaxTimeout: 30 * time.Second, OnError: OnErrorOpen,
	},
	{
		Name: "openclaw", Parallel: true, InChain: true, RunAll: true, Changes: ChangesLastWins, Names: NamesRepeat, OnError: OnErrorOpen,
	},
	{
		Name: "miniclaw", Order: OrderRegistration, Chain: true, InChain: true, Changes: ChangesLastWins, Reasons: ReasonsFirst,
		Names: NamesRepeat, OnError: OnErrorClosed,
	},
	{
		Name: "flyto", Order: OrderRegistration, Chain: true, InChain: true, RunAll: true, Changes: ChangesNone, Reasons: ReasonsFirst,
		Names: NamesRepeat, Timeout: 30 * time.Second, OnError: OnErrorOpen,
	},
}

// Presets returns one Preset per system, Grapnel's first. The caller may modify the result.
func Presets() []Preset {
	all := slices.Clone(presets)
	for i := range all {
		all[i].Merges = maps.Clone(all[i].Merges)
	}
	return all
}

// FindPreset returns the Preset with this name and reports whether it exists. The caller may
// modify the result.
func FindPreset(name string) (Preset, bool) {
	for i := range presets {
		if presets[i].Name == name {
			p := presets[i]
			p.Merges = maps.Clone(p.Merges)
			return p, true
		}
	}
	return Preset{}, false
}

// Defaults returns the Spec with its unset timeout and OnError filled in from the Preset. It also
// limits the timeout to MaxTimeout.
func (p *Preset) Defaults(s Spec) Spec {
	if s.Timeout == 0 {
		s.Timeout = p.Timeout
	}
	if p.MaxTimeout > 0 && (s.Timeout == 0 || s.Timeout > p.MaxTimeout) {
		s.Timeout = p.MaxTimeout
	}
	if s.OnError == OnErrorDefault {
		s.OnError = p.OnError
	}
	return s
}

// named applies the rule for names. It returns an error if a Spec is invalid or, under
// NamesUnique, if a name is used twice. It reuses the slice specs.
func (p *Preset) named(specs []Spec) ([]Spec, error) {
	at := make(map[[2]string]int, len(specs))
	kept := specs[:0]
	for i := range specs {
		s := &specs[i]
		if err := s.check(); err != nil {
			return nil, err
		}
		name := [2]string{s.Source.Name, s.Name}
		first, taken := at[name]
		switch {
		case taken && p.Names == NamesUnique:
			return nil, fmt.Errorf("two hooks have the name %q in source %q: names must be unique in a source", s.Name, s.Source.Name)
		case taken && p.Names == NamesReplace:
			kept[first] = *s
			continue
		}
		at[name] = len(kept)
		if kept = kept[:len(kept)+1]; len(kept) <= i {
			kept[len(kept)-1] = *s
		}
	}
	return kept, nil
}

// compare compares the ranks of two Specs.
func (p *Preset) compare(a, b *Spec) int {
	switch p.Order {
	case OrderRegistration:
		return 0
	case OrderReversed:
		return cmp.Compare(b.priority(), a.priority())
	default:
		return cmp.Or(cmp.Compare(a.priority(), b.priority()), cmp.Compare(a.Source.Scope, b.Source.Scope))
	}
}

// together reports whether two Specs, adjacent in plan order, are in the same step.
func (p *Preset) together(a, b *Spec) bool {
	return !p.Chain && (p.Order == OrderRegistration || a.priority() == b.priority())
}
