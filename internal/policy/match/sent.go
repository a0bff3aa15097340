package match

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/expr"
	"github.com/grapnel-dev/grapnel/internal/wire"
)

// sentNames lists the variables that expressions of a `notify:` have in addition to the variables of
// `when:`.
var sentNames = []struct {
	name string
	of   func(*grapnel.Event, *wire.Origin) any
}{
	{"id", func(ev *grapnel.Event, _ *wire.Origin) any { return ev.ID }},
	{"time", func(ev *grapnel.Event, _ *wire.Origin) any { return ev.Time.UTC().Format(time.RFC3339) }},
	{"verdict.reasons", func(ev *grapnel.Event, _ *wire.Origin) any {
		texts := []string{}
		for _, r := range OrZero(ev.Verdict()).Reasons {
			texts = append(texts, r.Text)
		}
		return texts
	}},
	{"verdict.rule", func(ev *grapnel.Event, _ *wire.Origin) any {
		if v := OrZero(ev.Verdict()); len(v.Reasons) > 0 {
			return wire.RefOf(v.Reasons[0].Hook).Name
		}
		return ""
	}},
	{"origin.host", func(_ *grapnel.Event, o *wire.Origin) any { return o.Host }},
	{"origin.user", func(_ *grapnel.Event, o *wire.Origin) any { return o.User }},
	{"origin.machine", func(_ *grapnel.Event, o *wire.Origin) any { return o.Machine }},
	{"origin.policy_digest", func(_ *grapnel.Event, o *wire.Origin) any { return o.PolicyDigest }},
	{"origin.policy_revision", func(_ *grapnel.Event, o *wire.Origin) any { return o.PolicyRevision }},
	{"origin.hook", func(_ *grapnel.Event, o *wire.Origin) any { return o.Hook.Name }},
}

// sentLanguage returns whenLanguage followed by sentNames and the object "origin".
var sentLanguage = sync.OnceValue(func() []expr.Name {
	names := slices.Clone(whenLanguage())
	for _, n := range sentNames {
		names = append(names, expr.Name{Name: n.name, Like: n.of(&grapnel.Event{}, &wire.Origin{})})
	}
	return append(names, expr.Name{Name: "origin", Like: map[string]any{}})
})

// Sent returns the value of an expression of a `notify:` for an event with its Verdict and its origin;
// nil = unknown.
func Sent(key, source string, ev *grapnel.Event, o *wire.Origin) (any, error) {
	program, err := CompileExpression(key, source)
	if err != nil {
		return nil, err
	}
	facts := (&FactCache{}).Of(ev)
	value, err := program.Run(func(name int) any {
		i := name - len(whenLanguage())
		switch {
		case i < 0:
			return whenValue(name, facts, ev.Verdict())
		case i < len(sentNames):
			return sentNames[i].of(ev, OrZero(o))
		}
		all := map[string]any{}
		for _, n := range sentNames {
			if member, ok := strings.CutPrefix(n.name, "origin."); ok {
				all[member] = n.of(ev, OrZero(o))
			}
		}
		return all
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return value, nil
}
