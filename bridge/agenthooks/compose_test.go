package agenthooks

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// testEmission returns an emission before a tool call.
func testEmission(t testing.TB, args string) *emission {
	t.Helper()
	tree, err := parseContext(json.RawMessage(`{"spec":"agent-hooks/0.1","interception_point":"pre_tool_call","timestamp":"2026-01-02T03:04:05Z","sequence":4,
		"agent":{"id":"a","framework":"f"},"session":{"id":"s"},"tool_call":{"id":"c","name":"t","args":` + args + `},"target":` + args + `}`))
	if err != nil {
		t.Fatal(err)
	}
	em, err := newEmission(pointNamed("pre_tool_call"), tree, &grapnel.Event{Kind: grapnel.ToolBefore})
	if err != nil {
		t.Fatal(err)
	}
	return em
}

func drawVerdict(t *rapid.T, label string) Verdict {
	switch rapid.SampledFrom([]string{"allow", "transform", "bad transform", "ask", "deny", "failed"}).Draw(t, label) {
	case "transform":
		return Verdict{Decision: Transform, Transform: &Change{Path: "$target.n", Value: json.RawMessage(fmt.Sprint(rapid.IntRange(1, 9).Draw(t, label+" value")))}, ResultLabels: []string{label}}
	case "bad transform":
		return Verdict{Decision: Transform, Transform: &Change{Path: "$target.none"}}
	case "ask":
		return Verdict{Decision: Deny, Reason: label, Approval: json.RawMessage("{}"), Warnings: []Warning{{Reason: label}}}
	case "deny":
		return Verdict{Decision: Deny, Reason: label, ResultLabels: []string{label}}
	case "failed":
		return denied(reasonFailed, "")
	default:
		return Verdict{Decision: Allow, ResultLabels: []string{label}, Warnings: []Warning{{Reason: "w"}}}
	}
}

// The laws that hold for every profile: no deny is lifted without an approval, a denied step has no
// labels, and in evaluate_only the context does not change.
func TestComposeLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := composer{evaluate: rapid.Bool().Draw(rt, "evaluate")}
		c.Profile = rapid.SampledFrom([]Profile{FirstDeny, RunAll, Strictest, Unanimous}).Draw(rt, "profile")
		c.OnApproval = rapid.SampledFrom([]Knob{Stop, Resume}).Draw(rt, "on_approval")
		c.OnTransformConflict = rapid.SampledFrom([]Knob{Denies, Approvals}).Draw(rt, "on_transform_conflict")
		c.OnDisagreement = rapid.SampledFrom([]Knob{Denies, Approvals}).Draw(rt, "on_disagreement")
		c.n = rapid.IntRange(1, 4).Draw(rt, "n")
		verdicts := make([]Verdict, c.n)
		for i := range verdicts {
			verdicts[i] = drawVerdict(rt, fmt.Sprint("v", i))
		}
		called := make([]int, c.n)
		c.call = func(i int, _ *emission) Verdict { called[i]++; return verdicts[i] }
		asked := 0
		if !c.evaluate && rapid.Bool().Draw(rt, "resolver") {
			c.ask = func(v *Verdict, _ *emission) (Verdict, bool) {
				asked++
				if !v.liftable() {
					rt.Fatalf("asked about %+v", v)
				}
				if rapid.Bool().Draw(rt, "lift") {
					return Verdict{Decision: Allow}, true
				}
				return Verdict{Decision: Deny, Reason: "rejected"}, false
			}
		}
		if c.Profile != FirstDeny && c.Profile != RunAll {
			c.call = func(i int, _ *emission) Verdict { return verdicts[i] } // concurrently
		}
		em := testEmission(t, `{"n":0}`)
		out := c.compose(em)

		plainDeny := func(v Verdict) bool { return v.Decision == Deny && !v.liftable() }
		anyPlain := slices.ContainsFunc(verdicts[:len(out.verdicts)], plainDeny)
		liftsAll := c.Profile == Unanimous && c.OnDisagreement == Approvals
		anyDeny := slices.ContainsFunc(verdicts[:len(out.verdicts)], func(v Verdict) bool { return v.Decision == Deny })
		switch {
		case out.verdict.permits() && anyPlain && !liftsAll:
			rt.Fatalf("a plain deny was lifted: %+v of %+v", out.verdict, verdicts)
		case out.verdict.permits() && anyDeny && out.resolvedBy != byApproval:
			rt.Fatalf("a deny was lifted by nobody: %+v of %+v", out.verdict, verdicts)
		case !out.verdict.permits() && out.verdict.ResultLabels != nil:
			rt.Fatalf("what is denied has labels: %+v", out.verdict)
		case (asked > 0) != (out.resolvedBy != ""):
			rt.Fatalf("asked %d times, resolved_by %q", asked, out.resolvedBy)
		case asked > 1 && (c.Profile != FirstDeny || c.OnApproval != Resume):
			rt.Fatalf("asked %d times", asked)
		case c.evaluate && out.em != em:
			rt.Fatal("evaluate_only changed the context")
		case out.truncated != (len(out.verdicts) < c.n):
			rt.Fatalf("truncated = %v after %d of %d", out.truncated, len(out.verdicts), c.n)
		case slices.ContainsFunc(called, func(n int) bool { return n > 1 }):
			rt.Fatalf("called %v times", called)
		}
		if out.decidedBy == nil && !out.verdict.permits() && !out.verdict.byHost() && out.resolvedBy == "" {
			rt.Fatalf("nobody decided %+v", out.verdict)
		}
		if c.Profile == RunAll || c.Profile == FirstDeny {
			return
		}
		if moved := out.em != em; moved && out.verdict.Decision != Transform {
			rt.Fatalf("%s changed the context and said %+v", c.Profile, out.verdict)
		}
	})
}

func TestComposition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want Composition }{
		{Composition{}, Composition{Profile: FirstDeny, OnApproval: Stop}},
		{Composition{OnApproval: Resume, OnDisagreement: Approvals}, Composition{Profile: FirstDeny, OnApproval: Resume}},
		{Composition{Profile: RunAll, OnApproval: Resume}, Composition{Profile: RunAll}},
		{Composition{Profile: Strictest}, Composition{Profile: Strictest, OnTransformConflict: Denies}},
		{Composition{Profile: Unanimous, OnDisagreement: Approvals}, Composition{Profile: Unanimous, OnDisagreement: Approvals}},
	} {
		if got, err := c.in.full(); err != nil || got != c.want {
			t.Errorf("%+v is %+v, %v, want %+v", c.in, got, err, c.want)
		}
	}
	for _, bad := range []Composition{{Profile: "quorum"}, {OnApproval: Denies}, {Profile: Strictest, OnTransformConflict: Stop}, {Profile: Unanimous, OnDisagreement: "ask"}} {
		if got, err := bad.full(); err == nil {
			t.Errorf("%+v is %+v, want an error", bad, got)
		}
	}
}
