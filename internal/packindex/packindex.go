// Package packindex stores packs in a compact form. A hook of a pack is decoded only when an event
// may match it.
package packindex

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
)

// A Registry contains the packs that `use:` can name. policy.ReadRegistry builds one from files. A
// program that is started for each event contains it as static data. A Registry is immutable.
type Registry struct{ packs []Pack }

// New returns a Registry of packs. It does not copy them, so the caller must not change or share
// them afterwards.
func New(packs []Pack) Registry { return Registry{packs} }

// Pack is a pack of a Registry.
type Pack struct {
	Name    string
	Version int
	Digest  string // SHA-256 of its file, in hexadecimal
	Begins  string // prefixes of the commands in its hooks, see [shell.Begins]
	Hooks   []Hook
}

// Hook is a hook of a pack. It is decoded when an event may match it.
type Hook struct {
	Name     string
	On       []grapnel.Kind
	Phase    grapnel.Phase
	OnError  grapnel.OnError
	Priority int              // as in grapnel.Spec
	Mode     string           // as in policyfile.Hook
	Decide   grapnel.Decision // its decision for every matching event; None = depends on the event
	Counts   *Counts          // the hook needs state from other events; nil = it does not
	Needs    match.Needs
	Hook     string // the other fields of the policyfile.Hook, in the snapshot encoding
}

// Counts describes a hook that needs state from other events.
type Counts struct {
	Begins string         // programs of the commands that its steps need, see shell.Begins; empty = not known
	Marks  []grapnel.Kind // events that its `after:` records; nil = the hook has a limit, and is built immediately
}

// Names returns the names of the packs.
func (s Registry) Names() []string {
	var names []string
	for i := range s.packs {
		names = append(names, s.packs[i].Name)
	}
	return names
}

// Packs returns a copy of the packs.
func (s Registry) Packs() []Pack {
	all := slices.Clone(s.packs)
	for i := range all {
		all[i].Hooks = slices.Clone(all[i].Hooks)
		for j := range all[i].Hooks {
			h := &all[i].Hooks[j]
			h.On = slices.Clone(h.On)
			if h.Counts != nil {
				h.Counts = &Counts{Marks: slices.Clone(h.Counts.Marks), Begins: h.Counts.Begins}
			}
		}
	}
	return all
}

// Find returns the pack with the given name, or nil. The caller must not change it.
func (s Registry) Find(name string) *Pack {
	for i := range s.packs {
		if s.packs[i].Name == name {
			return &s.packs[i]
		}
	}
	return nil
}
