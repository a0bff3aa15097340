package grapnel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Preset is one system's way of running hooks, as a row of options. The zero
// Preset is Grapnel's own. A program that grew up with another system's hooks gives
// its row to [Options], and its hooks meet what they were written for.
//
// No row undoes a block: where a system lets a later hook do so, Grapnel does not.
type Preset struct {
	Name     string
	Order    Order
	Chain    bool            // each hook is a step of its own; otherwise hooks of equal rank run together
	InChain  bool            // rewrites and rules stand among the steps, where their rank puts them, instead of before them
	RunAll   bool            // a block does not keep the other hooks from running
	Changes  Changes         // what becomes of the changes of several hooks
	Merges   map[Field]Merge // fields whose changes merge otherwise than their Contract says
	Reasons  Reasons
	Names    Names // what a second hook of the same name is
	Once     Once  // which one runs of several that have the same Spec.Key
	DropLate bool  // what a hook said counts for nothing if its time was up

	DropIllegal bool // what an event does not permit counts for nothing, and not as a failure that blocks

	// What a Spec gets that does not say it itself; see Defaults.
	Timeout    time.Duration
	MaxTimeout time.Duration // longer timeouts are cut to it; 0 = any
	OnError    OnError
}

// Order says by what hooks are ranked.
type Order uint8

// The orders. Hooks of the same rank keep the order in which they were added.
const (
	ByPriority     Order = iota // lower first, then the stronger scope
	ByRegistration              // all are of the same rank
	Reversed                    // higher priority first
)

// Changes says what a hook sees of the changes that others made before it, and
// whose change stays.
type Changes uint8

// The ways of changing.
const (
	ChangesChain    Changes = iota // each step sees what the one before left
	ChangesLastWins                // all see the event as it came; the last to replace a field wins
	ChangesOverlay                 // each step sees tool inputs and requests laid over each other, member by member; the last object wins whole
	ChangesNone                    // a change is illegal
)

// Reasons says whose reasons a Verdict gives.
type Reasons uint8

// The ways of giving reasons.
const (
	ReasonsDecisive Reasons = iota // of all hooks that made the decision
	ReasonsFirst                   // of the first of them
	ReasonsAll                     // of all hooks that gave one
)

// Names says what becomes of two hooks with the same full name.
type Names uint8

// The rules for names.
const (
	NamesUnique  Names = iota // the second is an error
	NamesReplace              // it takes the place of the first
	NamesRepeat               // both run
)

// Once says which hook runs of several with the same [Spec.Key].
type Once uint8

// The choices.
const (
	OnceNot   Once = iota // all of them: keys mean nothing
	OnceFirst             // the first
	OnceLast              // the last of a step
)

// presets has one row per system, Grapnel first.
var presets = []Preset{
	{Name: "grapnel"},
	{
		Name: "claude", Order: ByRegistration, RunAll: true, Changes: ChangesLastWins, Names: NamesRepeat, Once: OnceFirst,
		Timeout: 600 * time.Second, OnError: OnErrorOpen,
	},
	{
		Name: "gemini", Order: ByRegistration, RunAll: true, Changes: ChangesOverlay, Merges: map[Field]Merge{FieldTools: MergeUnion},
		Reasons: ReasonsAll, Names: NamesRepeat, Once: OnceFirst, Timeout: 60 * time.Second, OnError: OnErrorOpen, DropLate: true,
	},
	{
		Name: "ironclaw", Chain: true, InChain: true, Reasons: ReasonsFirst, Names: NamesReplace, DropIllegal: true,
		Timeout: 5 * time.Second, MaxTimeout: 30 * time.Second, OnError: OnErrorOpen,
	},
	{
		Name: "openclaw", Chain: true, InChain: true, RunAll: true, Changes: ChangesLastWins, Names: NamesRepeat, OnError: OnErrorOpen,
	},
	{
		Name: "miniclaw", Order: ByRegistration, Chain: true, InChain: true, Changes: ChangesLastWins, Reasons: ReasonsFirst,
		Names: NamesRepeat, OnError: OnErrorClosed,
	},
	{
		Name: "flyto", Order: ByRegistration, Chain: true, InChain: true, RunAll: true, Changes: ChangesNone, Reasons: ReasonsFirst,
		Names: NamesRepeat, Timeout: 30 * time.Second, OnError: OnErrorOpen,
	},
}

// Presets returns one Preset per system, Grapnel's first. The result is the caller's.
func Presets() []Preset {
	all := slices.Clone(presets)
	for i := range all {
		all[i].Merges = maps.Clone(all[i].Merges)
	}
	return all
}

// FindPreset returns the Preset with this name. The result is the caller's.
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

// Defaults returns the Spec with what it does not say filled in as the system
// would.
func (p *Preset) Defaults(s Spec) Spec {
	if s.Timeout == 0 {
		s.Timeout = p.Timeout
	}
	if p.MaxTimeout > 0 {
		s.Timeout = min(s.Timeout, p.MaxTimeout)
	}
	if s.OnError == OnErrorDefault {
		s.OnError = p.OnError
	}
	return s
}

// named applies the rule for names, and reports what is wrong with a Spec.
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
			return nil, fmt.Errorf("two hooks are named %q in source %q: names are unique in a source", s.Name, s.Source.Name)
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

// compare ranks two Specs.
func (p *Preset) compare(a, b *Spec) int {
	switch p.Order {
	case ByRegistration:
		return 0
	case Reversed:
		return cmp.Compare(b.priority(), a.priority())
	default:
		return cmp.Or(cmp.Compare(a.priority(), b.priority()), cmp.Compare(a.Source.Scope, b.Source.Scope))
	}
}

// together reports whether two Specs, next to each other in plan order, see the
// same event.
func (p *Preset) together(a, b *Spec) bool {
	return !p.Chain && (p.Order == ByRegistration || a.priority() == b.priority())
}
