package agenthooks

import (
	"fmt"
	"slices"
	"sync"
)

// A Profile is how the verdicts of several interceptors become one.
type Profile string

// The profiles. The set is closed: there is no vote and no most permissive one.
const (
	FirstDeny Profile = "sequential/first_deny" // in order, each sees what those before have changed; the first deny ends it
	RunAll    Profile = "sequential/run_all"    // in order as well, but all are asked; the strictest wins
	Strictest Profile = "parallel/strictest"    // all see the same context; the strictest wins, and two transforms are a conflict
	Unanimous Profile = "parallel/unanimous"    // all see the same context; anything but allow from all is a disagreement
)

// A Knob is what a profile does where it has a choice.
type Knob string

// The settings of knobs.
const (
	Stop      Knob = "stop"     // an approval ends the asking
	Resume    Knob = "resume"   // after an approval the interceptors behind are asked too
	Denies    Knob = "deny"     // it is denied
	Approvals Knob = "approval" // it is denied unless whoever resolves approvals lifts that
)

// A Composition is a profile with the knobs that it has. The zero value is FirstDeny,
// and a knob that is not set is the first of its settings.
type Composition struct {
	Profile             Profile `json:"profile"`
	OnApproval          Knob    `json:"on_approval,omitempty"`           // of FirstDeny: Stop or Resume
	OnDisagreement      Knob    `json:"on_disagreement,omitempty"`       // of Unanimous: Denies or Approvals
	OnTransformConflict Knob    `json:"on_transform_conflict,omitempty"` // of Strictest: Denies or Approvals
}

// full is the composition with its defaults filled in, and only the knobs that its
// profile has.
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

// A composer has interceptors asked and makes one verdict of what they say. What it
// does depends on nothing but the answers of its two functions.
type composer struct {
	Composition
	n        int
	evaluate bool                                           // transforms are checked and not applied
	call     func(i int, em *emission) Verdict              // asks an interceptor; what fails is a deny
	ask      func(v *Verdict, em *emission) (Verdict, bool) // asks for a deny to be lifted; nil = nobody can be asked
}

// A composed is what came of it.
type composed struct {
	verdict     Verdict
	em          *emission // as transforms have left it
	verdicts    []Verdict // what was returned, by interceptor
	decidedBy   *int
	resolvedBy  string // approval or rejection; empty = nobody was asked
	truncated   bool   // somebody was not asked
	resolutions []Verdict
}

// The words of resolved_by.
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

// firstDeny asks in order until somebody denies.
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
				out.verdict, out.decidedBy = before, by // it is still what happens to the target
			}
		}
	}
}

// runAll asks all in order. Who asks for approval is heard once, for all.
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
		// They were applied as they came; the last is the one that is named.
		for i, v := range out.verdicts {
			if v.Decision == Transform {
				out.win(v, i)
			}
		}
	case Allow:
	}
}

// strictest asks all about the same context.
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

// unanimous asks all about the same context.
func (c *composer) unanimous(out *composed) {
	c.all(out)
	if out.count(Allow) < c.n {
		c.dispute(out, reasonDisagreement, c.OnDisagreement)
	}
}

// all asks everybody at the same time.
func (c *composer) all(out *composed) {
	out.verdicts = make([]Verdict, c.n)
	var running sync.WaitGroup
	for i := range c.n {
		running.Go(func() { out.verdicts[i] = c.call(i, out.em) })
	}
	running.Wait()
}

// dispute denies because interceptors do not agree, unless that is lifted. It is nobody's
// verdict but the host's.
func (c *composer) dispute(out *composed, reason string, knob Knob) {
	v := denied(reason, "")
	if knob == Approvals {
		v.Approval = []byte("{}")
	}
	c.lift(out, v, nil)
}

// lift makes a deny the verdict, unless it can be lifted and is: then what the approval
// carries takes its place.
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

// apply applies a transform, or denies where that cannot be done. Such a deny is nobody's.
func (c *composer) apply(out *composed, v *Verdict) bool {
	em, reason := out.em.apply(v.Transform)
	if reason != "" {
		if reason == reasonContextInvalid && !c.evaluate {
			out.em = em // what was refused is what the record is about
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

// strictest is the first of those verdicts that nobody outranks.
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

// unite gives the verdict the warnings of everybody who was asked, and where the step is
// taken the labels of those who let it pass.
func (out *composed) unite() {
	said := slices.Concat(out.verdicts, out.resolutions)
	v := &out.verdict
	v.Warnings, v.ResultLabels = nil, nil
	for i := range said {
		for _, w := range said[i].Warnings {
			v.Warnings = appendNew(v.Warnings, w)
		}
		for _, label := range said[i].ResultLabels {
			if v.permits() && said[i].permits() {
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
