package watch

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
)

// A sessionID identifies a session. Two agents may use the same session name.
type sessionID struct{ agent, session string }

func idOf(it *item) sessionID { return sessionID{it.Agent, it.Session} }

// A session is the observed activity of one agent session. Its counters do not decrease when events
// are removed.
type session struct {
	sessionID
	dir    string
	last   *recordview.Item // the latest event, except late ones
	at     time.Time
	events int

	blocked, asked, changed, failed, open int
}

// maxSessions is the maximum number of sessions. The sessions without activity for the longest time
// are removed first.
const maxSessions = 500

// count adds an Item to its session.
func (m *Model) count(it *item) {
	id := idOf(it)
	i := slices.IndexFunc(m.sessions, func(s *session) bool { return s.sessionID == id })
	if i < 0 {
		i = len(m.sessions)
		m.sessions = append(m.sessions, &session{sessionID: id})
	}
	s := m.sessions[i]
	s.tally(it)
	m.total.tally(it)
	if !it.Late {
		s.last = summary(it.Item)
		if it.Dir != "" {
			s.dir = it.Dir
		}
	}
	if it.Time.After(s.at) {
		s.at = it.Time
	}
	// Move the session to the front, before the sessions without later activity.
	for ; i > 0 && !m.sessions[i-1].at.After(s.at); i-- {
		m.sessions[i], m.sessions[i-1] = m.sessions[i-1], m.sessions[i]
	}
	if len(m.sessions) > maxSessions {
		m.sessions = m.sessions[:maxSessions]
	}
}

// tally counts the result of an Item.
func (s *session) tally(it *item) {
	failed, open := it.Failures()
	s.failed += failed - open
	s.open += open
	if it.Late {
		return
	}
	s.events++
	switch {
	case it.Decision == grapnel.Block || it.Halt != "":
		s.blocked++
	case it.Decision == grapnel.Ask:
		s.asked++
	case len(it.Changed) > 0:
		s.changed++
	}
}

// summary returns the parts of its latest event that a session keeps after the event is removed.
func summary(it *recordview.Item) *recordview.Item {
	s := &recordview.Item{About: strings.Clone(it.About)}
	s.Event, s.Tool, s.Decision, s.Halt, s.Changed = it.Event, it.Tool, it.Decision, it.Halt, it.Changed
	return s
}

// sessionIndex returns the selected line of the list: 0 = all sessions.
func (m *Model) sessionIndex() int {
	if m.sessionAt == nil {
		return 0
	}
	return 1 + slices.IndexFunc(m.sessions, func(s *session) bool { return s.sessionID == *m.sessionAt })
}

// counts returns the nonzero counters of a session.
func (s *session) counts() typeset.Row {
	var r typeset.Row
	for _, c := range []struct {
		n    int
		what string
		look typeset.Style
	}{{s.blocked, "blocked", typeset.Red}, {s.asked, "asked", typeset.Yellow}, {s.open, "FAILED OPEN", typeset.Yellow}, {s.failed, "FAILED", typeset.Red}, {s.changed, "changed", typeset.Cyan}} {
		if c.n == 0 {
			continue
		}
		if len(r) > 0 {
			r = append(r, typeset.Normal.Span("  "))
		}
		r = append(r, c.look.Span(strconv.Itoa(c.n)+" "+c.what))
	}
	return r
}
