package grapnel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// approver approves the answers of some hooks to one command.
type approver struct {
	hooks   []string
	command string
	spent   bool
	used    int
	panics  bool
}

func (a *approver) find(_ context.Context, ev *grapnel.Event, hook *grapnel.Spec, decision grapnel.Decision) grapnel.Approval {
	switch {
	case a.panics:
		panic("broken")
	case strings.HasPrefix(hook.Name, "never") || decision < grapnel.Ask:
		return grapnel.Approval{}
	}
	found := grapnel.Approval{How: "a call of 555-0100"}
	if slices.Contains(a.hooks, hook.Name) && slices.Equal(ev.Tool.Commands, []string{a.command}) {
		found.ID, found.Use = "grant-1", a.use
	}
	return found
}

func (a *approver) use(_ context.Context, ev *grapnel.Event) bool {
	if a.spent || !slices.Equal(ev.Tool.Commands, []string{a.command}) {
		return false
	}
	a.used++
	return true
}

// An approved answer has no effect, and the Record names it. The approval is used once per firing,
// and only if nothing else stops the call. Otherwise all answers count.
func TestApproved(t *testing.T) {
	t.Parallel()
	block := func(name string) grapnel.Spec {
		return grapnel.Spec{Name: name, Phase: grapnel.PhaseRule, Hook: decides(grapnel.Block, name+" blocks")}
	}
	ask := grapnel.Spec{Name: "ask", Phase: grapnel.PhaseRule, Hook: decides(grapnel.Ask, "sure?")}
	observed := block("watch")
	observed.Observe = true
	broken := step("broken", fails(errors.New("no answer")))
	broken.OnError = grapnel.OnErrorClosed
	changes := step("changes", returns(setCommand("other")))
	halts := grapnel.Spec{Name: "halts", Phase: grapnel.PhaseRule, Hook: returns(grapnel.Outcome{Halt: "the end"})}
	for name, tt := range map[string]struct {
		approver approver
		specs    []grapnel.Spec
		want     grapnel.Decision
		used     int
		reasons  string
		approved []string
	}{
		"no approval":         {approver{}, []grapnel.Spec{block("a")}, grapnel.Block, 0, "a blocks", nil},
		"a block":             {approver{hooks: []string{"a"}}, []grapnel.Spec{block("a")}, grapnel.None, 1, "", []string{"a block"}},
		"a question":          {approver{hooks: []string{"ask"}}, []grapnel.Spec{ask}, grapnel.None, 1, "", []string{"ask ask"}},
		"a halt":              {approver{hooks: []string{"halts"}}, []grapnel.Spec{halts}, grapnel.None, 1, "", []string{"halts block"}},
		"two":                 {approver{hooks: []string{"a", "ask"}}, []grapnel.Spec{block("a"), ask}, grapnel.None, 1, "", []string{"a block", "ask ask"}},
		"only observed":       {approver{hooks: []string{"watch"}}, []grapnel.Spec{observed}, grapnel.None, 0, "", nil},
		"another asks":        {approver{hooks: []string{"a"}}, []grapnel.Spec{block("a"), ask}, grapnel.Ask, 1, "sure?", []string{"a block"}},
		"another blocks":      {approver{hooks: []string{"a"}}, []grapnel.Spec{block("a"), block("b")}, grapnel.Block, 0, "a blocks\nb blocks", nil},
		"a later step blocks": {approver{hooks: []string{"a"}}, []grapnel.Spec{block("a"), step("b", decides(grapnel.Block, "b blocks"))}, grapnel.Block, 0, "a blocks\nb blocks", nil},
		"a step changes it":   {approver{hooks: []string{"a"}}, []grapnel.Spec{block("a"), changes}, grapnel.Block, 0, "a blocks", nil},
		"used up":             {approver{hooks: []string{"a"}, spent: true}, []grapnel.Spec{block("a")}, grapnel.Block, 0, "a blocks", nil},
		"a failed hook":       {approver{hooks: []string{"broken"}}, []grapnel.Spec{broken}, grapnel.Block, 0, `hook "broken" could not answer: no answer`, nil},
		"a broken approver":   {approver{hooks: []string{"a"}, panics: true}, []grapnel.Spec{block("a")}, grapnel.Block, 0, "a blocks", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rec grapnel.Record
			a := tt.approver
			a.command = "make"
			engine, err := grapnel.New(tt.specs, &grapnel.Options{Approved: a.find, Observers: []grapnel.Observer{
				grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = *r }),
			}})
			if err != nil {
				t.Fatal(err)
			}
			v := engine.Fire(t.Context(), toolEvent("make"))
			if v.Decision != tt.want || v.Reason() != tt.reasons || a.used != tt.used || v.Halt != "" {
				t.Errorf("Fire = %v %q, halt %q, used %d; want %v %q, used %d", v.Decision, v.Reason(), v.Halt, a.used, tt.want, tt.reasons, tt.used)
			}
			var approved []string
			for _, run := range rec.Hooks {
				if run.Approved > grapnel.None {
					approved = append(approved, run.Name+" "+run.Approved.String())
					if run.Decision != grapnel.None || run.Halt {
						t.Errorf("the approved run is %+v", run)
					}
				}
			}
			if !slices.Equal(approved, tt.approved) || (rec.Approval == "grant-1") != (approved != nil) {
				t.Errorf("the Record has %q by %q, want %q", approved, rec.Approval, tt.approved)
			}
		})
	}
}

