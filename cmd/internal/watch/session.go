package watch

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// A sessionID tells sessions apart. Two agents may have the same name for theirs.
type sessionID struct{ agent, session string }

func idOf(it *Item) sessionID { return sessionID{it.Agent, it.Session} }

// A session is one agent at work, as far as it was seen. Its numbers do not go back when
// events fall out.
type session struct {
	sessionID
	dir    string
	last   *Item // the latest event; what comes late is none
	at     time.Time
	events int

	blocked, asked, changed, failed, open int
}

// maxSessions is how many sessions are remembered. Those where nothing happened for
// longest are forgotten first.
const maxSessions = 500

// count notes an Item in its session.
func (m *Model) count(it *Item) {
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
		s.last = it.summary()
		if it.Dir != "" {
			s.dir = it.Dir
		}
	}
	if it.Time.After(s.at) {
		s.at = it.Time
	}
	// To the front, past those where nothing has happened since.
	for ; i > 0 && !m.sessions[i-1].at.After(s.at); i-- {
		m.sessions[i], m.sessions[i-1] = m.sessions[i-1], m.sessions[i]
	}
	if len(m.sessions) > maxSessions {
		m.sessions = m.sessions[:maxSessions]
	}
}

// tally counts what came of an Item.
func (s *session) tally(it *Item) {
	failed, open := it.failures()
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

// summary is what a session remembers of its latest event, which may fall out.
func (it *Item) summary() *Item {
	s := &Item{About: strings.Clone(it.About)}
	s.Event, s.Tool, s.Decision, s.Halt, s.Changed = it.Event, it.Tool, it.Decision, it.Halt, it.Changed
	return s
}

// sessionIndex is the selected line of the list: 0 = all sessions.
func (m *Model) sessionIndex() int {
	if m.sessionAt == nil {
		return 0
	}
	return 1 + slices.IndexFunc(m.sessions, func(s *session) bool { return s.sessionID == *m.sessionAt })
}

// counts are the numbers of a session that are worth a word.
func (s *session) counts() row {
	var r row
	for _, c := range []struct {
		n    int
		what string
		look style
	}{{s.blocked, "blocked", red}, {s.asked, "asked", yellow}, {s.open, "FAILED OPEN", yellow}, {s.failed, "FAILED", red}, {s.changed, "changed", cyan}} {
		if c.n == 0 {
			continue
		}
		if len(r) > 0 {
			r = append(r, span{"  ", normal})
		}
		r = append(r, span{strconv.Itoa(c.n) + " " + c.what, c.look})
	}
	return r
}
