package agenthooks

import (
	"fmt"
	"slices"
	"sync"
)

// A Profile defines how the verdicts of several interceptors are combined.
type Profile string

// The profiles. The specification defines no others, such as a majority vote or the most
// permissive verdict.
const (
	FirstDeny Profile = "sequential/first_deny" // in order, each gets earlier changes; the first deny ends the sequence
	RunAll    Profile = "sequential/run_all"    // in order, each gets earlier changes; all are called and the strictest verdict wins
	Strictest Profile = "parallel/strictest"    // all get the same context; the strictest verdict wins, and two transforms are a conflict
	Unanimous Profile = "parallel/unanimous"    // all get the same context; any verdict other than allow is a disagreement
)

// A Knob is a setting of a profile.
type Knob string

// The settings of knobs.
const (
	Stop      Knob = "stop"     // an approval ends the sequence
	Resume    Knob = "resume"   // after an approval the following interceptors are also called
	Denies    Knob = "deny"     // the step is denied
	Approvals Knob = "approval" // the step is denied unless the Resolver lifts the deny
)

// A Composition is a profile with its knobs. The zero value is FirstDeny, and an unset knob has
// the first of its values.
type Composition struct {
	Profile             Profile `json:"profile"`
	OnApproval          Knob    `json:"on_approval,omitempty"`           // FirstDeny only: Stop or Resume
	OnDisagreement      Knob    `json:"on_disagreement,omitempty"`       // Unanimous only: Denies or Approvals
	OnTransformConflict Knob    `json:"on_transform_conflict,omitempty"` // Strictest only: Denies or Approvals
}

// full returns the composition with defaults, and without knobs that its profile does not have.
func (c Composition) full() (Composition, error) {
	full := Composition{Profile: c.Profile}
	var set *Knob
	var knob, first, second Knob
	switch c.Profile {
	case "", FirstDeny:
		full.Profile = FirstDeny
		set, knob, first, second = &full.OnApproval, c.OnApproval, Stop, Resume
	case RunAll:
		return full, nil
	case Strictest:
		set, knob, first, second = &full.OnTransformConflict, c.OnTransformConflict, Denies, Approvals
	case Unanimous:
		set, knob, first, second = &full.OnDisagreement, c.OnDisagreement, Denies, Approvals
	default:
		return c, fmt.Errorf("unknown profile %q", c.Profile)
	}
	switch knob {
	case "":
		*set = first
	case first, second:
		*set = knob
	default:
		return c, fmt.Errorf("profile %s: %q is neither %q nor %q", full.Profile, knob, first, second)
	}
	return full, nil
}

// A composer calls the interceptors and combines their verdicts. Its result depends only on the
// results of its two functions.
type composer struct {
	Composition
	n        int
	evaluate bool                                           // transforms are checked but not applied
	call     func(i int, em *emission) Verdict              // calls an interceptor; a failure is a deny
	ask      func(v *Verdict, em *emission) (Verdict, bool) // asks for a deny to be lifted; nil = not possible
}

// A composed is the result of a composer.
type composed struct {
	verdict     Verdict
	em          *emission // with all transforms applied
	verdicts    []Verdict // the returned verdicts, by interceptor
	decidedBy   *int
	resolvedBy  string // approval or rejection; empty = not asked
	truncated   bool   // at least one interceptor was not called
	resolutions []Verdict
}

// The values of resolved_by.
const (
	byApproval  = "approval"
	byRejection = "rejection"
)

func (c *composer) compose(em *emission) *composed {
	out := &composed{em: em, verdict: Verdict{Decision: Allow}}
	switch c.Profile {
	case Strictest:
		c.strictest(out)
	case Unanimous:
		c.unanimous(out)
	case RunAll:
		c.runAll(out)
	default:
		c.firstDeny(out)
	}
	out.unite()
	return out
}

// firstDeny calls the interceptors in order until one denies.
func (c *composer) firstDeny(out *composed) {
	for i := range c.n {
		v := c.call(i, out.em)
		out.verdicts = append(out.verdicts, v)
		out.truncated = i+1 < c.n
		switch v.Decision {
		case Allow:
		case Transform:
			if !c.apply(out, &v) {
				return
			}
			out.win(v, i)
		case Deny:
			before, by := out.verdict, out.decidedBy
			if !c.lift(out, v, &i) || c.OnApproval == Stop {
				return
			}
			if out.verdict.Decision == Allow && before.Decision == Transform {
				out.verdict, out.decidedBy = before, by // the earlier transform remains the verdict for the target
			}
		}
	}
}

