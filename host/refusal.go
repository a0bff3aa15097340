package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// A Refusal is the error of what hooks, or the person they asked, did not let happen.
// errors.As finds it.
type Refusal struct {
	Kind   grapnel.Kind // of the event
	Reason string       // for the model
	Text   string       // what stands in the place of what was refused, in the words of the Manners
	Failed bool         // nobody said no: a guard could not answer, and that counts as no
	Halt   bool         // the agent's turn shall end
}

// Error says what was refused, and why.
func (r *Refusal) Error() string { return fmt.Sprintf("%s: refused: %s", r.Kind, r.Reason) }

// Refused returns the Refusal that err is or wraps, or nil.
func Refused(err error) *Refusal {
	no, _ := errors.AsType[*Refusal](err)
	return no
}

// decided reports whether a hook or the approver decided against the action, rather than
// failed to answer. A nil Refusal is no decision.
func (r *Refusal) decided() bool { return r != nil && !r.Failed }

// refusal is why a Verdict does not let something happen, or nil.
func (s *Session) refusal(ev *grapnel.Event, v *grapnel.Verdict) *Refusal {
	if v.Decision != grapnel.Block && v.Halt == "" {
		return nil
	}
	no := s.refuse(ev, lines(v.Reason(), v.Halt), failed(v))
	no.Halt = v.Halt != ""
	return no
}

// halted is the refusal of a Verdict that ends the turn, or nil.
func (s *Session) halted(ev *grapnel.Event, v *grapnel.Verdict) *Refusal {
	if v.Halt == "" {
		return nil
	}
	return s.refusal(ev, v)
}

func (s *Session) refuse(ev *grapnel.Event, reason string, failed bool) *Refusal {
	return &Refusal{Kind: ev.Kind, Reason: reason, Failed: failed, Text: s.host.opts.Manners.text(ev, reason, failed)}
}

// lines are two texts below each other, unless the second says nothing new.
func lines(a, b string) string {
	switch {
	case a == "", a == b:
		return b
	case b == "":
		return a
	default:
		return a + "\n" + b
	}
}

// failed reports whether nobody decided, and a Block is what a failure counts as.
func failed(v *grapnel.Verdict) bool {
	return len(v.Reasons) > 0 && !slices.ContainsFunc(v.Reasons, func(r grapnel.Reason) bool { return r.Cause == grapnel.CauseDecision })
}
