package delivery

import (
	"net/http"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/outbound"
)

// schedule is how long a job waits after each failed try but the last.
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// jitter is how much longer or shorter a wait may be, so that what failed together does
// not come back together.
const jitter = 0.15

// Schedule returns how long a job waits after its first, second, ... failed try, before
// up to 15 % are added or taken off. The first try is at once. After one more than there
// are waits a job is [Dead].
func Schedule() []time.Duration { return slices.Clone(schedule) }

// maxError is how much of an error is kept.
const maxError = 1000

// judge says what becomes of a job after a try. random is from 0 up to 1. hold is how long
// its target wants to hear of no job.
func judge(j *Job, reply outbound.Reply, failed error, now time.Time, random float64) (r Result, hold time.Duration) {
	r = Result{ID: j.ID, State: Delivered, Status: reply.Status, At: now}
	if failed == nil {
		return r, 0
	}
	r.State, r.Error = Waiting, clip(failed.Error())
	if reply.Status == http.StatusGone {
		r.Off = true // however often it was tried: it is tried again when somebody wants it
		return r, 0
	}
	if reply.Status == http.StatusTooManyRequests || reply.Status == http.StatusServiceUnavailable {
		hold = min(reply.RetryAfter, outbound.MaxRetryAfter)
	}
	if j.Tries >= len(schedule) {
		r.State = Dead
		return r, hold
	}
	wait := stretch(schedule[max(0, j.Tries)], 1-jitter+2*jitter*random)
	if hold > 0 { // never sooner than it wants, and what it says is no way to be asked more often
		wait = max(wait, min(stretch(hold, 1+jitter*random), outbound.MaxRetryAfter))
	}
	r.Next = now.Add(wait)
	return r, hold
}

func stretch(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// clip shortens what is kept.
func clip(text string) string {
	if len(text) <= maxError {
		return text
	}
	end := maxError
	for end > 0 && text[end]&0xC0 == 0x80 { // not within a character
		end--
	}
	return text[:end] + "..."
}
