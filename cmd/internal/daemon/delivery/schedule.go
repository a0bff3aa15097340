package delivery

import (
	"net/http"
	"time"

	"github.com/grapnel-dev/grapnel/internal/webhook"
	"github.com/grapnel-dev/grapnel/outbound"
)

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
	wait, hold, again := webhook.Wait(j.Tries, reply, random)
	if !again {
		r.State = Dead
		return r, hold
	}
	r.Next = now.Add(wait)
	return r, hold
}

// clip shortens an error for the queue.
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
