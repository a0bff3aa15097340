package conformance

import (
	"cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// miniclaw calls every hook for every event. A func hook cannot fail, and an answer that the
// event does not support is ignored. Shell hooks run for tool calls only.
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

// calls is a Matcher for tool calls. The Matcher chosen, if not nil, selects among them.
type calls struct{ chosen grapnel.Matcher }

// Match reports whether the event is a tool call that chosen accepts.
func (c calls) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if ev.Kind != grapnel.ToolBefore && ev.Kind != grapnel.ToolAfter {
		return false, nil
	}
	if c.chosen == nil {
		return true, nil
	}
	return c.chosen.Match(ev, v)
}
