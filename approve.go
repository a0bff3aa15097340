package grapnel

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// An Approval is the approval of a call by a person; see Options.Approved.
type Approval struct {
	ID     string // of the approval under which the hook's answer has no effect; empty = not approved
	How    string // how a person can approve the call, such as a command; empty = no person can
	Permit bool   // the approval also answers the agent's own question, as an Allow does

	// Use, called once at most, uses the approval for an event with all changes. Not nil with an ID.
	Use func(ctx context.Context, ev *Event) bool

	// Ask asks a person about an event that only these hooks stop: an ID means yes, a Block no.
	Ask func(ctx context.Context, ev *Event, hooks []HookRun) (id string, out Outcome)
}

// stops reports whether an answer stops the action or asks a person about it.
func (f *firing) stops(a *answer) bool {
	return !a.spec.Observe && (a.decision >= Ask || f.haltBlocks(a))
}

// approved reports whether the answer has no effect, because a person approved the call.
func (a *answer) approved() bool { return a.approval != nil && a.approval.ID != "" }

// approve looks up the approval of an answer and reports whether the answer has no effect. A
// failed hook that blocks is never approved: the failure shows nothing about the call.
func (f *firing) approve(ctx context.Context, a *answer) bool {
	approved := f.engine.opts.Approved
	if approved == nil || f.contract.Blocks != BlockingAction || !f.stops(a) || a.byError && a.decision == Block || len(a.changed) > 0 {
		return false
	}
	decision := a.decision
	if f.haltBlocks(a) {
		decision = Block
	}
	func() {
		var failed error
		defer caught(&failed) // without an approval, the answer counts
		found := approved(ctx, a.saw, a.spec, decision)
		a.approval = &found
	}()
	return a.approved()
}

// useApproval uses the approval that the answers name. All approved answers count again if
// something else blocks the event, or if the approval is no longer valid.
func (f *firing) useApproval(ctx context.Context, v Verdict) Verdict {
	var approval *Approval
	several, permit := false, false
	for i := range f.answers {
		if own := f.answers[i].approval; f.answers[i].approved() {
			several = several || approval != nil && approval.ID != own.ID
			permit = permit || own.Permit
			approval = own
		}
	}
	if approval == nil {
		return v
	}
	if v.Decision < Block && !several && f.use(ctx, approval) {
		if f.approval, f.agreed = approval.ID, permit; permit {
			v = f.merge()
		}
		return v
	}
	for i := range f.answers {
		if a := &f.answers[i]; a.approved() {
			a.approval.ID = ""
		}
	}
	return f.merge()
}

func (f *firing) use(ctx context.Context, approval *Approval) (ok bool) {
	var failed error
	defer caught(&failed) // ok stays false
	return approval.Use(ctx, f.ev)
}

// askPerson asks a person about an event that only questions stop, if one of the hooks has a way to
// ask. A yes is for the event with all changes, and also answers the agent's own question.
func (f *firing) askPerson(ctx context.Context, v Verdict) Verdict {
	var ask func(context.Context, *Event, []HookRun) (string, Outcome)
	var asking []*answer
	var hooks []HookRun
	for i := range f.answers {
		a := &f.answers[i]
		switch {
		case !f.stops(a) || a.approved():
			continue
		case a.decision != Ask || a.approval == nil || a.approval.How == "":
			return v
		}
		if a.approval.Ask != nil {
			ask = a.approval.Ask
		}
		asking = append(asking, a)
		if !slices.ContainsFunc(hooks, func(h HookRun) bool { return h.Name == a.spec.Name && h.Source == a.spec.Source.Name }) {
			hooks = append(hooks, a.run())
		}
	}
	if ask == nil {
		return v
	}
	name := func(id string) Verdict {
		for _, a := range asking {
			a.approval.ID = id
		}
		return f.merge()
	}
	if name("asked").Decision >= Ask { // for example, the agent cannot take over a change
		return name("")
	}
	var id string
	var out Outcome
	begun := time.Now()
	func() {
		var failed error
		defer caught(&failed) // the question remains
		id, out = ask(ctx, f.ev, hooks)
	}()
	f.waited = time.Since(begun)
	switch {
	case id != "":
		f.approval, f.agreed = cmp.Or(f.approval, id), true
	case out.Decision == Block:
		f.refused = cmp.Or(out.Reason, "a person refused this call")
	}
	return name(id)
}

// answered applies a person's answer to the questions of the hooks.
func (f *firing) answered(v *Verdict) {
	switch {
	case f.agreed && v.Decision == None && f.contract.Permit:
		v.Decision = Allow
	case f.refused != "" && v.Decision == Ask:
		v.Decision, v.Reasons = Block, []Reason{{Hook: "grapnel", Text: f.refused, Cause: CauseDecision}}
	}
}

// wayOut returns the first rule that blocks the call, and how a person can approve the call. how is
// empty if an answer that stops the call cannot be approved.
func (f *firing) wayOut() (rule, how string) {
	for i := range f.answers {
		a := &f.answers[i]
		if !f.stops(a) || a.approved() {
			continue
		}
		if a.approval == nil || a.approval.How == "" {
			return "", ""
		}
		how = a.approval.How
		if a.decision != Ask {
			rule = cmp.Or(rule, a.spec.Name)
		}
	}
	return rule, how
}

// nameWayOut adds a line with the rule that blocked the call and the way to allow it: a message, or a
// last reason if the agent shows no messages.
func (f *firing) nameWayOut(v *Verdict) {
	rule, how := f.wayOut()
	if v.Decision != Block || f.refused != "" || how == "" {
		return
	}
	line := "grapnel: rule " + rule + " blocked this call; a person can allow it with " + how
	if can := f.first.Can(); can != nil && !can.Message {
		v.Reasons = append(v.Reasons, Reason{Hook: "grapnel", Text: line, Cause: CauseDecision})
		return
	}
	v.Messages = appendNew(v.Messages, line)
}
