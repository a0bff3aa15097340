package delivery

import (
	"net/http"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/outbound"
)

// schedule is how long a job waits after each failed attempt except the last.
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
}

// jitter is the maximum relative change of a wait, so that jobs that failed together are not
// retried together.
const jitter = 0.15

// Schedule returns how long a job waits after its first, second, ... failed attempt, before up to
// 15 % are added or subtracted. The first attempt is made at once. After the failure that follows
// the last wait, a job is [Dead].
func Schedule() []time.Duration { return slices.Clone(schedule) }

// maxError is how many bytes of an error are stored.
const maxError = 1000

// judge returns the result of an attempt. random is in [0, 1). hold is how long the target wants
// no jobs at all.
func judge(j *Job, reply outbound.Reply, failed error, now time.Time, random float64) (r Result, hold time.Duration) {
	r = Result{ID: j.ID, State: Delivered, Status: reply.Status, At: now}
	if failed == nil {
		return r, 0
	}
	r.State, r.Error = Waiting, clip(failed.Error())
	if reply.Status == http.StatusGone {
		r.Off = true // after any number of attempts, because it is tried again when the operator resumes the target
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
	if hold > 0 { // never earlier than the target asks, and never earlier than scheduled
		wait = max(wait, min(stretch(hold, 1+jitter*random), outbound.MaxRetryAfter))
	}
	r.Next = now.Add(wait)
	return r, hold
}

func stretch(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// clip shortens an error for the store.
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
