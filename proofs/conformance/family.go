package conformance

import (
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/presets"
)

// A family is one system: the names of its events, the way its hooks run in the engine, and the
// way it reads an answer.
type family struct {
	name   string // also the name of its Preset and of the dialect of its command hooks
	events []eventName

	maxOutput int // limit in bytes for a command's output; 0 = the default of package process

	// tune sets the fields of a Spec that the system's own loader would set. nil = no change.
	tune func(def *hookDef, s *grapnel.Spec)
	// unwaited is an event for which the system's host does not wait.
	unwaited grapnel.Kind
	// answer adds the members that only this system has to a view. nil = none.
	answer func(f *firing, v view)
}

// eventName is an event and the system's name for it.
type eventName struct {
	kind   grapnel.Kind
	native string
}

// families lists all families.
var families = []*family{&ironclaw, &miniclaw, &flyto, &gemini}

func familyOf(name string) (*family, error) {
	for _, f := range families {
		if f.name == name {
			return f, nil
		}
	}
	return nil, fmt.Errorf("unknown family %q", name)
}

// kinds returns the events of the system.
func (f *family) kinds() []grapnel.Kind {
	kinds := make([]grapnel.Kind, len(f.events))
	for i, e := range f.events {
		kinds[i] = e.kind
	}
	return kinds
}

// kindOf returns the event with the system's own name.
func (f *family) kindOf(native string) (grapnel.Kind, error) {
	i := slices.IndexFunc(f.events, func(e eventName) bool { return e.native == native })
	if i < 0 {
		return "", fmt.Errorf("%s has no event %q", f.name, native)
	}
	return f.events[i].kind, nil
}

// speaks returns the dialect of the system's command hooks.
func (f *family) speaks() (*dialect.Dialect, error) {
	d, ok := dialect.Find(f.name)
	if !ok {
		return nil, fmt.Errorf("%s has no command hooks", f.name)
	}
	return d, nil
}

// A plan is the hooks of a case, and the settings that differ from the Preset.
type plan struct {
	Mode     string    `json:"mode"`
	Mutation string    `json:"mutation"`
	OnBlock  string    `json:"on_block"`
	Hooks    []hookDef `json:"hooks"`

	names func(b *bench) namesake // makes the Go package that runs the hooks; nil = the engine runs them
}

// preset returns the family's preset with the settings of the plan applied.
func (p *plan) preset(family *family) (presets.Row, error) {
	row, ok := presets.Find(family.name)
	if !ok {
		return row, fmt.Errorf("unknown preset %q", family.name)
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
		row.Changes = presets.ChangesChain
	case "last_wins":
		row.Changes = presets.ChangesLastWins
	case "none":
		row.Changes = presets.ChangesNone
	default:
		return row, fmt.Errorf("unknown mutation %q", p.Mutation)
	}
	return row, nil
}
