package spool

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// tryLock locks a file of this name, or returns [files.ErrLocked].
func tryLock(name string, kind files.LockKind) (*files.Lock, error) {
	f, err := files.OpenRegular(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	lock, err := files.TryLock(f, kind)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return lock, nil
}

// lockWait is how long a hook waits for another process before it gives up a hook run or a count.
// Such a process needs a lock for microseconds. But on a busy machine it can hold the lock while it
// waits for a processor.
const lockWait = 2 * time.Second

// waitLock tries to get a lock until limit has passed. Processes hold a lock only briefly, unless
// they are stopped while holding it.
func waitLock(name string, kind files.LockKind, limit time.Duration) (*files.Lock, error) {
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		lock, err := tryLock(name, kind)
		if !errors.Is(err, files.ErrLocked) {
			return lock, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s: %w for %v", name, files.ErrLocked, limit)
		}
	}
}
