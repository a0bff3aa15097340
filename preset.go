package grapnel

import (
	"cmp"
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/presets"
)

// A Preset is one system's way of running hooks: their order, the earlier changes that a hook sees,
// whether others run after a Block, and the effect of a failure. The zero Preset is Grapnel's. Hooks
// that were written for another system need its Preset. None can undo a Block.
type Preset struct{ row *presets.Row }

func init() { presets.Of = func(row presets.Row) any { return Preset{&row} } }

var ours presets.Row // the zero Preset

func (p Preset) rules() *presets.Row {
	if p.row == nil {
		return &ours
	}
	return p.row
}

// FindPreset returns the Preset with this name and reports whether it exists: claude, gemini,
// ironclaw, openclaw, miniclaw, flyto, agenthooks or grapnel.
func FindPreset(name string) (Preset, bool) {
	row, ok := presets.Find(name)
	if !ok {
		return Preset{}, false
	}
	return Preset{&row}, true
}

// String returns the name of the Preset.
func (p Preset) String() string { return cmp.Or(p.rules().Name, "grapnel") }

// Defaults returns the Spec with the system's Timeout, OnError and limit.
func (p Preset) Defaults(s Spec) Spec {
	r := p.rules()
	if s.Timeout == 0 {
		s.Timeout = r.Timeout
	}
	if r.MaxTimeout > 0 && (s.Timeout == 0 || s.Timeout > r.MaxTimeout) {
		s.Timeout = r.MaxTimeout
	}
	if s.OnError == OnErrorDefault {
		s.OnError = onErrorOf(r)
	}
	return s
}

func onErrorOf(r *presets.Row) OnError {
	switch r.Failed {
	case presets.FailedOpen:
		return OnErrorOpen
	case presets.FailedClosed:
		return OnErrorClosed
	default:
		return OnErrorDefault
	}
}

// named applies the rule for names. It returns an error if a Spec is invalid or, under
// presets.NamesUnique, if a name is used twice. It reuses the slice specs.
func named(r *presets.Row, specs []Spec) ([]Spec, error) {
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
		case taken && r.Names == presets.NamesUnique:
			return nil, fmt.Errorf("two hooks have the name %q in source %q: names must be unique in a source", s.Name, s.Source.Name)
		case taken && r.Names == presets.NamesReplace:
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

// byRank returns the function that compares the ranks of two Specs.
func byRank(r *presets.Row) func(a, b *Spec) int {
	return func(a, b *Spec) int {
		if r.Unranked {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Source.Scope, b.Source.Scope))
	}
}

// together reports whether two Specs, adjacent in plan order, are in the same step.
func together(r *presets.Row, a, b *Spec) bool {
	return !r.Chain && (r.Unranked || a.Priority == b.Priority)
}
