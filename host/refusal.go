package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/grapnel-dev/grapnel"
)

// A Refusal is the error of an action that hooks, or the person they asked, refused. Use
// errors.As to find it.
type Refusal struct {
	Kind   grapnel.Kind // of the event
	Reason string       // for the model
	Text   string       // replacement text for the refused action, from the Manners
	Failed bool         // no hook or person decided: a guard failed, which is treated as a refusal
	Halt   bool         // the agent's turn must end
	Err    error        // the errors behind Failed, for example grapnel.ErrTimeout; nil = unknown, or not Failed
}

// Error returns the event and the reason.
func (r *Refusal) Error() string { return fmt.Sprintf("%s: refused: %s", r.Kind, r.Reason) }

// Unwrap returns Err, so that errors.Is finds the reason for a failure.
func (r *Refusal) Unwrap() error { return r.Err }

// Refused returns the Refusal that err is or wraps, or nil.
func Refused(err error) *Refusal {
	no, _ := errors.AsType[*Refusal](err)
	return no
}

// decided reports whether a hook or the approver decided against the action, rather than failed
// to answer. It returns false for a nil Refusal.
func (r *Refusal) decided() bool { return r != nil && !r.Failed }

// refusal returns the Refusal of a Verdict that stops the action, or nil.
func (s *Session) refusal(ev *grapnel.Event, v *grapnel.Verdict) *Refusal {
	if v.Decision != grapnel.Block && v.Halt == "" {
		return nil
	}
	no := s.refuse(ev, lines(v.Reason(), v.Halt), failed(v))
	no.Halt = v.Halt != ""
	if no.Failed {
		no.Err = v.Err
	}
	return no
}

// halted returns the Refusal of a Verdict that ends the turn, or nil.
func (s *Session) halted(ev *grapnel.Event, v *grapnel.Verdict) *Refusal {
	if v.Halt == "" {
		return nil
	}
	return s.refusal(ev, v)
}

func (s *Session) refuse(ev *grapnel.Event, reason string, failed bool) *Refusal {
	return &Refusal{Kind: ev.Kind, Reason: reason, Failed: failed, Text: s.host.opts.Manners.text(ev, reason, failed)}
}

// lines joins two texts with a newline. It omits empty and repeated text.
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

// failed reports whether the Block results only from failures and no hook decided it.
func failed(v *grapnel.Verdict) bool {
	return len(v.Reasons) > 0 && !slices.ContainsFunc(v.Reasons, func(r grapnel.Reason) bool { return r.Cause == grapnel.CauseDecision })
}
