package load

import (
	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Replaced returns a copy of specs in which some hooks are replaced. It calls with for each Spec:
// other reports whether the hook is replaced, and h is the new hook, or nil to remove it. All other
// Specs are reused together with their state, and count in counter. The old and the new list must
// not be in use at the same time.
func Replaced(specs []grapnel.Spec, with func(*grapnel.Spec) (h *policyfile.Hook, other bool), counter state.Counter) ([]grapnel.Spec, error) {
	var all []grapnel.Spec
	for _, s := range specs {
		if _, kept := s.Hook.(*state.Marker); kept {
			continue // Together makes them again
		}
		if h, other := with(&s); other {
			if h == nil {
				continue
			}
			var err error
			if s, err = remade(s, h); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return state.Together(all, counter), nil
}

// remade rebuilds a Spec from a changed hook. It reuses the program of the old Spec.
func remade(s grapnel.Spec, h *policyfile.Hook) (grapnel.Spec, error) {
	cache := lateFacts(&s)
	source := s.Source
	var spec grapnel.Spec
	var err error
	switch {
	case h.Builtin != nil, h.HTTP != nil, h.Program() != nil:
		spec, err = policy.HookSpec(h, source, cache)
		spec.Phase, spec.Hook, spec.Timeout, spec.OnError = s.Phase, s.Hook, s.Timeout, s.OnError
	default:
		spec, err = policy.BuildRule(h, source, cache)
	}
	if err != nil {
		return s, err
	}
	spec.Line, spec.Observe, spec.MayAllow, spec.Sequential, spec.Key = s.Line, s.Observe, s.MayAllow, s.Sequential, s.Key
	return spec, nil
}

// lateFacts returns the FactCache that a rebuilt hook shares with the other hooks.
func lateFacts(s *grapnel.Spec) *match.FactCache {
	if packed, ok := packHookOf(s.Match); ok {
		return match.LateFacts(packed.facts, packed.secrets)
	}
	return match.LateFacts(policy.Shared(s))
}
