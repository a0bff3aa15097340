package grapnel_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// TestRecordOfSteps checks that a Record contains the step and the input of each hook, which a
// diagram of the firing needs.
func TestRecordOfSteps(t *testing.T) {
	t.Parallel()
	allows := decides(grapnel.Allow, "")
	own := scoped("own", grapnel.ScopeProject, 4, allows)
	rewrites := rewrite("rewrite", returns(setCommand("b")))
	rewrites.Match = matchCommand("a")
	later := phase(grapnel.PhaseObserve, "later", returns(grapnel.Outcome{}))
	ev := toolEvent("a")
	_, rec := fire(t, ev, rewrites, rule("judge", returns(grapnel.Outcome{})),
		scoped("one", grapnel.ScopeUser, 1, allows), scoped("two", grapnel.ScopeUser, 1, returns(grapnel.Outcome{})),
		scoped("changes", grapnel.ScopeUser, 2, returns(setCommand("c"))), own, later)
	var got []string
	for _, r := range rec.Hooks {
		saw, changed := "nothing", []grapnel.Field(nil)
		if r.Saw != nil {
			saw, changed = r.Saw.Tool.Commands[0], r.Saw.Changed(ev)
		}
		got = append(got, fmt.Sprintf("%d %d %v %s saw %s %v %v", r.Step, r.Round, r.Phase, r.Name, saw, changed, r.Expiry))
	}
	want := []string{
		"1 0 rewrite rewrite saw a [] ",
		"2 0 rule judge saw b [tool.input] ",
		"3 0 step one saw b [tool.input] it was for another input",
		"3 0 step two saw b [tool.input] ",
		"4 0 step changes saw b [tool.input] ",
		"5 0 step own saw c [tool.input] its source may not allow",
		"6 2 rule judge saw c [tool.input] ",
		"0 0 observe later saw nothing [] ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("runs\n%q\nwant\n%q", got, want)
	}
}

// TestRecordOfOpenGuard checks that Allows expire if a guard failed open.
func TestRecordOfOpenGuard(t *testing.T) {
	t.Parallel()
	_, rec := fire(t, toolEvent("a"), open(step("broken", fails(errors.New("broken")))), step("yes", decides(grapnel.Allow, "")))
	if got := run(t, rec, "yes"); got.Expiry != "a guard could not answer" || !got.Expired {
		t.Errorf("its allow: %v, %v, want it to have expired since a guard failed open", got.Expired, got.Expiry)
	}
}
