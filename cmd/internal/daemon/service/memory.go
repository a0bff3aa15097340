package service

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

// The garbage collector runs seldom, which saves a twelfth of the work under load: the heap is a
// few megabytes, and a reply leaves little garbage. With large policies it runs often, so that
// their garbage does not take several times their size.
const (
	gcPercent      = 400
	gcPercentLarge = 40
	largeHeap      = 8 << 20 // bytes in use
)

// freeAfter is how long after a load of policies its garbage is returned to the system.
const freeAfter = 5 * time.Second

// memory returns the garbage from loading policies to the system, until ctx is done: 10,000 rules
// leave 80 MB, which an idle daemon would keep.
func (d *daemon) memory(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.loads:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(freeAfter):
		}
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > largeHeap {
			debug.SetGCPercent(gcPercentLarge)
		} else {
			debug.SetGCPercent(gcPercent)
		}
	}
}
