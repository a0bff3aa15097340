// Package recordview describes a Record for people: its subject, its result, the effect of each hook,
// and all its details. "grapnel log", "grapnel watch", "grapnel allow" and the pages of "grapnel ui" use
// it, so one Record reads the same everywhere.
//
// item.go has the short form, details.go the long one, filter.go the words that select Records, and
// text.go makes texts of agents and models safe to show.
package recordview
