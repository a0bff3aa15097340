package recordview

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
)

// Did is the effect of a hook on an event.
type Did uint8

// The effects of hooks. Only the strongest is named if a hook did several things.
const (
	Nothing    Did = iota
	Changed        // it changed the event, without a decision
	Decided        // it allowed, asked, blocked or ended the turn
	Would          // in observe mode: it would have decided
	Approved       // a person allowed what it blocked or asked about
	Failed         // it could not answer, and its fail mode decided
	FailedOpen     // it could not answer, and the action continued
)

// DidOf returns the effect of a hook.
func DidOf(h *grapnel.HookRun) Did {
	switch {
	case h.Error != "" && h.FailOpen:
		return FailedOpen
	case h.Error != "":
		return Failed
	case h.Approved > grapnel.None:
		return Approved
	case h.Observed && h.Decision > grapnel.None:
		return Would
	case h.Decision > grapnel.None || h.Halt:
		return Decided
	case len(h.Changed) > 0:
		return Changed
	}
	return Nothing
}

// Style returns the style of a result that [Word] returned.
func Style(word string) typeset.Style {
	return map[string]typeset.Style{
		"block": typeset.Red, "halt": typeset.Red, "ask": typeset.Yellow, "allow": typeset.Green, "change": typeset.Cyan, "none": typeset.Dim, "late": typeset.Dim,
	}[word]
}