// After an event that only tells about an action, there is nothing to approve.
func TestApproveActionsOnly(t *testing.T) {
	t.Parallel()
	a := &approver{hooks: []string{"a"}, command: "make"}
	engine, err := grapnel.New([]grapnel.Spec{{Name: "a", Hook: decides(grapnel.Block, "bad result")}}, &grapnel.Options{Approved: a.find})
	if err != nil {
		t.Fatal(err)
	}
	ev := toolEvent("make")
	ev.Kind = grapnel.ToolAfter
	if v := engine.Fire(t.Context(), ev); v.Decision != grapnel.Block || a.used != 0 {
		t.Errorf("Fire = %v, used %d", v.Decision, a.used)
	}
}

// An Allow of another hook needs no approval and stays valid next to an approved answer.
func TestApprovedBesideAllow(t *testing.T) {
	t.Parallel()
	a := &approver{hooks: []string{"a"}, command: "make"}
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "a", Phase: grapnel.PhaseRule, Hook: decides(grapnel.Ask, "sure?")}, {Name: "b", Phase: grapnel.PhaseRule, Hook: decides(grapnel.Allow, "")},
	}, &grapnel.Options{Approved: a.find})
	if err != nil {
		t.Fatal(err)
	}
	if v := engine.Fire(t.Context(), toolEvent("make")); v.Decision != grapnel.Allow || a.used != 1 {
		t.Errorf("Fire = %v, used %d", v.Decision, a.used)
	}
}

// A question that became a block names how a person can approve the call, if every hook that stops
// it can be approved.
func TestWayOutOfAQuestion(t *testing.T) {
	t.Parallel()
	ask := func(name string) grapnel.Spec {
		return grapnel.Spec{Name: name, Phase: grapnel.PhaseRule, Hook: decides(grapnel.Ask, name+"?")}
	}
	for _, tt := range []struct {
		specs    []grapnel.Spec
		approved func(context.Context, *grapnel.Event, *grapnel.Spec, grapnel.Decision) grapnel.Approval
		want     string
	}{
		{[]grapnel.Spec{ask("a")}, nil, "who can do it or change the policy. The question is: a?"},
		{[]grapnel.Spec{ask("a")}, new(approver).find, "who can approve it with a call of 555-0100. The question is: a?"},
		{[]grapnel.Spec{ask("a"), ask("never-b")}, new(approver).find, "who can do it or change the policy. The question is: a?\nnever-b?"},
	} {
		engine, err := grapnel.New(tt.specs, &grapnel.Options{Approved: tt.approved})
		if err != nil {
			t.Fatal(err)
		}
		ev := toolEvent("make")
		ev.Terms = &grapnel.Terms{Can: &grapnel.Can{Block: true}}
		if got := engine.Fire(t.Context(), ev).Reason(); !strings.HasSuffix(got, tt.want) {
			t.Errorf("the reply is %q, want %q at the end", got, tt.want)
		}
	}
}

// An approval that answers the agent's own question is an Allow, if the agent knows one.
func TestApprovedPermits(t *testing.T) {
	t.Parallel()
	ask := grapnel.Spec{Name: "ask", Phase: grapnel.PhaseRule, Hook: decides(grapnel.Ask, "sure?")}
	for can, want := range map[*grapnel.Can]grapnel.Decision{nil: grapnel.Allow, {Block: true, Ask: true, Allow: true}: grapnel.Allow, {Block: true}: grapnel.None} {
		engine, err := grapnel.New([]grapnel.Spec{ask}, &grapnel.Options{Approved: func(context.Context, *grapnel.Event, *grapnel.Spec, grapnel.Decision) grapnel.Approval {
			return grapnel.Approval{ID: "grant-1", Permit: true, Use: func(context.Context, *grapnel.Event) bool { return true }}
		}})
		if err != nil {
			t.Fatal(err)
		}
		ev := toolEvent("make")
		ev.Terms = &grapnel.Terms{Can: can}
		if v := engine.Fire(t.Context(), ev); v.Decision != want {
			t.Errorf("%+v: Fire = %v, want %v", can, v.Decision, want)
		}
	}
}

