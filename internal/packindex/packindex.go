// Package packindex holds packs as data that costs nothing until one of their hooks may match.
package packindex

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/match"
)

// A Registry holds the packs that `use:` may name. policy.ReadRegistry makes one of files. A program
// that starts for each event has it as data, so that a pack costs nothing until one of its
// hooks may match. Its packs cannot be changed.
type Registry struct{ packs []Pack }

// New returns a Registry of packs that are data of a program. It does not copy them, so
// the caller must keep them to itself and must not change them.
func New(packs []Pack) Registry { return Registry{packs} }

// Pack is a pack of a Registry.
type Pack struct {
	Name    string
	Version int
	Digest  string // SHA-256 of its file, in hex
	Begins  string // what the commands begin with that the hooks are about, see [shell.Begins]
	Hooks   []Hook
}

// Hook is a hook of a pack that is made when an event comes that it may listen to.
type Hook struct {
	Name    string
	On      []grapnel.Kind
	Phase   grapnel.Phase
	OnError grapnel.OnError
	Mode    string           // as in policyfile.Hook
	Decide  grapnel.Decision // what it says to every event that it listens to; None = that depends
	Counts  *Counts          // it looks at more than one event; nil = it does not
	Needs   match.Needs
	Hook    string // what else there is of a policyfile.Hook, as snapshots have it
}

// Counts says of a hook which events it looks at beside the one that it judges.
type Counts struct {
	Marks []grapnel.Kind // of those that its `after:` is told of; nil = it has a limit, and is made at once
}

// Names lists the packs.
func (s Registry) Names() []string {
	var names []string
	for i := range s.packs {
		names = append(names, s.packs[i].Name)
	}
	return names
}

// Packs returns the packs. The result is the caller's.
func (s Registry) Packs() []Pack {
	all := slices.Clone(s.packs)
	for i := range all {
		all[i].Hooks = slices.Clone(all[i].Hooks)
		for j := range all[i].Hooks {
			h := &all[i].Hooks[j]
			h.On = slices.Clone(h.On)
			if h.Counts != nil {
				h.Counts = &Counts{Marks: slices.Clone(h.Counts.Marks)}
			}
		}
	}
	return all
}

// Find returns the pack of a name, or nil.
func (s Registry) Find(name string) *Pack {
	for i := range s.packs {
		if s.packs[i].Name == name {
			return &s.packs[i]
		}
	}
	return nil
}