// runAll calls all interceptors in order. If several request approval, it asks once.
func (c *composer) runAll(out *composed) {
	for i := range c.n {
		v := c.call(i, out.em)
		out.verdicts = append(out.verdicts, v)
		if v.Decision == Transform && !c.apply(out, &v) {
			out.truncated = i+1 < c.n
			return
		}
	}
	winner := out.strictest()
	switch v := out.verdicts[winner]; v.Decision {
	case Deny:
		c.lift(out, v, &winner)
	case Transform:
		// All transforms were applied; the last one is reported.
		for i, v := range out.verdicts {
			if v.Decision == Transform {
				out.win(v, i)
			}
		}
	case Allow:
	}
}

// strictest calls all interceptors with the same context.
func (c *composer) strictest(out *composed) {
	c.all(out)
	winner := out.strictest()
	switch v := out.verdicts[winner]; v.Decision {
	case Deny:
		c.lift(out, v, &winner)
	case Transform:
		if out.count(Transform) > 1 {
			c.dispute(out, reasonConflict, c.OnTransformConflict)
		} else if c.apply(out, &v) {
			out.win(v, winner)
		}
	case Allow:
	}
}

// unanimous calls all interceptors with the same context.
func (c *composer) unanimous(out *composed) {
	c.all(out)
	if out.count(Allow) < c.n {
		c.dispute(out, reasonDisagreement, c.OnDisagreement)
	}
}

// all calls all interceptors concurrently.
func (c *composer) all(out *composed) {
	out.verdicts = make([]Verdict, c.n)
	var running sync.WaitGroup
	for i := range c.n {
		running.Go(func() { out.verdicts[i] = c.call(i, out.em) })
	}
	running.Wait()
}

// dispute denies the step because interceptors disagree, unless the Resolver lifts the deny. The
// verdict is the host's and has no interceptor.
func (c *composer) dispute(out *composed, reason string, knob Knob) {
	v := denied(reason, "")
	if knob == Approvals {
		v.Approval = []byte("{}")
	}
	c.lift(out, v, nil)
}

// lift sets a deny as the verdict. If the Resolver lifts the deny, the verdict of the Resolution
// replaces it, and lift returns true.
func (c *composer) lift(out *composed, v Verdict, i *int) bool {
	out.verdict, out.decidedBy = v, i
	if !v.liftable() || c.ask == nil {
		return false
	}
	resolution, lifted := c.ask(&v, out.em)
	out.verdict, out.resolvedBy, out.resolutions = resolution, byRejection, append(out.resolutions, resolution)
	if !lifted {
		return false
	}
	out.resolvedBy = byApproval
	return resolution.Decision != Transform || c.apply(out, &resolution)
}

// apply applies a transform. If that is impossible, the host denies the step, and apply returns
// false.
func (c *composer) apply(out *composed, v *Verdict) bool {
	em, reason := out.em.apply(v.Transform)
	if reason != "" {
		if reason == reasonContextInvalid && !c.evaluate {
			out.em = em // the record describes the refused context
		}
		out.verdict, out.decidedBy = denied(reason, ""), nil
		return false
	}
	if !c.evaluate {
		out.em = em
	}
	return true
}

func (out *composed) win(v Verdict, i int) { out.verdict, out.decidedBy = v, &i }

// strictest returns the index of the first verdict with the highest severity.
func (out *composed) strictest() int {
	winner := 0
	for i := range out.verdicts {
		if out.verdicts[i].severity() > out.verdicts[winner].severity() {
			winner = i
		}
	}
	return winner
}

func (out *composed) count(d Decision) int {
	n := 0
	for i := range out.verdicts {
		if out.verdicts[i].Decision == d {
			n++
		}
	}
	return n
}

// unite adds the warnings of all verdicts to the final verdict. If the step is permitted, it also
// adds the labels of the verdicts that permitted it.
func (out *composed) unite() {
	verdicts := slices.Concat(out.verdicts, out.resolutions)
	v := &out.verdict
	v.Warnings, v.ResultLabels = nil, nil
	for i := range verdicts {
		for _, w := range verdicts[i].Warnings {
			v.Warnings = appendNew(v.Warnings, w)
		}
		for _, label := range verdicts[i].ResultLabels {
			if v.permits() && verdicts[i].permits() {
				v.ResultLabels = appendNew(v.ResultLabels, label)
			}
		}
	}
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}
