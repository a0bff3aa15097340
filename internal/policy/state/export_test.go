package state

import (
	"time"

	"github.com/grapnel-dev/grapnel"
)

// For the tests that write policies, in package state_test.
const (
	KeepCalls = keepCalls
	MaxMarks  = maxMarks
	MaxShared = maxShared
	SameCall  = sameCall
)

// ReadMarks, WriteMarks and SessionOwner are for the tests.
var (
	ReadMarks    = readMarks
	WriteMarks   = writeMarks
	SessionOwner = sessionOwner
)

// SetClock sets the clock of a limit or of an `after:`.
func SetClock(s *grapnel.Spec, now func() time.Time) {
	if hook, ok := s.Hook.(*Limit); ok {
		hook.now = now
	}
	if f, ok := s.Match.(*After); ok {
		f.now = now
	}
}

// Stored returns the owner and the key of what an `after:` stores for an event.
func (f *After) Stored(ev *grapnel.Event) string { return f.owner(ev) + f.key(ev) }
