package spool

import (
	"errors"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// lockWait is how long a hook waits for another process before it gives up a hook run or a count.
// Such a process needs a lock for microseconds. But on a busy machine it can hold the lock while it
// waits for a processor.
const lockWait = 2 * time.Second

// waitLock tries to get a lock until limit has passed. Processes hold a lock only briefly, unless
// they are stopped while holding it.
func waitLock(name string, limit time.Duration) (*files.Lock, error) {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		lock, err := files.OpenLock(name)
		if !errors.Is(err, files.ErrLocked) {
			return lock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w for %v", name, files.ErrLocked, limit)
		}
	}
}
