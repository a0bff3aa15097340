package conformance

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A family is one system: how it calls its events, how its hooks meet the engine,
// and what it makes of an answer.
type family struct {
	name   string // also that of its Preset, and of the language of its command hooks
	events []eventName

	maxOutput int // bytes that are kept of what a command prints; 0 = what process keeps

	// tune sets what the system's own loader would set in a Spec. nil = nothing.
	tune func(def *hookDef, s *grapnel.Spec)
	// unwaited is an event that the system's host fires and does not wait for.
	unwaited grapnel.Kind
	// answer adds to a view what only this system says. nil = nothing.
	answer func(f *firing, v view)
}

// eventName is an event and what the system calls it.
type eventName struct {
	kind   grapnel.Kind
	native string
}

// families lists them all.
var families = []*family{&ironclaw, &miniclaw, &flyto, &gemini}

func familyOf(name string) (*family, error) {
	for _, f := range families {
		if f.name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("there is no family %q", name)
}

// kinds are the events of the system.
func (f *family) kinds() []grapnel.Kind {
	kinds := make([]grapnel.Kind, len(f.events))
	for i, e := range f.events {
		kinds[i] = e.kind
	}
	return kinds
}

// kindOf finds an event by the system's own name.
func (f *family) kindOf(native string) (grapnel.Kind, error) {
	i := slices.IndexFunc(f.events, func(e eventName) bool { return e.native == native })
	if i < 0 {
		return "", fmt.Errorf("%s has no event %q", f.name, native)
	}
	return f.events[i].kind, nil
}

// speaks is the language of the system's command hooks.
func (f *family) speaks() (*dialect.Dialect, error) {
	d, ok := dialect.Find(f.name)
	if !ok {
		return nil, fmt.Errorf("%s has no command hooks", f.name)
	}
	return d, nil
}

// A plan is the hooks of a case, and how they run where that is not the Preset's way.
type plan struct {
	Mode     string    `json:"mode"`
	Mutation string    `json:"mutation"`
	OnBlock  string    `json:"on_block"`
	Hooks    []hookDef `json:"hooks"`
}

// preset is the row of a family, with what the plan says otherwise.
func (p *plan) preset(family *family) (grapnel.Preset, error) {
	row, ok := grapnel.FindPreset(family.name)
	if !ok {
		return row, fmt.Errorf("there is no preset %q", family.name)
	}
	switch p.Mode {
	case "":
	case "sequential":
		row.Chain = true
	case "parallel":
		row.Chain = false
	default:
		return row, fmt.Errorf("unknown mode %q", p.Mode)
	}
	switch p.OnBlock {
	case "":
	case "stop":
		row.RunAll = false
	case "run_all":
		row.RunAll = true
	default:
		return row, fmt.Errorf("unknown on_block %q", p.OnBlock)
	}
	switch p.Mutation {
	case "":
	case "chain":
		row.Changes = grapnel.ChangesChain
	case "last_wins":
		row.Changes = grapnel.ChangesLastWins
	case "none":
		row.Changes = grapnel.ChangesNone
	default:
		return row, fmt.Errorf("unknown mutation %q", p.Mutation)
	}
	return row, nil
}
