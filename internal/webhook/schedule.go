package webhook

import (
	"net/http"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/outbound"
)

// schedule is how long a delivery waits after each failed attempt except the last.
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// jitter is the maximum relative change of a wait, so that deliveries that failed together are not
// retried together.
const jitter = 0.15

// Schedule returns how long a delivery waits after its first, second, ... failed attempt, before up to
// 15 % are added or subtracted. The first attempt is made at once. After the failure that follows
// the last wait, it is not
// tried again.
func Schedule() []time.Duration { return slices.Clone(schedule) }

// Wait returns how long a delivery waits after a failed attempt that followed the number tries of
// failed attempts, and whether there is another attempt. random is in [0, 1). hold is how long the
// target wants no deliveries at all.
func Wait(tries int, reply outbound.Reply, random float64) (wait, hold time.Duration, again bool) {
	if reply.Status == http.StatusTooManyRequests || reply.Status == http.StatusServiceUnavailable {
		hold = min(reply.RetryAfter, outbound.MaxRetryAfter)
	}
	if tries >= len(schedule) || reply.Final {
		return 0, hold, false
	}
	wait = stretch(schedule[max(0, tries)], 1-jitter+2*jitter*random)
	if hold > 0 { // never earlier than the target asks, and never earlier than scheduled
		wait = max(wait, min(stretch(hold, 1+jitter*random), outbound.MaxRetryAfter))
	}
	return wait, hold, true
}

func stretch(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }
