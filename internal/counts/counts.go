// Package counts has the limits of the small values that hooks store about sessions, and keeps them in
// memory.
//
// Each value has an owner, usually a session, and each owner has a share. No owner can remove the values that
// another one stored. If a share is full, a new value is refused with [files.ErrFull].
package counts

import (
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// The limits, here and in a Spool.
const (
	MaxBytes = 128 << 10 // of one value
	MaxKeys  = 1024      // values of one owner
	MaxAge   = 32 * 24 * time.Hour
)

// Full returns the error for a share that has MaxKeys values.
func Full() error {
	return fmt.Errorf("%w: %d values are stored for this session or hook, which is the maximum", files.ErrFull, MaxKeys)
}

// Memory keeps values in memory. The zero value is ready to use, and safe for concurrent use.
type Memory struct {
	Now func() time.Time // nil = time.Now

	mu     sync.Mutex
	owners map[string]map[string]value
	sweep  int // number of owners at which expired values are removed
}

type value struct {
	data  []byte
	until time.Time
}

// minSweep is the smallest number of owners at which expired values are removed.
const minSweep = 1 << 10

// Count passes the value of a key to change and stores the result, as load.Counter describes.
func (m *Memory) Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, known := m.owners[owner][key]
	data, keep := change(kept.data)
	switch {
	case data == nil:
		return nil
	case len(data) > MaxBytes:
		return fmt.Errorf("cannot count: %d bytes, the limit is %d", len(data), MaxBytes)
	}
	now := time.Now()
	if m.Now != nil {
		now = m.Now()
	}
	if !known && len(m.owners[owner]) >= MaxKeys {
		if m.expire(owner, now); len(m.owners[owner]) >= MaxKeys {
			return fmt.Errorf("cannot count: %w", Full())
		}
	}
	if m.owners[owner] == nil {
		m.add(owner, now)
	}
	m.owners[owner][key] = value{data, now.Add(min(keep, MaxAge))}
	return nil
}

// add makes the share of an owner, and removes expired shares when their number has doubled.
func (m *Memory) add(owner string, now time.Time) {
	if m.owners == nil {
		m.owners, m.sweep = map[string]map[string]value{}, minSweep
	}
	if len(m.owners) >= m.sweep {
		for other := range m.owners {
			m.expire(other, now)
		}
		m.sweep = max(minSweep, 2*len(m.owners))
	}
	m.owners[owner] = map[string]value{}
}

func (m *Memory) expire(owner string, now time.Time) {
	maps.DeleteFunc(m.owners[owner], func(_ string, v value) bool { return v.until.Before(now) })
	if len(m.owners[owner]) == 0 {
		delete(m.owners, owner)
	}
}

// Reset forgets everything.
func (m *Memory) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owners = nil
}

// Counted returns the value of a key, or nil.
func (m *Memory) Counted(owner, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owners[owner][key].data, nil
}

// stopsAge is how long the stop count of a session is stored after its last change.
const stopsAge = 24 * time.Hour

// Blocked counts in a store how many times in a row a session was kept from stopping: see grapnel.Options.
func Blocked(store interface {
	Count(owner, key string, change func([]byte) ([]byte, time.Duration)) error
}, session string, again bool,
) (inARow int, err error) {
	err = store.Count(session, "stop", func(kept []byte) ([]byte, time.Duration) {
		if again {
			inARow, _ = strconv.Atoi(string(kept))
			inARow = min(max(inARow, 0), 1_000_000) // a missing or damaged count starts at 0
		}
		inARow++
		return strconv.AppendInt(nil, int64(inARow), 10), stopsAge
	})
	if err != nil {
		return 0, fmt.Errorf("cannot count the prevented stops: %w", err)
	}
	return inARow, nil
}
