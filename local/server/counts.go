package server

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// Counts are totals since Open.
type Counts struct {
	Events     uint64        // with a Record
	Allowed    uint64        // events with the decision allow
	Asked      uint64        // events with the decision ask
	Blocked    uint64        // events with the decision block
	Time       time.Duration // from event to verdict, of all events together
	HookErrors uint64        // hooks that could not answer, with observing hooks
	Lost       uint64        // Records that could not be stored

	Delivered     uint64 // events that reached the target of a `notify:` hook
	Retries       uint64 // deliveries that failed and are tried again
	Undelivered   uint64 // events whose delivery ended without success
	Reloads       uint64 // changes of the policies in force
	FailedReloads uint64 // the policies in force stayed
}

// counter counts for Counts.
type counter struct {
	decisions              [grapnel.Block + 1]atomic.Uint64
	nanoseconds            atomic.Int64
	hookErrors, lost       atomic.Uint64
	delivered, again, dead atomic.Uint64
	reloads, failedReloads atomic.Uint64
}

func (c *counter) observe(rec *grapnel.Record, lost error) {
	if int(rec.Decision) < len(c.decisions) {
		c.decisions[rec.Decision].Add(1)
	}
	c.nanoseconds.Add(int64(rec.MS * float64(time.Millisecond)))
	for i := range rec.Hooks {
		if rec.Hooks[i].Error != "" {
			c.hookErrors.Add(1)
		}
	}
	if lost != nil {
		c.lost.Add(1)
	}
}

// late counts an observing hook.
func (c *counter) late(err error) {
	if err != nil {
		c.hookErrors.Add(1)
	}
}

// Counts returns the counts since Open.
func (e *Engine) Counts() Counts {
	c := &e.count
	n := Counts{
		Allowed: c.decisions[grapnel.Allow].Load(), Asked: c.decisions[grapnel.Ask].Load(), Blocked: c.decisions[grapnel.Block].Load(),
		Time: time.Duration(c.nanoseconds.Load()), HookErrors: c.hookErrors.Load(), Lost: c.lost.Load(),
		Delivered: c.delivered.Load(), Retries: c.again.Load(), Undelivered: c.dead.Load(), Reloads: c.reloads.Load(), FailedReloads: c.failedReloads.Load(),
	}
	n.Events = c.decisions[grapnel.None].Load() + n.Allowed + n.Asked + n.Blocked
	return n
}

// Metrics returns a handler that writes the Counts in the text format of Prometheus. It uses
// names of the daemon's metrics, with fewer labels.
func (e *Engine) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := e.Counts()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		family := func(name, kind, help string, series ...any) {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
			for i := 0; i < len(series); i += 2 {
				fmt.Fprintf(w, "%s%s %v\n", name, series[i], series[i+1])
			}
		}
		family("grapnel_firings_total", "counter", "Events that were answered.",
			`{decision="none"}`, n.Events-n.Allowed-n.Asked-n.Blocked, `{decision="allow"}`, n.Allowed, `{decision="ask"}`, n.Asked, `{decision="block"}`, n.Blocked)
		family("grapnel_firing_duration_seconds", "summary", "Time from the event to its verdict.", "_sum", n.Time.Seconds(), "_count", n.Events)
		family("grapnel_hook_errors_total", "counter", "Times a hook could not answer.", "", n.HookErrors)
		family("grapnel_unrecorded_answers_total", "counter", "Events whose Record could not be stored.", "", n.Lost)
		family("grapnel_delivery_tries_total", "counter", "Delivery attempts, by result.",
			`{result="delivered"}`, n.Delivered, `{result="again"}`, n.Retries, `{result="dead"}`, n.Undelivered)
		family("grapnel_policy_reloads_total", "counter", "Policy reloads. After a failed reload, the last valid policies stay in force.",
			`{result="ok"}`, n.Reloads, `{result="failed"}`, n.FailedReloads)
	})
}
