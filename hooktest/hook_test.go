package hooktest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
)

func replies(out grapnel.Outcome, err error) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, err })
}

// The hooks of the root package pass the suite.
func TestHooksOfTheRoot(t *testing.T) {
	t.Parallel()
	tools := []grapnel.Kind{grapnel.ToolBefore, grapnel.PermissionBefore}
	for name, spec := range map[string]grapnel.Spec{
		"Guard": {On: tools, Phase: grapnel.PhaseRule, Hook: grapnel.Guard(func(ev *grapnel.Event) string {
			if ev.Tool != nil && strings.Contains(strings.Join(ev.Tool.Commands, "\n"), "make") {
				return "no make today"
			}
			return ""
		})},
		"Watch": {Hook: grapnel.Watch(func(context.Context, *grapnel.Event) {})},
		"Func": {On: []grapnel.Kind{grapnel.PromptBefore}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldPrompt, "be kind")
		})},
		"an error": {OnError: grapnel.OnErrorClosed, Hook: replies(grapnel.Outcome{}, errors.New("no idea"))},
		"observer": {Phase: grapnel.PhaseObserve, Hook: replies(grapnel.Outcome{Decision: grapnel.Block}, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec.Name = name
			TestHook(t, spec)
		})
	}
}

// The suite finds the errors that it checks for.
func TestBrokenHooks(t *testing.T) {
	t.Parallel()
	before := []grapnel.Kind{grapnel.ToolBefore}
	for name, tt := range map[string]struct {
		spec grapnel.Spec
		law  string
		want string
	}{
		"changes the input": {grapnel.Spec{On: before, Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) {
			if ev.Tool != nil && len(ev.Tool.Input) > 0 {
				ev.Tool.Input[0] = ' '
			}
		})}, "Answers", "it changed the event"},
		"changes the event": {grapnel.Spec{On: before, Hook: grapnel.Watch(func(_ context.Context, ev *grapnel.Event) { ev.Cause = "mine" })}, "Answers", "it changed the event"},
		"panics":            {grapnel.Spec{On: before, Hook: grapnel.Guard(func(*grapnel.Event) string { panic("oops") })}, "Answers", "it panicked: oops"},
		"needs a tool":      {grapnel.Spec{On: before, Hook: grapnel.Guard(func(ev *grapnel.Event) string { return ev.Tool.Content[:0] })}, "Hostile", "it panicked: runtime error"},
		"matcher panics":    {grapnel.Spec{On: before, Hook: replies(grapnel.Outcome{}, nil), Match: panicky{}}, "Answers", "its Matcher"},
		"allows by failure": {grapnel.Spec{On: before, Hook: replies(grapnel.Outcome{Decision: grapnel.Allow}, errors.New("no idea"))}, "Answers", "it allows although it failed: no idea"},
		"blocks a notice":   {grapnel.Spec{Hook: replies(grapnel.Outcome{Decision: grapnel.Block}, nil)}, "Answers", "decision block on gateway.start"},
		"changes too much": {
			grapnel.Spec{On: before, Hook: replies(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldPrompt: json.RawMessage(`"x"`)}}, nil)},
			"Answers", "a change of prompt on tool.before",
		},
		"rule that changes": {
			grapnel.Spec{On: before, Phase: grapnel.PhaseRule, Hook: replies(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{}`)}}, nil)},
			"Answers", "a rule's change of tool.input",
		},
		"no JSON": {
			grapnel.Spec{On: before, Hook: replies(grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{`)}}, nil)},
			"Answers", "not valid JSON",
		},
		"is never called": {grapnel.Spec{On: before, Tools: []string{"nothing"}, Hook: replies(grapnel.Outcome{}, nil)}, "Answers", "none of 6 events reached the hook"},
		"gives up":        {grapnel.Spec{On: before, Hook: hangs{}}, "Cancelled", "it still runs 1m0s after its context was done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.spec.Name = name
			for _, law := range hookLaws {
				if law.name != tt.law {
					continue
				}
				hold := func(t *testing.T) string {
					return failure(t, func(t testing.TB) { law.hold(t, newHookSuite(t, tt.spec), eventsOf(tt.spec.On)) })
				}
				got := ""
				if name == "gives up" { // with a fake clock, so the wait takes no time
					synctest.Test(t, func(t *testing.T) {
						got = hold(t)
						time.Sleep(time.Hour)
					})
				} else {
					got = hold(t)
				}
				if !strings.Contains(got, tt.want) {
					t.Errorf("%s: the suite says %q, want %q", tt.law, got, tt.want)
				}
			}
		})
	}
}

type panicky struct{}

func (panicky) Match(*grapnel.Event, *grapnel.Verdict) (bool, error) { panic("oops") }

// hangs is a hook that ignores its context.
type hangs struct{}

func (hangs) Handle(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
	time.Sleep(30 * time.Minute)
	return grapnel.Outcome{}, nil
}
