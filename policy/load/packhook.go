package load

import (
	"context"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/notice"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// packHook is a hook of a pack. It builds its Matcher and Hook on the first event that may match.
type packHook struct {
	row
	pack    *Compiled
	number  int // index in the pack
	use     *policyfile.Use
	source  *grapnel.Source
	facts   *match.FactCache
	secrets *secret.Rules
	counter state.Counter // Counter of a packSequence

	once sync.Once
	spec grapnel.Spec
	err  error
}

// toSpec returns the Spec of the hook. The Matcher and the Hook are built lazily, except for a hook
// with a limit.
func (s *packHook) toSpec() (grapnel.Spec, error) {
	spec := grapnel.Spec{
		Name: s.name, Source: *s.source, Line: s.use.Pack.Line, On: s.pack.Events[s.on], Phase: s.phase, OnError: s.onError, Priority: s.priority, Match: s, Hook: s,
	}
	switch {
	case s.marks >= 0:
		spec.Match = packSequence{s}
	case s.flags&rowAlways != 0:
		made, err := s.made()
		if err != nil {
			return spec, err
		}
		spec.Match, spec.Hook = made.Match, made.Hook
	}
	spec.Observe = s.flags&rowObserve != 0
	if s.use.Mode != "" {
		spec.Observe = s.use.Mode == "observe"
	}
	return spec, nil
}

func (s *packHook) made() (*grapnel.Spec, error) {
	s.once.Do(func() {
		var h *policyfile.Hook
		if h, s.err = s.decode(); s.err == nil {
			h.Except = permitted(s.use, h)
			s.spec, s.err = policy.BuildRule(h, *s.source, match.LateFacts(s.facts, s.secrets))
		}
		if f, ok := s.spec.Match.(*state.After); ok {
			f.CountIn(s.counter)
		}
	})
	return &s.spec, s.err
}

// near reports whether the event may have the properties that the hook needs. It can be wrong only
// by returning true.
func (s *packHook) near(f *match.Facts) bool {
	if !s.needs.Met(f, func() bool { return f.NearPrograms(s.pack.Begins, len(s.pack.Rows))[s.number] }) {
		return false
	}
	// Such a line is longer than any system accepts for a shell. Hooks of packs that a policy uses
	// report an error for it. Packs that are always in force ignore it, so it is not blocked on
	// machines without a policy.
	if s.source.File == notice.OwnFile && f.ShellBytes() > match.MaxShellBytes {
		return false
	}
	return !s.needs.Secret || s.secrets != nil || len(f.Event.Calls) > 0 || f.NearSecret()
}

// Match builds the hook only if the event has the properties that the hook needs.
func (s *packHook) Match(ev *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	if !s.near(s.facts.Of(ev)) {
		return false, nil
	}
	spec, err := s.made()
	if err != nil || spec.Match == nil {
		return err == nil, err
	}
	return spec.Match.Match(ev, v)
}

// Explain returns the explanation of the built Matcher, or "".
func (s *packHook) Explain(ev *grapnel.Event, v *grapnel.Verdict) string {
	if spec, err := s.made(); err == nil {
		if x, ok := spec.Match.(seam.Explainer[grapnel.Event, grapnel.Verdict]); ok {
			return x.Explain(ev, v)
		}
	}
	return ""
}

// Always implements state.Decider.
func (s *packHook) Always() grapnel.Decision { return s.decides }

// Handle builds the hook if necessary and runs it.
func (s *packHook) Handle(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
	spec, err := s.made()
	if err != nil {
		return grapnel.Outcome{}, err
	}
	return spec.Hook.Handle(ctx, ev)
}

// packSequence is a packHook with an `after:` key.
type packSequence struct{ *packHook }

// Made implements state.Sequence.
func (s packSequence) Made() (*state.After, error) {
	spec, err := s.packHook.made()
	if err != nil {
		return nil, err
	}
	return spec.Match.(*state.After), nil
}

// Kinds implements state.Sequence.
func (s packSequence) Kinds() []grapnel.Kind { return s.pack.Events[s.marks] }

// MayMark reports whether an event may begin or cancel a step, without building the hook. It can be
// wrong only by returning true.
func (s packSequence) MayMark(ev *grapnel.Event, v *grapnel.Verdict) bool {
	if s.begins == "" || len(ev.Calls) > 0 || v != nil && v.Event != nil && v.Event != ev {
		return true
	}
	f := s.facts.Of(ev)
	return f.ShellBytes() > match.MaxShellBytes || f.NearPrograms(s.begins, 1)[0]
}

// CountIn implements state.Sequence.
func (s packSequence) CountIn(c state.Counter) { s.counter = c }

// ReadsID marks that the Matcher reads the event's ID, as in state.After.
func (s packSequence) ReadsID() {}
