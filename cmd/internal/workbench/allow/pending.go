package allow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/records"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/recordview"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

// The kinds of the Records about requests and grants, after records.Own.
const (
	deny    = "Deny"
	discard = "AllowOff"
)

// Asked returns the call of a request. All of its event is in the request.
func Asked(place local.Place, r *approval.Request) (*Call, error) {
	c := &Call{Entry: &spool.Entry{}, Request: r, Changed: r.Changed}
	if err := json.Unmarshal(r.Line, c.Entry); err != nil {
		return nil, fmt.Errorf("cannot read the call of the request %s: %w", r.ID, err)
	}
	return c, c.examine(place)
}

// pending returns the call of the open request with an ID or a Record's ID that begins so, or of the
// newest request for "last". It returns nil if no request is open.
func pending(place local.Place, id string) (*Call, error) {
	open, err := place.Approvals().Pending(time.Now())
	if err != nil && len(open) == 0 {
		return nil, err
	}
	for i := range open {
		if r := &open[i]; id == "last" || strings.HasPrefix(r.ID, id) || strings.HasPrefix(r.Record, id) {
			return Asked(place, r)
		}
	}
	return nil, nil
}

// A Decision is a person's answer to a request.
type Decision struct {
	Yes     bool
	Session bool   // a yes is for each such call of the session
	Reason  string // for the model, if the answer is no
	Where   string // the person answered, for the log: in the browser
}

// Decide answers a request. It returns the answer in force, and whether it is this one: an earlier
// answer stays, and so does the end of the time. The Record is written first, so no call runs
// without a Record.
func Decide(place local.Place, id string, d Decision) (*approval.Answer, bool, error) {
	store, now := place.Approvals(), time.Now()
	r, err := store.Request(id)
	switch {
	case errors.Is(err, approval.ErrNoRequest):
		return nil, false, cli.WithHint(fmt.Errorf("no request %s", printable.Line(id)), `"grapnel pending" lists the open requests`)
	case err != nil:
		return nil, false, err
	case r.Answer != nil:
		return r.Answer, false, nil
	case !r.Open(now):
		return store.Answer(id, &approval.Answer{State: approval.Expired, Time: r.Until})
	}
	call, err := Asked(place, r)
	if err != nil {
		return nil, false, err
	}
	by := place.Identity().User
	a := &approval.Answer{State: approval.Denied, By: by, Reason: d.Reason, Time: now.UTC(), Waited: r.Waiting(now)}
	if d.Yes {
		if err := call.Allowable(); err != nil {
			return nil, false, err
		}
		a.State = approval.Approved
		if a.Grant, err = r.Yes(by, d.Reason, d.Session, now); err != nil {
			return nil, false, err
		}
		a.Grant.Call = recordview.About(call.Entry, 200)
		a.Grant.Logged, err = records.Put(place, granted, d.from(Record(a.Grant)))
	} else {
		_, err = records.Put(place, deny, d.from(denied(r, call, a)))
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot answer the request without a record: %w", err)
	}
	inForce, first, err := store.Answer(id, a)
	switch {
	case err != nil:
		return nil, false, err
	case !first && d.Yes: // another answer came at the same time
		return inForce, false, records.Note(place, discard, fmt.Sprintf("grant %s has no effect: the request was %v", a.Grant.ID, inForce))
	case first && d.Yes:
		return a, true, store.Add(a.Grant) // for a call that is made again later
	}
	return inForce, first, nil
}

// AwaitUse waits until a call that waits for an answer has used its approval, for at most ten seconds:
// a busy machine may be slow to run its program. It returns at once if no agent waits.
func AwaitUse(ctx context.Context, place local.Place, r *approval.Request) {
	const moment, most = 20 * time.Millisecond, 500
	store := place.Approvals()
	for range most {
		now, err := store.Request(r.ID)
		if err != nil || now.Answer == nil || now.Answer.Grant == nil || !store.Unused(now.Answer.Grant) || !r.Waiting(time.Now()) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(moment):
		}
	}
}

// from adds to a Record where the person answered.
func (d Decision) from(note grapnel.Record) grapnel.Record {
	if d.Where != "" {
		note.Reasons[0].Text += "; answered " + d.Where
	}
	return note
}

func denied(r *approval.Request, call *Call, a *approval.Answer) grapnel.Record {
	text := fmt.Sprintf("request %s was denied: %s %s in %s", r.ID, r.Scope.Agent, strings.TrimSpace(r.Scope.Tool+" "+recordview.About(call.Entry, 200)), cmp.Or(r.Scope.Dir, "an unknown directory"))
	if a.Reason != "" {
		text += "; reason: " + a.Reason
	}
	return grapnel.Record{
		Approval: r.ID, CallDigest: r.Digest, User: a.By,
		Reasons: []grapnel.Reason{{Hook: "grapnel", Text: text, Cause: grapnel.CauseDecision}},
	}
}

// Revoke ends a grant and then records that. It must work even if the Record cannot be written.
func Revoke(place local.Place, g *approval.Grant) error {
	if err := place.Approvals().Revoke(g); err != nil {
		return fmt.Errorf("cannot revoke the grant: %w", err)
	}
	return records.Note(place, discard, "grant "+g.ID+" was revoked")
}
