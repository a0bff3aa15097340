package records

import (
	"slices"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/replay"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// A window divides the Records of a log: those at which hooks acted, with the calls directly before
// and after them in their session, and all others. It holds back the last call of each session until
// the next Record of the session.
type window struct {
	sessions []session // the one with the newest Record is the last
}

// maxSessions is how many sessions a window knows. The call that it holds back for the session that
// was quiet for the longest time is then far.
const maxSessions = 256

// A session is the end of one session of an agent.
type session struct {
	key  [3]string
	held *spool.Entry // the last call, unless it is already near
	near bool         // the next call is directly after a Record at which hooks acted
}

// add takes the next Record. It returns the Records of which it is now clear, in their order, that
// they are near, or that they are not.
func (w *window) add(e *spool.Entry, acted bool) (near, far []*spool.Entry) {
	s, far := w.session([3]string{e.Machine, e.Agent, e.Session})
	call := e.Event == grapnel.ToolBefore || e.Event == grapnel.PermissionBefore
	switch {
	case acted:
		if s.held != nil {
			near = append(near, s.held)
		}
		s.held, s.near = nil, true
		return append(near, e), far
	case !call:
		return nil, append(far, e)
	case s.near:
		s.near = false
		return []*spool.Entry{e}, far
	case s.held != nil:
		far = append(far, s.held)
	}
	s.held = e
	return nil, far
}

// session makes a session the newest one. If there is no room for it, it forgets the oldest one
// and returns the call that was held back for that.
func (w *window) session(key [3]string) (s *session, far []*spool.Entry) {
	known := session{key: key}
	if i := slices.IndexFunc(w.sessions, func(s session) bool { return s.key == key }); i >= 0 {
		known = w.sessions[i]
		w.sessions = slices.Delete(w.sessions, i, i+1)
	} else if len(w.sessions) == maxSessions {
		if held := w.sessions[0].held; held != nil {
			far = append(far, held)
		}
		w.sessions = slices.Delete(w.sessions, 0, 1)
	}
	w.sessions = append(w.sessions, known)
	return &w.sessions[len(w.sessions)-1], far
}

// rest returns the calls that are still held back: no other Record follows them.
func (w *window) rest() (far []*spool.Entry) {
	for _, s := range w.sessions {
		if s.held != nil {
			far = append(far, s.held)
		}
	}
	w.sessions = nil
	return far
}

// quotes reports whether an event contains what a person wrote to the agent. A call does not.
func quotes(e *spool.Entry) bool {
	switch e.Event {
	case grapnel.PromptBefore, grapnel.AgentBefore, grapnel.ModelBefore, grapnel.TranscriptBefore, grapnel.MessageReceived:
		return true
	default:
	}
	if e.Tool != "" { // most Records: do not decode them
		return false
	}
	ev, err := replay.Event(e)
	return err == nil && ev.Prompt != nil
}
