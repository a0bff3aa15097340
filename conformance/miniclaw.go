package conformance

import (
	"cmp"
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// miniclaw asks every hook about every event. A function there cannot fail, and what
// it answers to no purpose is ignored. Shell hooks run for calls of tools only.
var miniclaw = family{
	name:   "miniclaw",
	events: eventsOf(dialect.Miniclaw),
	tune: func(def *hookDef, s *grapnel.Spec) {
		if def.Kind == "command" {
			s.OnError = cmp.Or(s.OnError, dialect.Miniclaw.OnError)
			s.Match = among{grapnel.ToolBefore, grapnel.ToolAfter}
		} else {
			s.OnError = cmp.Or(s.OnError, grapnel.OnErrorOpen)
		}
	},
}

// among is a Matcher of kinds of events.
type among []grapnel.Kind

// Match reports whether the event is one of them.
func (kinds among) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	return slices.Contains(kinds, ev.Kind), nil
}
