// Package allruns fires an event and reports the runs of all its hooks, also of the observing ones.
package allruns

import (
	"context"

	"github.com/grapnel-dev/grapnel"
)

// Fire is Fire of an engine. Each observing hook sends one HookRun on the channel when it ends; then
// the channel is closed. Callers may ignore the channel: see [grapnel.Terms].
func Fire(ctx context.Context, e *grapnel.Engine, ev *grapnel.Event) (v grapnel.Verdict, runs <-chan grapnel.HookRun) {
	own, terms := grapnel.Event{}, grapnel.Terms{}
	if ev != nil {
		own = *ev
	}
	if own.Terms != nil {
		terms = *own.Terms
	}
	terms.Late = func(reported <-chan grapnel.HookRun) { runs = reported }
	own.Terms = &terms
	v = e.Fire(ctx, &own)
	return v, runs
}
