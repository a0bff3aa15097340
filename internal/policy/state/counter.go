package state

import (
	"time"

	"github.com/grapnel-dev/grapnel"
)

// Counter stores the state of limits and of earlier events. Each value has an owner, a session or a hook,
// and a key. Count calls change with the stored bytes; nil = nothing is stored. It stores the bytes that
// change returns for at least the duration keep; if change returns nil, the stored bytes stay as they
// were. No other caller can change the value meanwhile. Count calls change exactly once; an error means
// that nothing was stored. An owner may store a limited number of values, and cannot remove what another
// one stored. Count is safe for concurrent use.
type Counter interface {
	Count(owner, key string, change func(kept []byte) (now []byte, keep time.Duration)) error
}

// sessionOwner returns the owner of the values that are stored for the session of an event.
func sessionOwner(ev *grapnel.Event) string { return "session\x00" + ev.Session.ID }

// counted returns the bytes that a Counter stores, without changing them.
func counted(c Counter, owner, key string) (kept []byte, err error) {
	if r, ok := c.(interface {
		Counted(owner, key string) ([]byte, error)
	}); ok {
		return r.Counted(owner, key)
	}
	err = c.Count(owner, key, func(data []byte) ([]byte, time.Duration) {
		kept = data
		return nil, 0
	})
	return kept, err
}
