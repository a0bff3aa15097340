package server

import (
	"context"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/host"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/consent"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// approved returns the approval of a hook's answer. A question with `approve:` asks a person.
func (e *Engine) approved(ctx context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval {
	now := e.now.Load()
	approvals := e.approvals
	approvals.Policy = func() string { return now.digest }
	found := approvals.Find(ctx, ev, hook, decision)
	if decision == grapnel.Ask && found.How != "" && approval.Terms(hook) != nil {
		found.Ask, found.Permit = e.asksPerson(now).Ask, true
	}
	return found
}

func (e *Engine) asksPerson(now *loaded) *consent.Asker {
	return &consent.Asker{
		Place: e.place, Spool: now.records, Set: &now.set, Policies: now.digest, Current: func() string { return e.now.Load().digest }, Agent: e.opts.Agent, Notify: e.background,
		Lost: func(err error) {
			_ = spool.AddLoss(now.records.Dir(), err, time.Now())
			e.log.Error("Record of a request for a person lost", "error", err)
		},
	}
}

// Approve asks a person who answers in the browser ("grapnel ui") or at another terminal ("grapnel
// allow"), and waits up to ten minutes: an Engine is a [host.Approver], for the field Approve of
// host.Options. Without an answer, the call is refused.
func (e *Engine) Approve(ctx context.Context, q *host.Question) (host.Consent, error) {
	ev := *q.Event
	if ev.ID == "" {
		ev.ID = spool.NewID(time.Now())
	}
	agent := grapnel.HookRun{Name: "agent", Source: "agent", Decision: grapnel.Ask, Outcome: &grapnel.Outcome{Reason: q.Reason}}
	id, out := e.asksPerson(e.now.Load()).Ask(ctx, &ev, []grapnel.HookRun{agent})
	return host.Consent{Yes: id != "", Reason: out.Reason}, nil
}
