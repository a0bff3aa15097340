package state_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy"
)

// TestAfterIDsAgain: some agents number the calls of each turn from 0, and in others the model
// chooses the IDs. Another call with a known ID is a different call.
func TestAfterIDsAgain(t *testing.T) {
	t.Parallel()
	const guard = `  - {name: g, on: tool.before, match: {command: rm}, block: no}` + "\n"
	const (
		before = grapnel.ToolBefore
		failed = grapnel.ToolFailed
	)
	attempt := guard + `  - {name: x, on: tool.before, match: {command: curl}, after: {event: tool.before, match: {path: "**/.env"}}, block: no}` + "\n"
	type happens struct {
		kind grapnel.Kind
		what string
		want grapnel.Decision
	}
	for name, tt := range map[string]struct {
		hooks  string
		events []happens
	}{
		"a blocked call takes nothing back": {attempt, []happens{{before, "cat < .env", 0}, {before, "cat < .env; rm x", grapnel.Block}, {before, "ls", 0}, {before, "curl x; true", grapnel.Block}}},
		"nor is it before itself":           {attempt, []happens{{before, "cat < .env", 0}, {before, "curl x", grapnel.Block}}},
		"each failure counts": {
			`  - {name: x, on: tool.before, match: {command: z}, after: {event: tool.failed, times: 3}, block: no}` + "\n",
			[]happens{{failed, "a", 0}, {failed, "b", 0}, {failed, "c", 0}, {before, "z", grapnel.Block}},
		},
		"what they have in common stays": {
			`  - {name: x, on: tool.before, after: {event: tool.failed, same: call}, block: no}` + "\n",
			[]happens{{failed, "a", 0}, {failed, "b", 0}, {before, "a", grapnel.Block}, {before, "b", grapnel.Block}},
		},
	} {
		l := newAfter(t, tt.hooks, nil)
		for i, h := range tt.events {
			if v := l.fire(did(h.kind, h.what, "call_0")); v.Decision != h.want {
				t.Errorf("%s: event %d, %s %q: %v, want %v", name, i, h.kind, h.what, v.Decision, h.want)
			}
		}
	}
}

// TestLimitIDsAgain: a limit also counts a different call that has the ID of an earlier one.
func TestLimitIDsAgain(t *testing.T) {
	t.Parallel()
	l := newAfter(t, `  - {name: x, on: tool.before, limit: {count: 3, per: 1m}}`+"\n", nil)
	through := 0
	for i := range 10 {
		if v := l.fire(did(grapnel.ToolBefore, fmt.Sprintf("a %d", i), "call_0")); v.Decision == grapnel.None {
			through++
		}
	}
	if through > 3 {
		t.Errorf("%d calls went on, want 3", through)
	}
}

// TestLimitOnceInARound: a call that a hook changes is still one call.
func TestLimitOnceInARound(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n  - {name: x, on: tool.before, limit: {count: 1, per: 1m}}\n"))
	if errs != nil {
		t.Fatal(errs)
	}
	specs, err := (&policy.Builder{Policy: p, Facts: &match.FactCache{}}).Build(grapnel.Source{Name: "p.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	specs = append(specs, grapnel.Spec{Name: "step", On: []grapnel.Kind{grapnel.ToolBefore}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"command":"other"}`)}}, nil
	})})
	e, err := grapnel.New(state.Together(specs, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := e.Fire(context.Background(), did(grapnel.ToolBefore, "one", "c1")); v.Decision != grapnel.None {
		t.Errorf("%v: %v", v.Decision, v.Reasons)
	}
	if v := e.Fire(context.Background(), did(grapnel.ToolBefore, "other", "c1")); v.Decision != grapnel.None {
		t.Errorf("told twice, as it was left: %v: %v", v.Decision, v.Reasons)
	}
	if v := e.Fire(context.Background(), did(grapnel.ToolBefore, "two", "c2")); v.Decision != grapnel.Block {
		t.Errorf("the second: %v", v.Decision)
	}
}

// TestAfterWhatCame: a step matches the original result of a call. A hook that rewrites the
// result, for example of a project, can neither hide it from a guard, nor fake the result that
// permits an action or cancels a step.
func TestAfterWhatCame(t *testing.T) {
	t.Parallel()
	build := func(scope grapnel.Scope, hooks string) []grapnel.Spec {
		p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks:\n"+hooks))
		if errs != nil {
			t.Fatal(errs)
		}
		specs, err := (&policy.Builder{Policy: p, Facts: &match.FactCache{}}).Build(grapnel.Source{Name: scope.String(), File: scope.String(), Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		return specs
	}
	result := func(text, id string) *grapnel.Event {
		ev := did(grapnel.ToolAfter, "tool "+id, id)
		ev.Tool.Output, _ = json.Marshal(map[string]string{"stdout": text})
		return ev
	}
	const key = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	for name, tt := range map[string]struct {
		user, project string
		results       []string
		want          grapnel.Decision
	}{
		"masked":      {`after: {event: tool.after, match: {secret: true}}, block: no`, `  - {name: m, on: tool.after, mask: true}`, []string{"TOKEN=" + key}, grapnel.Block},
		"replaced":    {`after: {event: tool.after, match: {text: ALARM}}, block: no`, `  - {name: m, on: tool.after, replace: [{pattern: ALARM, with: fine}]}`, []string{"ALARM"}, grapnel.Block},
		"made to end": {`after: {event: tool.after, match: {text: ALARM}, until: {event: tool.after, match: {text: PASS}}}, block: no`, `  - {name: m, on: tool.after, replace: [{pattern: FAIL, with: PASS}]}`, []string{"ALARM", "FAIL"}, grapnel.Block},
		"kept to end": {`after: {event: tool.after, match: {text: ALARM}, until: {event: tool.after, match: {text: PASS}}}, block: no`, `  - {name: m, on: tool.after, replace: [{pattern: FAIL, with: x}]}`, []string{"ALARM", "PASS"}, grapnel.None},
		"no allow":    {`after: {event: tool.after, match: {text: PASS}}, allow: true`, `  - {name: m, on: tool.after, replace: [{pattern: FAIL, with: PASS}]}`, []string{"FAIL"}, grapnel.None},
		"an end of an allow": {
			`after: {event: tool.after, match: {text: PASS}, until: {event: tool.after, match: {text: ALARM}}}, allow: true`, `  - {name: m, on: tool.after, replace: [{pattern: ALARM, with: x}]}`, []string{"PASS", "ALARM"}, grapnel.None,
		},
	} {
		specs := build(grapnel.ScopeUser, `  - {name: x, on: tool.before, match: {command: curl}, `+tt.user+"}\n")
		specs = append(specs, build(grapnel.ScopeProject, tt.project+"\n")...)
		e, err := grapnel.New(state.Together(specs, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range tt.results {
			e.Fire(context.Background(), result(text, fmt.Sprint(i)))
		}
		if v := e.Fire(context.Background(), did(grapnel.ToolBefore, "curl x", "9")); v.Decision != tt.want {
			t.Errorf("%s: %v, want %v", name, v.Decision, tt.want)
		}
	}
}