// A person who is asked answers for all questions of an event. Nobody is asked if something else
// stops the event, or would stop it after a yes.
func TestAsk(t *testing.T) {
	t.Parallel()
	ask := func(name string) grapnel.Spec {
		return grapnel.Spec{Name: name, Phase: grapnel.PhaseRule, Hook: decides(grapnel.Ask, name+"?")}
	}
	block := grapnel.Spec{Name: "block", Hook: decides(grapnel.Block, "no")}
	changes := grapnel.Spec{Name: "changes", Phase: grapnel.PhaseRewrite, Hook: returns(setCommand("other"))}
	yes := func(*grapnel.Event) (string, grapnel.Outcome) { return "grant-1", grapnel.Outcome{} }
	no := func(*grapnel.Event) (string, grapnel.Outcome) {
		return "", grapnel.Outcome{Decision: grapnel.Block, Reason: "not today"}
	}
	later := func(*grapnel.Event) (string, grapnel.Outcome) { return "", grapnel.Outcome{} }
	fixed := &grapnel.Can{Block: true, Ask: true, Allow: true} // the agent takes over no change
	silent := &grapnel.Can{Block: true}
	for name, tt := range map[string]struct {
		specs  []grapnel.Spec
		can    *grapnel.Can
		answer func(*grapnel.Event) (string, grapnel.Outcome)
		want   grapnel.Decision
		reason string
		asked  string
	}{
		"yes":             {[]grapnel.Spec{ask("a")}, nil, yes, grapnel.Allow, "", "a make"},
		"yes to two":      {[]grapnel.Spec{ask("a"), ask("b")}, nil, yes, grapnel.Allow, "", "a b make"},
		"yes, changed":    {[]grapnel.Spec{ask("a"), changes}, nil, yes, grapnel.Allow, "", "a other"},
		"yes, no allow":   {[]grapnel.Spec{ask("a")}, silent, yes, grapnel.None, "", "a make"},
		"no":              {[]grapnel.Spec{ask("a"), ask("b")}, nil, no, grapnel.Block, "not today", "a b make"},
		"no, cannot ask":  {[]grapnel.Spec{ask("a")}, silent, no, grapnel.Block, "not today", "a make"},
		"later":           {[]grapnel.Spec{ask("a")}, nil, later, grapnel.Ask, "a?", "a make"},
		"panics":          {[]grapnel.Spec{ask("a")}, nil, func(*grapnel.Event) (string, grapnel.Outcome) { panic("broken") }, grapnel.Ask, "a?", "a make"},
		"a block":         {[]grapnel.Spec{ask("a"), block}, nil, yes, grapnel.Block, "no", ""},
		"cannot approve":  {[]grapnel.Spec{ask("a"), ask("never")}, nil, yes, grapnel.Ask, "a?\nnever?", ""},
		"change not sent": {[]grapnel.Spec{ask("a"), changes}, fixed, yes, grapnel.Block, "tool.input must be changed, but test does not support that. Use this instead: {\"command\":\"other\"}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked string
				var rec grapnel.Record
				find := func(_ context.Context, _ *grapnel.Event, hook *grapnel.Spec, _ grapnel.Decision) grapnel.Approval {
					if hook.Name == "never" {
						return grapnel.Approval{}
					}
					return grapnel.Approval{How: "a browser", Ask: func(_ context.Context, ev *grapnel.Event, hooks []grapnel.HookRun) (string, grapnel.Outcome) {
						for _, h := range hooks {
							asked += h.Name + " "
							time.Sleep(time.Minute) // of the person, which is no time of the hooks
							if h.Outcome.Reason != h.Name+"?" {
								t.Errorf("the question of %s is %q", h.Name, h.Outcome.Reason)
							}
						}
						asked += ev.Command()
						return tt.answer(ev)
					}}
				}
				engine, err := grapnel.New(tt.specs, &grapnel.Options{Approved: find, Observers: []grapnel.Observer{
					grapnel.ObserverFunc(func(_ context.Context, r *grapnel.Record) { rec = *r }),
				}})
				if err != nil {
					t.Fatal(err)
				}
				ev := toolEvent("make")
				ev.Terms = &grapnel.Terms{Can: tt.can}
				v := engine.Fire(t.Context(), ev)
				if v.Decision != tt.want || v.Reason() != tt.reason || asked != tt.asked {
					t.Errorf("Fire = %v %q, asked %q; want %v %q, asked %q", v.Decision, v.Reason(), asked, tt.want, tt.reason, tt.asked)
				}
				if rec.MS != 0 {
					t.Errorf("the Record has %v ms of the person's time", rec.MS)
				}
				if agreed := tt.want <= grapnel.Allow; (rec.Approval == "grant-1") != agreed {
					t.Errorf("the Record has the approval %q", rec.Approval)
				}
			})
		})
	}
}
