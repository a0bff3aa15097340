package grapnel

import "context"

// Approvals know which stopped calls a person has approved. The engine asks them only after a hook
// has stopped an event whose action a Block prevents, so other events cost nothing. They must be
// safe for concurrent use.
type Approvals interface {
	// Find returns the approval of one hook's answer, an Ask or a Block, to an event. ev is the
	// event that the hook saw. Find must have no effect.
	Find(ctx context.Context, ev *Event, hook *Spec, decision Decision) Approval

	// Use uses an approval for an event that nothing else stops. ev has all changes. The engine
	// calls Use at most once per firing. If it returns false, the hooks' answers count again.
	Use(ctx context.Context, ev *Event, id string) bool
}

// An Approval says whether a person has approved a call, and how a person can do it.
type Approval struct {
	ID  string // of the approval under which the hook's answer has no effect; empty = not approved
	How string // how a person can approve the call, for the reply, such as a command; empty = no person can
}

// stops reports whether an answer stops the action or asks a person about it.
func (f *firing) stops(a *answer) bool {
	return a.spec.Mode == ModeEnforce && (a.decision >= Ask || f.haltBlocks(a))
}

// approve looks up the approval of an answer and reports whether the answer has no effect. A
// failed hook that blocks is never approved: the failure says nothing about the call.
func (f *firing) approve(ctx context.Context, a *answer) bool {
	approvals := f.engine.opts.Approvals
	if approvals == nil || f.contract.Blocks != BlockingAction || !f.stops(a) || a.byError && a.decision == Block || len(a.changed) > 0 {
		return false
	}
	decision := a.decision
	if f.haltBlocks(a) {
		decision = Block
	}
	func() {
		var failed error
		defer caught(&failed) // without an approval, the answer counts
		a.approval = approvals.Find(ctx, a.saw, a.spec, decision)
	}()
	return a.approval.ID != ""
}

// useApproval uses the approval that the answers name. All approved answers count again if
// something else blocks the event, or if the approval is no longer valid.
func (f *firing) useApproval(ctx context.Context, v Verdict) Verdict {
	id, several := "", false
	for i := range f.answers {
		if own := f.answers[i].approval.ID; own != "" {
			several = several || id != "" && id != own
			id = own
		}
	}
	if id == "" {
		return v
	}
	if v.Decision < Block && !several && f.use(ctx, id) {
		f.approval = id
		return v
	}
	for i := range f.answers {
		f.answers[i].approval.ID = ""
	}
	return f.merge()
}

func (f *firing) use(ctx context.Context, id string) (ok bool) {
	var failed error
	defer caught(&failed) // ok stays false
	return f.engine.opts.Approvals.Use(ctx, f.ev, id)
}

// wayOut returns how a person can approve the call. It is empty if an answer that stops the call
// cannot be approved.
func (f *firing) wayOut() string {
	how := ""
	for i := range f.answers {
		a := &f.answers[i]
		if !f.stops(a) || a.approval.ID != "" {
			continue
		}
		if how = a.approval.How; how == "" {
			return ""
		}
	}
	return how
}

// nameWayOut tells the user how to approve a blocked call, if the agent shows messages.
func (f *firing) nameWayOut(v *Verdict) {
	if v.Decision != Block || f.first.Can != nil && !f.first.Can.Message {
		return
	}
	if how := f.wayOut(); how != "" {
		v.Messages = appendNew(v.Messages, "grapnel: you can allow this call with "+how)
	}
}
