package hookcmd

import (
	"context"
	"fmt"
	"os"
	"time"
)

// orphanCheck is how often a process checks whether its parent still exists.
const orphanCheck = 100 * time.Millisecond

// WithParent returns a context that is canceled when the parent process ends. A killed parent
// cannot end this process, and no process reads the reply any more. On systems that do not report
// the loss of a parent, such as Windows, only the timeout ends the context.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(orphanCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if now := os.Getppid(); now != parent {
					cancel(fmt.Errorf("the process that sent the event has ended: %w", context.Canceled))
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
