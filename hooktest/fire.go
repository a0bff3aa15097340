package hooktest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/sample"
)

// A Firing is the result of one event: the Verdict, and all further data for a test. Printed with
// %v, it shows the result of each hook.
type Firing = policytest.Firing

// Fire fires an event at some Specs or at one engine, and also waits for observing hooks. It
// asserts nothing; check the result, and print it on failure.
func Fire[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f, err := policytest.Fire(t.Context(), engineOf(t, by), ev)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Blocks fires an event and fails the test unless the hooks block it. Like all checks here, it also
// fails the test if a hook fails: a Block because a script was not found shows nothing about the
// script. To test a failure that must block, check the result of [Fire].
func Blocks[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	expect(t, f, f.Decision == grapnel.Block, "block")
	return f
}

// Asks fires an event and fails the test unless the hooks ask for the user's consent.
func Asks[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	expect(t, f, f.Decision == grapnel.Ask, "ask")
	return f
}

// Passes fires an event and fails the test unless it passes unchanged: no hook may block, ask,
// change it or end the turn, and no hook may allow it, which would skip the agent's own prompt.
// Hooks may add context.
func Passes[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	expect(t, f, f.Decision == grapnel.None && f.Halt == "" && len(f.Changes) == 0, "no decision and no change")
	return f
}

// Changes fires an event and fails the test unless the hooks change it and do not block it. All
// fields that may change must then equal the fields of want:
//
//	hooktest.Changes(t, hooktest.Shell("make"), hooktest.Shell("nice make"), spec)
func Changes[H grapnel.Spec | *grapnel.Engine](t testing.TB, ev, want *grapnel.Event, by ...H) Firing {
	t.Helper()
	f := Fire(t, ev, by...)
	if !expect(t, f, f.Decision != grapnel.Block && f.Halt == "", "a change and no block") {
		return f
	}
	for _, c := range ev.Contract().Changes {
		now, _ := f.Event.Get(c.Field)
		then, _ := want.Get(c.Field)
		if !rawjson.Equal(now, then) {
			t.Errorf("%s: got %s, want %s\n%v", c.Field, orNothing(now), orNothing(then), f)
		}
	}
	return f
}

func orNothing(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	return sample.Short(string(raw))
}

func engineOf[H grapnel.Spec | *grapnel.Engine](t testing.TB, by []H) *grapnel.Engine {
	t.Helper()
	var specs []grapnel.Spec
	for _, one := range by {
		switch one := any(one).(type) {
		case *grapnel.Engine:
			if len(by) > 1 {
				t.Fatalf("an event needs exactly one engine, got %d; see grapnel.Engine.With", len(by))
			}
			return one
		case grapnel.Spec:
			specs = append(specs, one)
		}
	}
	engine, err := grapnel.New(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// expect fails the test unless holds is true and every hook could answer. want describes the
// expected result.
func expect(t testing.TB, f Firing, holds bool, want string) bool {
	t.Helper()
	failed := slices.ContainsFunc(f.Runs(), func(r grapnel.HookRun) bool { return r.Error != "" })
	switch {
	case !holds:
		t.Errorf("got %v, want %s\n%v", f.Decision, want, f)
	case failed:
		t.Errorf("got %v, but a hook failed\n%v", f.Decision, f)
	}
	return holds && !failed
}
