package conformance

import (
	"cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// miniclaw asks every hook about every event. A function there cannot fail, and what
// it answers to no purpose is ignored. Shell hooks run for calls of tools only.
var miniclaw = family{
	name:   "miniclaw",
	events: eventsOf(dialect.Miniclaw().Events),
	tune: func(def *hookDef, s *grapnel.Spec) {
		if def.Kind == "command" {
			s.OnError = cmp.Or(s.OnError, dialect.Miniclaw().OnError)
			s.Match = calls{s.Match}
		} else {
			s.OnError = cmp.Or(s.OnError, grapnel.OnErrorOpen)
		}
	},
}

// calls is a Matcher of calls of tools, of which another may choose.
type calls struct{ chosen grapnel.Matcher }

// Match reports whether the event is one of them.
func (c calls) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if ev.Kind != grapnel.ToolBefore && ev.Kind != grapnel.ToolAfter {
		return false, nil
	}
	if c.chosen == nil {
		return true, nil
	}
	return c.chosen.Match(ev, v)
}
