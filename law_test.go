package grapnel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
)

func appends(text string) grapnel.Hook {
	return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		return setCommand(ev.Tool.Commands[0] + text), nil
	})
}

func TestRewritesChainThenRulesLook(t *testing.T) {
	t.Parallel()
	var d diary
	v, _ := fire(t, toolEvent("x"),
		rule("rule", d.logged("rule", returns(grapnel.Outcome{}))),
		step("step", d.logged("step", returns(grapnel.Outcome{}))),
		rewrite("one", d.logged("one", appends("1"))),
		rewrite("two", d.logged("two", appends("2"))))
	want := []string{"one saw x", "two saw x1", "rule saw x12", "step saw x12"}
	if diff := cmp.Diff(want, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := string(v.Changes[grapnel.FieldInput]); got != `{"command":"x12"}` {
		t.Errorf("changes %s", got)
	}
}

func TestRuleBlockSpawnsNothing(t *testing.T) {
	t.Parallel()
	var d diary
	v, rec := fire(t, toolEvent("x"),
		step("step", d.logged("step", appends("!"))),
		rule("no", decides(grapnel.Block, "no")),
		rule("also no", decides(grapnel.Block, "never")))
	if calls := d.read(); len(calls) > 0 {
		t.Errorf("after a rule blocked: %q", calls)
	}
	want := []grapnel.Reason{{Hook: "no", Text: "no", Cause: grapnel.CauseDecision}, {Hook: "also no", Text: "never", Cause: grapnel.CauseDecision}}
	if diff := cmp.Diff(want, v.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if v.Decision != grapnel.Block || len(rec.Hooks) != 2 {
		t.Errorf("decision %v, runs %+v", v.Decision, rec.Hooks)
	}
}

// TestSteps checks that lower priorities run first and equal ones together.
func TestSteps(t *testing.T) {
	t.Parallel()
	var d diary
	hook := func(name string, priority int) grapnel.Spec {
		return scoped(name, grapnel.ScopeUser, priority, d.logged(name, appends(name)))
	}
	v, _ := fire(t, toolEvent("-"), hook("e", 200), hook("c", 100), hook("a", -1), hook("d", 100), hook("b", 7))
	// c and d get the same event and both change it: d runs again with the change of c.
	want := []string{"a saw -", "b saw -a", "c saw -ab", "d saw -ab", "d saw -abc", "e saw -abcd"}
	if diff := cmp.Diff(want, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := command(t, v); got != "-abcde" {
		t.Errorf("command %q, want -abcde", got)
	}
}

func TestStepsOfOneScopeFirst(t *testing.T) {
	t.Parallel()
	var specs []grapnel.Spec
	for _, scope := range []grapnel.Scope{grapnel.ScopeSession, grapnel.ScopePlugin, grapnel.ScopeProject, grapnel.ScopeUser, grapnel.ScopeManaged} {
		for _, name := range []string{"1", "2"} {
			specs = append(specs, scoped(name, scope, normal, returns(grapnel.Outcome{})))
		}
	}
	var got []string
	for _, p := range newEngine(t, nil, specs...).Plan(toolEvent("x")).Entries {
		got = append(got, p.Source+p.Hook)
		if p.Step != 1 {
			t.Errorf("%s is in step %d, want 1", p.Hook, p.Step)
		}
	}
	want := []string{
		"managed1", "managed2", "user1", "user2", "project1", "project2", "plugin1", "plugin2", "session1", "session2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("plan order %q, want %q", got, want)
	}
}

func TestChangesOfOneStepAreLaidOverEachOther(t *testing.T) {
	t.Parallel()
	patch := func(text string) grapnel.Outcome {
		return grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(text)}}
	}
	tests := map[string]struct {
		a, b      grapnel.Outcome
		want      string
		conflicts []string // under the preset claude, which asks no hook again
	}{
		"patches":          {patch(`{"a":1}`), patch(`{"b":2}`), `{"command":"x","a":1,"b":2}`, nil},
		"view and patch":   {setCommand("y"), patch(`{"b":2}`), `{"command":"y","b":2}`, nil},
		"same field":       {setCommand("y"), setCommand("z"), `{"command":"z"}`, []string{"tool.command: a and b"}},
		"same value":       {setCommand("y"), setCommand("y"), `{"command":"y"}`, nil},
		"whole then patch": {set(grapnel.FieldInput, `{"command":"y"}`), patch(`{"b":2}`), `{"command":"y","b":2}`, nil},
		"patch then whole": {patch(`{"a":1}`), set(grapnel.FieldInput, `{"command":"y"}`), `{"command":"y"}`, []string{"tool.input: a and b"}},
		"view then whole":  {setCommand("y"), set(grapnel.FieldInput, `{"command":"z"}`), `{"command":"z"}`, []string{"tool.input: a and b"}},
		"illegal one":      {set(grapnel.FieldNext, `1`), set(grapnel.FieldNext, `2`), ``, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, rec := fire(t, toolEvent("x"), step("a", returns(tt.a)), step("b", returns(tt.b)))
			if got := string(v.Changes[grapnel.FieldInput]); got != tt.want {
				t.Errorf("tool.input = %s, want %s", got, tt.want)
			}
			if len(rec.Conflicts) > 0 {
				t.Errorf("conflicts %q", rec.Conflicts)
			}
			var k keeper
			claude := grapnel.Options{Observers: []grapnel.Observer{&k}, Preset: namedPreset(t, "claude")}
			newEngine(t, &claude, step("a", returns(tt.a)), step("b", returns(tt.b))).Fire(t.Context(), toolEvent("x"))
			if !slices.Equal(k.rec.Conflicts, tt.conflicts) {
				t.Errorf("conflicts under the preset claude: %q, want %q", k.rec.Conflicts, tt.conflicts)
			}
		})
	}
}

// TestChangesOfOneStepChain checks that hooks of equal priority run together, and that each of
// them that changes the event sees the changes before it.
func TestChangesOfOneStepChain(t *testing.T) {
	t.Parallel()
	var d diary
	late := func(name string, h grapnel.Hook) grapnel.Spec {
		s := step(name, d.logged(name, h))
		s.Timeout = time.Minute
		return s
	}
	together := make(chan struct{})
	var inside atomic.Int32
	waits := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		if inside.Add(1) == 3 {
			close(together)
		}
		<-together // all three guards are inside at the same time
		return grapnel.Outcome{}, nil
	})
	v, rec := fire(t, toolEvent("x"),
		late("one", appends("1")), late("guard a", waits), late("two", appends("2")), late("guard b", waits), late("guard c", waits), late("three", appends("3")))
	if got := command(t, v); got != "x123" {
		t.Errorf("command %q, want x123", got)
	}
	calls := d.read()
	slices.Sort(calls)
	want := []string{"guard a saw x", "guard b saw x", "guard c saw x", "one saw x", "three saw x", "three saw x12", "two saw x", "two saw x1"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	var runs []string
	for _, r := range rec.Hooks {
		if r.Superseded || len(r.Changed) > 0 {
			runs = append(runs, fmt.Sprintf("%s step %d superseded %v changed %v", r.Name, r.Step, r.Superseded, r.Changed))
		}
	}
	want = []string{
		"one step 1 superseded false changed [tool.command]",
		"two step 1 superseded true changed []", "three step 1 superseded true changed []",
		"two step 2 superseded false changed [tool.command]", "three step 3 superseded false changed [tool.command]",
	}
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// TestHookThatIsAskedAgain checks answers that differ when a hook runs again.
func TestHookThatIsAskedAgain(t *testing.T) {
	t.Parallel()
	onX := func(first, again func() (grapnel.Outcome, error)) grapnel.Hook {
		return grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			if ev.Tool.Commands[0] == "x" {
				return first()
			}
			return again()
		})
	}
	is := func(out grapnel.Outcome, err error) func() (grapnel.Outcome, error) {
		return func() (grapnel.Outcome, error) { return out, err }
	}
	change, with := is(setCommand("z"), nil), func(d grapnel.Decision) func() (grapnel.Outcome, error) {
		out := setCommand("z")
		out.Decision = d
		return is(out, nil)
	}
	matches := step("b", onX(change, change))
	matches.Match = matchFunc(func(ev *grapnel.Event) bool { return ev.Tool.Commands[0] == "x" })
	observes := step("b", onX(change, change))
	observes.Observe = true
	closed := step("b", onX(change, is(grapnel.Outcome{}, errors.New("broken"))))
	closed.OnError = grapnel.OnErrorClosed
	tests := map[string]struct {
		b        grapnel.Spec
		command  string
		decision grapnel.Decision
	}{
		"the same answer":     {step("b", onX(change, change)), "z", grapnel.None},
		"no opinion":          {step("b", onX(change, is(grapnel.Outcome{}, nil))), "y", grapnel.None},
		"a block":             {step("b", onX(change, with(grapnel.Block))), "x", grapnel.Block},
		"a block at once":     {step("b", onX(with(grapnel.Block), is(grapnel.Outcome{}, nil))), "x", grapnel.Block},
		"only the first asks": {step("b", onX(with(grapnel.Ask), change)), "z", grapnel.Ask},
		"an old allow":        {step("b", onX(with(grapnel.Allow), change)), "z", grapnel.None},
		"a new allow":         {step("b", onX(change, with(grapnel.Allow))), "z", grapnel.Allow},
		"an open failure":     {open(step("b", onX(change, is(grapnel.Outcome{}, errors.New("broken"))))), "y", grapnel.None},
		"a closed failure":    {closed, "x", grapnel.Block},
		"another match":       {matches, "y", grapnel.None},
		"observe mode":        {observes, "y", grapnel.None},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, _ := fire(t, toolEvent("x"), step("a", onX(is(setCommand("y"), nil), is(grapnel.Outcome{}, nil))), tt.b)
			got := "x"
			if len(v.Changes) > 0 {
				got = command(t, v)
			}
			if got != tt.command || v.Decision != tt.decision {
				t.Errorf("command %q, decision %v, want %q, %v", got, v.Decision, tt.command, tt.decision)
			}
		})
	}
}

// TestMerges checks that fields with a merge rule other than chain have no conflicts.
func TestMerges(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ev    grapnel.Event
		field grapnel.Field
		a, b  string
		want  string
	}{
		"join to nothing": {grapnel.Event{Kind: grapnel.CompactAfter}, grapnel.FieldSummary, `"one"`, `"two"`, `"one\ntwo"`},
		"join": {
			grapnel.Event{Kind: grapnel.CompactAfter, Compact: &grapnel.Compact{Summary: "zero"}},
			grapnel.FieldSummary, `"one"`, `"two"`, `"zero\none\ntwo"`,
		},
		"intersect": {grapnel.Event{Kind: grapnel.ToolsetBefore}, grapnel.FieldTools, `["a","b"]`, `["c","b"]`, `["b"]`},
		"intersect to nothing": {
			grapnel.Event{Kind: grapnel.ToolsetBefore, Toolset: &grapnel.Toolset{Allowed: []string{"a"}}},
			grapnel.FieldTools, `["b"]`, `["a"]`, `[]`,
		},
		"or": {grapnel.Event{Kind: grapnel.AgentAfter}, grapnel.FieldClear, `true`, `false`, `true`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, rec := fire(t, &tt.ev, step("a", returns(set(tt.field, tt.a))), step("b", returns(set(tt.field, tt.b))))
			if got := string(v.Changes[tt.field]); got != tt.want || rec.Conflicts != nil {
				t.Errorf("%s = %s, conflicts %q, want %s and none", tt.field, got, rec.Conflicts, tt.want)
			}
		})
	}
}

// TestRewriteOfAJoiningField checks that text removed by a rewrite does not remain in a field
// that joins.
func TestRewriteOfAJoiningField(t *testing.T) {
	t.Parallel()
	ev := &grapnel.Event{Kind: grapnel.CompactAfter, Compact: &grapnel.Compact{Summary: "key sk-1"}}
	v, _ := fire(t, ev, rewrite("hide", returns(set(grapnel.FieldSummary, `"key ***"`))))
	if got := v.Event.Compact.Summary; got != "key ***" {
		t.Errorf("summary %q, want the secret gone", got)
	}
	if v, _ = fire(t, ev, rewrite("empty", returns(set(grapnel.FieldSummary, `""`)))); string(v.Changes[grapnel.FieldSummary]) != `""` {
		t.Errorf("changes %s, want an empty summary", v.Changes)
	}
}

func TestBlockEndsTheRemainingSteps(t *testing.T) {
	t.Parallel()
	var d diary
	v, _ := fire(t, toolEvent("x"),
		scoped("first", grapnel.ScopeUser, 1, d.logged("first", returns(grapnel.Outcome{Context: nil}))),
		scoped("no", grapnel.ScopeUser, 2, d.logged("no", decides(grapnel.Block, "no"))),
		scoped("beside", grapnel.ScopeUser, 2, d.logged("beside", appends("!"))),
		scoped("later", grapnel.ScopeManaged, 3, d.logged("later", decides(grapnel.Allow, ""))))
	if diff := cmp.Diff([]string{"first saw x", "no saw x", "beside saw x"}, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if v.Decision != grapnel.Block || v.Changes != nil {
		t.Errorf("decision %v, changes %v: what is blocked is not changed", v.Decision, v.Changes)
	}
}

// TestRuleMayNotChange checks that a rule cannot change fields, because the other rules would not
// have judged the change.
func TestRuleMayNotChange(t *testing.T) {
	t.Parallel()
	v, rec := fire(t, toolEvent("x"), rule("r", appends("!")))
	if command(t, v) != "x" || !strings.Contains(run(t, rec, "r").Error, "a rule's change of tool.command") {
		t.Errorf("command %q, run %+v", command(t, v), run(t, rec, "r"))
	}
	if v.Decision != grapnel.Block { // a rule fails closed
		t.Errorf("decision %v, want block", v.Decision)
	}
}

func TestSecondRound(t *testing.T) {
	t.Parallel()
	var d diary
	quiet := returns(grapnel.Outcome{})
	v, rec := fire(t, toolEvent("x"),
		rewrite("rewrite", d.logged("rewrite", quiet)),
		rule("rule", d.logged("rule", quiet)),
		scoped("managed", grapnel.ScopeManaged, 10, d.logged("managed", quiet)),
		scoped("user", grapnel.ScopeUser, 10, d.logged("user", quiet)),
		scoped("project", grapnel.ScopeProject, 20, d.logged("project", appends("!"))),
		scoped("same", grapnel.ScopeProject, 10, d.logged("same", quiet)),
		scoped("session", grapnel.ScopeSession, 10, d.logged("session", quiet)),
		scoped("late", grapnel.ScopeManaged, 30, d.logged("late", quiet)))
	want := []string{
		"rewrite saw x", "rule saw x", "managed saw x", "user saw x", "same saw x", "session saw x", "project saw x", "late saw x!",
		// The project changed the input after stronger scopes had answered; they run again, the
		// strongest last.
		"rewrite saw x!", "rule saw x!", "user saw x!", "managed saw x!",
	}
	if diff := cmp.Diff(want, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if command(t, v) != "x!" || rec.Hooks[len(rec.Hooks)-1].Round != 2 {
		t.Errorf("command %q, runs %+v", command(t, v), rec.Hooks)
	}
}

// TestSecondRoundAsksGatesThatWerePassedOver checks that a gate that did not match the original
// input judges the input after a weaker scope has changed it.
func TestSecondRoundAsksGatesThatWerePassedOver(t *testing.T) {
	t.Parallel()
	gate := scoped("gate", grapnel.ScopeManaged, 10, decides(grapnel.Block, "no rm"))
	gate.Match = matchCommand("rm")
	v, _ := fire(t, toolEvent("ls"), gate, scoped("project", grapnel.ScopeProject, 20, returns(setCommand("rm"))))
	if v.Decision != grapnel.Block {
		t.Errorf("decision %v: a project changed the command behind a managed gate", v.Decision)
	}
}

type matchCommand string

func (m matchCommand) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) {
	return ev.Tool != nil && slices.Contains(ev.Tool.Commands, string(m)), nil
}

// TestRewritesOfTheStrongestLast checks that a project cannot restore data that the user's policy
// removed, regardless of priority.
func TestRewritesOfTheStrongestLast(t *testing.T) {
	t.Parallel()
	user := rewrite("user", returns(setCommand("terraform plan")))
	user.Match = matchCommand("terraform apply")
	project := rewrite("project", returns(setCommand("terraform apply")))
	project.Source = grapnel.Source{Name: "project", Scope: grapnel.ScopeProject}
	for _, priority := range []int{1, 100, 1000} {
		project.Priority = priority - normal
		v, _ := fire(t, toolEvent("terraform apply"), user, project)
		if got := v.Event.Tool.Commands[0]; got != "terraform plan" {
			t.Errorf("with priority %d a project made the command %q", priority, got)
		}
	}
}

// TestSecondRoundStrongestLast checks that changes of a gate in the second round pass through the
// rewrites of its scope and all rules, and that no weaker scope runs after it.
func TestSecondRoundStrongestLast(t *testing.T) {
	t.Parallel()
	var d diary
	quiet := returns(grapnel.Outcome{})
	managed := rewrite("rewrite", d.logged("managed rewrite", quiet))
	managed.Source = grapnel.Source{Name: "managed", Scope: grapnel.ScopeManaged}
	project := rewrite("rewrite", d.logged("project rewrite", quiet))
	project.Source = grapnel.Source{Name: "project", Scope: grapnel.ScopeProject}
	fire(t, toolEvent("-"), managed, project,
		rule("rule", d.logged("rule", quiet)),
		scoped("m", grapnel.ScopeManaged, 10, d.logged("m", appends("m"))),
		scoped("u", grapnel.ScopeUser, 20, d.logged("u", appends("u"))),
		scoped("p", grapnel.ScopeProject, 30, d.logged("p", appends("p"))))
	want := []string{
		"project rewrite saw -", "managed rewrite saw -", "rule saw -", "m saw -", "u saw -m", "p saw -mu",
		"project rewrite saw -mup", "managed rewrite saw -mup", "rule saw -mup",
		"u saw -mup", "m saw -mupu", "managed rewrite saw -mupum", "rule saw -mupum",
	}
	if diff := cmp.Diff(want, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNoSecondRoundWithoutNetChange(t *testing.T) {
	t.Parallel()
	var d diary
	v, rec := fire(t, toolEvent("x"),
		rule("rule", d.logged("rule", returns(grapnel.Outcome{}))),
		scoped("there", grapnel.ScopeUser, 1, returns(setCommand("y"))),
		scoped("back", grapnel.ScopeUser, 2, returns(set(grapnel.FieldInput, `{ "command" : "\u0078" }`))))
	if n := d.count("rule saw x"); n != 1 || len(d.read()) != 1 {
		t.Errorf("the rule was asked %q, want once", d.read())
	}
	if v.Changes != nil || len(rec.Changed) > 0 {
		t.Errorf("changes %v: what cancels out is no change", v.Changes)
	}
	if got := string(v.Event.Tool.Input); got != `{"command":"x"}` {
		t.Errorf("input %s, want the bytes that came", got)
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	allow := decides(grapnel.Allow, "fine")
	allowing := func(out grapnel.Outcome) grapnel.Hook {
		out.Decision = grapnel.Allow
		return returns(out)
	}
	failing := func(onError grapnel.OnError) grapnel.Spec {
		s := scoped("guard", grapnel.ScopeUser, 1, fails(errors.New("broken")))
		s.OnError = onError
		return s
	}
	tests := map[string]struct {
		specs []grapnel.Spec
		want  grapnel.Decision
	}{
		"nobody":            {nil, grapnel.None},
		"no opinion":        {[]grapnel.Spec{step("a", returns(grapnel.Outcome{Reason: "r", Message: "m"}))}, grapnel.None},
		"alone":             {[]grapnel.Spec{step("a", allow)}, grapnel.Allow},
		"by a rule":         {[]grapnel.Spec{rule("a", allow)}, grapnel.Allow},
		"own change":        {[]grapnel.Spec{step("a", allowing(setCommand("y")))}, grapnel.Allow},
		"changed before":    {[]grapnel.Spec{rewrite("r", returns(setCommand("y"))), step("a", allow)}, grapnel.Allow},
		"changed after":     {[]grapnel.Spec{scoped("a", 0, 1, allow), scoped("b", 0, 2, returns(setCommand("y")))}, grapnel.None},
		"changed beside":    {[]grapnel.Spec{scoped("a", 0, 1, allow), scoped("b", 0, 1, returns(setCommand("y")))}, grapnel.None},
		"same change":       {[]grapnel.Spec{scoped("a", 0, 1, allowing(setCommand("y"))), scoped("b", 0, 1, returns(setCommand("y")))}, grapnel.Allow},
		"changed and back":  {[]grapnel.Spec{scoped("a", 0, 1, allow), scoped("b", 0, 2, returns(setCommand("y"))), scoped("c", 0, 3, returns(setCommand("x")))}, grapnel.Allow},
		"allowed the other": {[]grapnel.Spec{scoped("b", 0, 2, returns(setCommand("y"))), scoped("c", 0, 3, allow), scoped("d", 0, 4, returns(setCommand("x")))}, grapnel.None},
		"rule asked again":  {[]grapnel.Spec{rule("a", allow), step("b", returns(setCommand("y")))}, grapnel.Allow},
		"guard failed open": {[]grapnel.Spec{failing(grapnel.OnErrorOpen), scoped("a", 0, 2, allow)}, grapnel.None},
		"guard asks":        {[]grapnel.Spec{failing(grapnel.OnErrorAsk), scoped("a", 0, 2, allow)}, grapnel.Ask},
		"guard closed":      {[]grapnel.Spec{scoped("a", 0, 0, allow), failing(grapnel.OnErrorClosed)}, grapnel.Block},
		"itself failed": {[]grapnel.Spec{open(step("a", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: grapnel.Allow}, errors.New("but")
		})))}, grapnel.None},
		"somebody asks": {[]grapnel.Spec{step("a", allow), step("b", decides(grapnel.Ask, ""))}, grapnel.Ask},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v, rec := fire(t, toolEvent("x"), tt.specs...); v.Decision != tt.want {
				t.Errorf("decision %v, want %v (%+v)", v.Decision, tt.want, rec.Hooks)
			}
		})
	}
}

// TestExpiredAllowHasNoReason checks that the Verdict contains only the reasons of valid Allows.
func TestExpiredAllowHasNoReason(t *testing.T) {
	t.Parallel()
	v, rec := fire(t, toolEvent("x"),
		scoped("stale", 0, 1, decides(grapnel.Allow, "x is fine")),
		scoped("changes", 0, 2, returns(setCommand("y"))),
		scoped("fresh", 0, 3, decides(grapnel.Allow, "y is fine")))
	if v.Decision != grapnel.Allow || v.Reason() != "y is fine" {
		t.Errorf("decision %v, reason %q", v.Decision, v.Reason())
	}
	if !run(t, rec, "stale").Expired || run(t, rec, "fresh").Expired {
		t.Errorf("runs %+v, want the stale one expired", rec.Hooks)
	}
}

func TestHalt(t *testing.T) {
	t.Parallel()
	halt := returns(grapnel.Outcome{Halt: "enough"})
	tests := map[string]struct {
		kind   grapnel.Kind
		specs  []grapnel.Spec
		want   grapnel.Decision
		reason string
		calls  int // calls of the step after the hook
	}{
		"before":            {grapnel.ToolBefore, []grapnel.Spec{scoped("h", 0, 1, halt)}, grapnel.Block, "enough", 0},
		"sticky":            {grapnel.ToolBefore, []grapnel.Spec{rule("h", halt), rule("a", decides(grapnel.Allow, "ok"))}, grapnel.Block, "enough", 0},
		"beside a block":    {grapnel.ToolBefore, []grapnel.Spec{rule("h", halt), rule("b", decides(grapnel.Block, "no"))}, grapnel.Block, "no", 0},
		"feedback":          {grapnel.ToolAfter, []grapnel.Spec{scoped("h", 0, 1, halt)}, grapnel.None, "", 1},
		"feedback, block":   {grapnel.ToolAfter, []grapnel.Spec{scoped("h", 0, 1, halt), scoped("b", 0, 1, decides(grapnel.Block, "no"))}, grapnel.Block, "no", 0},
		"notice":            {grapnel.SessionStart, []grapnel.Spec{scoped("h", 0, 1, halt)}, grapnel.None, "", 1},
		"at a stop":         {grapnel.AgentAfter, []grapnel.Spec{scoped("h", 0, 1, halt)}, grapnel.None, "", 1},
		"at a stop, block":  {grapnel.AgentAfter, []grapnel.Spec{scoped("h", 0, 1, halt), scoped("b", 0, 1, decides(grapnel.Block, "go on"))}, grapnel.None, "", 0},
		"at a stop, later":  {grapnel.AgentAfter, []grapnel.Spec{rule("h", halt), scoped("b", 0, 1, decides(grapnel.Block, "go on"))}, grapnel.None, "", 0},
		"prompt of a child": {grapnel.SubagentStart, []grapnel.Spec{scoped("h", 0, 1, halt)}, grapnel.Block, "enough", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d diary
			v, rec := fire(t, &grapnel.Event{Kind: tt.kind}, append(tt.specs, scoped("after", 0, 9, d.logged("after", returns(grapnel.Outcome{}))))...)
			if v.Decision != tt.want || v.Halt != "enough" || v.Reason() != tt.reason || rec.Halt != "enough" {
				t.Errorf("decision %v, halt %q, reason %q, want %v, enough, %q", v.Decision, v.Halt, v.Reason(), tt.want, tt.reason)
			}
			if n := d.count("after"); n != tt.calls {
				t.Errorf("the step after it ran %d times, want %d", n, tt.calls)
			}
		})
	}
}

func TestIllegalAnswersAreDroppedAndRecorded(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind grapnel.Kind
		out  grapnel.Outcome
		want string
	}{
		"block a notice":    {grapnel.SessionEnd, grapnel.Outcome{Decision: grapnel.Block}, "decision block on session.end"},
		"ask about a stop":  {grapnel.AgentAfter, grapnel.Outcome{Decision: grapnel.Ask}, "decision ask on agent.after"},
		"no decision":       {grapnel.ToolBefore, grapnel.Outcome{Decision: 9}, "decision decision(9) on tool.before"},
		"context":           {grapnel.PermissionBefore, grapnel.Outcome{Context: []string{"c"}}, "context on permission.before"},
		"field":             {grapnel.ToolBefore, set(grapnel.FieldPrompt, `"p"`), "a change of prompt on tool.before"},
		"broken JSON":       {grapnel.ToolBefore, set(grapnel.FieldInput, `{`), "set tool.input: not valid JSON on tool.before"},
		"wrong type":        {grapnel.PromptBefore, set(grapnel.FieldPrompt, `7`), "set prompt: want string, got number on prompt.before"},
		"patch of a field":  {grapnel.ToolBefore, grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldNext: json.RawMessage(`{}`)}}, "a change of tool.next on tool.before"},
		"patch, no JSON":    {grapnel.ToolBefore, grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"a"}`)}}, "patch: not valid JSON on tool.before"},
		"patched to a list": {grapnel.PromptBefore, grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldPrompt: json.RawMessage(`["a"]`)}}, "set prompt: want string, got array on prompt.before"},
		"a native event":    {"native.a.Weather", grapnel.Outcome{Context: []string{"c"}}, "context on native.a.Weather"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := event(tt.kind)
			v, rec := fire(t, ev, open(step("h", returns(tt.out))))
			if v.Decision != grapnel.None || v.Changes != nil || v.Context != nil {
				t.Errorf("the Verdict keeps it: %+v", v)
			}
			r := run(t, rec, "h")
			if want := grapnel.ErrIllegal.Error() + ": " + tt.want; r.Error != want || !r.FailOpen {
				t.Errorf("run %+v, want the error %q, failed open", r, want)
			}
		})
	}

	// The other parts of the answer are still used.
	out := setCommand("y")
	out.Set[grapnel.FieldPrompt], out.Decision = json.RawMessage(`"p"`), grapnel.Ask
	if v, rec := fire(t, toolEvent("x"), open(step("h", returns(out)))); v.Decision != grapnel.Ask || command(t, v) != "y" || run(t, rec, "h").Cause != grapnel.CauseError {
		t.Errorf("an answer with an illegal part: %+v", v)
	}
	// It is an error, so a closed hook blocks. Context in the wrong place is none: the hook decided.
	if v, _ := fire(t, event(grapnel.PermissionBefore), step("h", returns(grapnel.Outcome{Context: []string{"c"}}))); v.Decision != grapnel.None || len(v.Messages) != 1 {
		t.Errorf("illegal context: %+v", v)
	}
	for _, out := range []grapnel.Outcome{set(grapnel.FieldPrompt, `"p"`), {Context: []string{"c"}, Decision: 9}, {Decision: 9}} {
		if v, _ := fire(t, event(grapnel.PermissionBefore), step("h", returns(out))); v.Decision != grapnel.Block {
			t.Errorf("an illegal answer of a step: %+v", v)
		}
	}
	if v, _ := fire(t, toolEvent("x"), rewrite("h", returns(set(grapnel.FieldPrompt, `"p"`)))); v.Decision != grapnel.Block || v.Reasons[0].Cause != grapnel.CauseError {
		t.Errorf("an illegal answer of a closed hook: %+v", v)
	}
}

func TestObserveMode(t *testing.T) {
	t.Parallel()
	observe := func(s grapnel.Spec) grapnel.Spec {
		s.Observe = true
		return s
	}
	loud := setCommand("y")
	loud.Decision, loud.Reason, loud.Message = grapnel.Block, "no", "m"
	loud.Native = map[string]json.RawMessage{"test.x": json.RawMessage(`1`)}
	var d diary
	v, rec := fire(t, toolEvent("x"),
		observe(rewrite("rewrite", returns(setCommand("z")))),
		observe(rule("rule", d.logged("rule", decides(grapnel.Ask, "?")))),
		observe(step("step", d.logged("step", returns(loud)))),
		scoped("after", 0, 200, d.logged("after", returns(grapnel.Outcome{}))))
	if diff := cmp.Diff([]string{"rule saw x", "step saw x", "after saw x"}, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if v.Decision != grapnel.None || v.Changes != nil || v.Reasons != nil || v.Messages != nil || v.Native != nil || command(t, v) != "x" {
		t.Errorf("an observing hook shows in the Verdict: %+v", v)
	}
	if rec.Would != grapnel.Block || rec.Decision != grapnel.None {
		t.Errorf("Record: would %v, decision %v, want block and none", rec.Would, rec.Decision)
	}
	r := run(t, rec, "step")
	if !r.Observed || r.Decision != grapnel.Block || !slices.Equal(r.Changed, []grapnel.Field{grapnel.FieldCommand}) {
		t.Errorf("run %+v, want what it would have done", r)
	}
	if rec.Conflicts != nil {
		t.Errorf("conflicts %q among observing hooks", rec.Conflicts)
	}

	_, rec = fire(t, toolEvent("x"), observe(rule("r", fails(errors.New("broken")))))
	if r := run(t, rec, "r"); rec.Would != grapnel.Block || r.FailOpen || r.Cause != grapnel.CauseError {
		t.Errorf("a failing rule in observe mode: would %v, run %+v, want block: it is closed", rec.Would, r)
	}
	if _, rec = fire(t, toolEvent("x"), observe(step("h", returns(grapnel.Outcome{Halt: "stop"})))); rec.Would != grapnel.Block {
		t.Errorf("a halt in observe mode: would %v, want block", rec.Would)
	}
	allow := step("a", decides(grapnel.Allow, ""))
	if v, _ := fire(t, toolEvent("x"), allow, observe(step("o", fails(errors.New("broken"))))); v.Decision != grapnel.Allow {
		t.Errorf("decision %v: a failure in observe mode took an Allow away", v.Decision)
	}
}

func TestOnErrorDefaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		phase grapnel.Phase
		scope grapnel.Scope
		want  grapnel.Decision
	}{
		{grapnel.PhaseRewrite, grapnel.ScopeUser, grapnel.Block},
		{grapnel.PhaseRewrite, grapnel.ScopeSession, grapnel.Block},
		{grapnel.PhaseRule, grapnel.ScopeProject, grapnel.Block},
		{grapnel.PhaseRule, grapnel.ScopeManaged, grapnel.Block},
		{grapnel.PhaseStep, grapnel.ScopeManaged, grapnel.Block},
		{grapnel.PhaseStep, grapnel.ScopeUser, grapnel.Block},
		{grapnel.PhaseStep, grapnel.ScopeProject, grapnel.Block},
		{grapnel.PhaseStep, grapnel.ScopePlugin, grapnel.Block},
		{grapnel.PhaseStep, grapnel.ScopeSession, grapnel.Block},
		{grapnel.PhaseObserve, grapnel.ScopeManaged, grapnel.None},
	} {
		s := phase(tt.phase, "h", fails(errors.New("broken")))
		s.Source.Scope = tt.scope
		if v, _ := fire(t, toolEvent("x"), s); v.Decision != tt.want {
			t.Errorf("a failing %v of scope %v: %v, want %v", tt.phase, tt.scope, v.Decision, tt.want)
		}
		s.OnError = grapnel.OnErrorOpen
		if v, _ := fire(t, toolEvent("x"), s); v.Decision != grapnel.None {
			t.Errorf("an open %v of scope %v: %v, want none", tt.phase, tt.scope, v.Decision)
		}
	}
	// A Preset keeps the default of its system, for every type of hook.
	for _, preset := range allPresets() {
		for _, hook := range []grapnel.Hook{grapnel.Guard(func(*grapnel.Event) string { panic("no") }), fails(errors.New("broken"))} {
			v := newEngine(t, &grapnel.Options{Preset: preset}, step("h", hook)).Fire(context.Background(), toolEvent("x"))
			if want := preset.Defaults(grapnel.Spec{}).OnError != grapnel.OnErrorOpen; (v.Decision == grapnel.Block) != want {
				t.Errorf("preset %s, %T: %v, want a block %v", preset.String(), hook, v.Decision, want)
			}
		}
	}
}

// TestFailuresAreSeen checks that a failure is shown to the user, in the Record, and as the
// reason of a Block.
func TestFailuresAreSeen(t *testing.T) {
	t.Parallel()
	v, rec := fire(t, toolEvent("x"), open(step("h", fails(errors.New("no network")))))
	if want := []string{`grapnel: hook "h" could not answer, treated as no opinion: no network`}; !slices.Equal(v.Messages, want) {
		t.Errorf("messages %q, want %q", v.Messages, want)
	}
	if r := run(t, rec, "h"); r.Error != "no network" || r.Cause != grapnel.CauseError || !r.FailOpen {
		t.Errorf("run %+v", r)
	}
	v, _ = fire(t, toolEvent("x"), rule("h", fails(errors.New("no network"))))
	want := []grapnel.Reason{{Hook: "h", Text: `hook "h" could not answer: no network`, Cause: grapnel.CauseError}}
	if diff := cmp.Diff(want, v.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestAnswerBesideAnError checks that an Outcome returned with an error is used, and that the
// stricter decision wins.
func TestAnswerBesideAnError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		decision grapnel.Decision
		onError  grapnel.OnError
		want     grapnel.Decision
		cause    grapnel.Cause
	}{
		{grapnel.Block, grapnel.OnErrorOpen, grapnel.Block, grapnel.CauseDecision},
		{grapnel.Block, grapnel.OnErrorAsk, grapnel.Block, grapnel.CauseDecision},
		{grapnel.Ask, grapnel.OnErrorOpen, grapnel.Ask, grapnel.CauseDecision},
		{grapnel.Ask, grapnel.OnErrorClosed, grapnel.Block, grapnel.CauseError},
		{grapnel.Allow, grapnel.OnErrorAsk, grapnel.Ask, grapnel.CauseError},
		{grapnel.None, grapnel.OnErrorClosed, grapnel.Block, grapnel.CauseError},
	} {
		s := step("h", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Decision: tt.decision, Reason: "because"}, errors.New("broken")
		}))
		s.OnError = tt.onError
		v, _ := fire(t, toolEvent("x"), s)
		if v.Decision != tt.want || v.Reasons[0].Cause != tt.cause || !strings.HasPrefix(v.Reason(), "because") {
			t.Errorf("%v beside an error that counts as %v: %v, %+v, want %v, %v", tt.decision, tt.onError, v.Decision, v.Reasons, tt.want, tt.cause)
		}
	}
}

// Proves: OC-06
func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	boom := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { panic("boom") })
	timed := step("timed", boom)
	timed.Timeout = 1 << 40
	v, rec := fire(t, toolEvent("x"), open(step("inline", boom)), open(timed),
		open(grapnel.Spec{Name: "matcher", Match: panics{}, Hook: returns(grapnel.Outcome{})}),
		grapnel.Spec{Name: "observer", Match: panics{}, Phase: grapnel.PhaseObserve, Hook: returns(grapnel.Outcome{})})
	for _, name := range []string{"inline", "timed", "matcher", "observer"} {
		if r := run(t, rec, name); !strings.Contains(r.Error, grapnel.ErrPanic.Error()) || r.Cause != grapnel.CauseError {
			t.Errorf("run %+v, want a panic", r)
		}
	}
	if v.Decision != grapnel.None || len(v.Messages) != 3 {
		t.Errorf("Verdict %+v", v)
	}
}

type panics struct{}

func (panics) Match(*grapnel.Event, *grapnel.Verdict) (bool, error) { panic("no match") }

func TestGoexitIsAnError(t *testing.T) {
	t.Parallel()
	s := rule("h", grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		runtime.Goexit()
		return grapnel.Outcome{}, nil
	}))
	s.Timeout = 1 << 40
	v, rec := fire(t, toolEvent("x"), s)
	if r := run(t, rec, "h"); v.Decision != grapnel.Block || r.Error != "ended its goroutine without an answer" {
		t.Errorf("decision %v, run %+v", v.Decision, r)
	}
}

// TestMatcherError checks that an error of a Matcher is a failure of its hook.
func TestMatcherError(t *testing.T) {
	t.Parallel()
	s := rule("h", decides(grapnel.Allow, ""))
	s.Match = brokenMatcher{}
	v, rec := fire(t, toolEvent("x"), s)
	if r := run(t, rec, "h"); v.Decision != grapnel.Block || r.Error != "cannot check whether the hook listens: bad pattern" {
		t.Errorf("decision %v, run %+v", v.Decision, r)
	}
}

type matchFunc func(ev *grapnel.Event) bool

func (m matchFunc) Match(ev *grapnel.Event, _ *grapnel.Verdict) (bool, error) { return m(ev), nil }

type brokenMatcher struct{}

func (brokenMatcher) Match(*grapnel.Event, *grapnel.Verdict) (bool, error) {
	return true, errors.New("bad pattern")
}

func TestReasonsAndContext(t *testing.T) {
	t.Parallel()
	ev := &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{Text: "p"}}
	hook := func(d grapnel.Decision, reason string, context ...string) grapnel.Hook {
		return returns(grapnel.Outcome{Decision: d, Reason: reason, Context: context, Message: reason})
	}
	v, _ := fire(t, ev,
		rule("a", hook(grapnel.Block, "same", "one", "two", "")),
		rule("b", hook(grapnel.Block, "same", "two", "three")),
		rule("c", hook(grapnel.Ask, "not the reason of a block")),
		rule("d", hook(grapnel.Block, "other")),
		rule("e", hook(grapnel.Block, "")))
	want := []grapnel.Reason{
		{Hook: "a", Text: "same", Cause: grapnel.CauseDecision},
		{Hook: "d", Text: "other", Cause: grapnel.CauseDecision},
		{Hook: "e", Text: `blocked by hook "e"`, Cause: grapnel.CauseDecision},
	}
	if diff := cmp.Diff(want, v.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if got := v.Reason(); got != "same\nother\nblocked by hook \"e\"" {
		t.Errorf("Reason() = %q", got)
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(v.Context, want) {
		t.Errorf("context %q, want %q", v.Context, want)
	}
	if want := []string{"same", "not the reason of a block", "other"}; !slices.Equal(v.Messages, want) {
		t.Errorf("messages %q, want %q", v.Messages, want)
	}
}

// TestCapsAreVisible checks that truncated text contains a notice and is valid UTF-8.
func TestCapsAreVisible(t *testing.T) {
	t.Parallel()
	out := grapnel.Outcome{
		Decision: grapnel.Block, Reason: strings.Repeat("é", 100), Message: strings.Repeat("m", 100),
		Context: []string{strings.Repeat("c", 100), "more"}, Halt: strings.Repeat("h", 100),
	}
	shared := slices.Clone(out.Context)
	engine := newEngine(t, &grapnel.Options{ReasonLimit: 11, ContextLimit: 20}, rule("a", returns(out)), rule("b", decides(grapnel.Block, "second")))
	v := engine.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore})
	if want := "ééééé… [grapnel: 190 more bytes cut] [grapnel: 1 more texts cut]"; v.Reason() != want {
		t.Errorf("reason %q, want %q", v.Reason(), want)
	}
	if want := "cccccccccccccccccccc… [grapnel: 80 more bytes cut] [grapnel: 1 more texts cut]"; len(v.Context) != 1 || v.Context[0] != want {
		t.Errorf("context %q, want %q", v.Context, want)
	}
	if want := "hhhhhhhhhhh… [grapnel: 89 more bytes cut]"; v.Halt != want {
		t.Errorf("halt %q, want %q", v.Halt, want)
	}
	if want := "mmmmmmmmmmm… [grapnel: 89 more bytes cut]"; v.Messages[0] != want {
		t.Errorf("message %q, want %q", v.Messages[0], want)
	}
	if !slices.Equal(shared, out.Context) {
		t.Errorf("capping changed the hook's own context: %.40q", out.Context)
	}
	if v := newEngine(t, &grapnel.Options{ReasonLimit: -1}, rule("a", returns(out))).Fire(context.Background(), toolEvent("x")); v.Reason() != out.Reason {
		t.Errorf("a negative limit is the default: reason %q", v.Reason())
	}
}

func TestNative(t *testing.T) {
	t.Parallel()
	native := func(value string, keys ...string) grapnel.Hook {
		out := grapnel.Outcome{Native: map[string]json.RawMessage{}}
		for _, key := range keys {
			out.Native[key] = json.RawMessage(value)
		}
		return returns(out)
	}
	v, rec := fire(t, toolEvent("x"), step("a", native("1", "test.color", "other.color")), step("b", native("2", "test.color", "other.color", "testing.x")))
	if len(v.Native) != 1 || string(v.Native["test.color"]) != "2" {
		t.Errorf("native %s, want the last test.color only", v.Native)
	}
	want := []string{"other.color: only valid for another agent", "testing.x: only valid for another agent"}
	if !slices.Equal(v.Unsupported, want) || !slices.Equal(rec.Unsupported, want) {
		t.Errorf("lost %q, want %q", v.Unsupported, want)
	}
}

// TestFail checks that the failure modes of the hooks decide about an unreadable event.
func TestFail(t *testing.T) {
	t.Parallel()
	unread := errors.New("not JSON")
	hook := func(name string, onError grapnel.OnError, kinds ...grapnel.Kind) grapnel.Spec {
		return grapnel.Spec{Name: name, On: kinds, OnError: onError, Tools: []string{"shell"}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			t.Errorf("hook %s was called", name)
			return grapnel.Outcome{}, nil
		})}
	}
	const open, closed, ask = grapnel.OnErrorOpen, grapnel.OnErrorClosed, grapnel.OnErrorAsk
	tests := map[string]struct {
		kind  grapnel.Kind
		specs []grapnel.Spec
		want  grapnel.Decision
	}{
		"nobody":            {grapnel.ToolBefore, nil, grapnel.None},
		"open":              {grapnel.ToolBefore, []grapnel.Spec{hook("a", open)}, grapnel.None},
		"closed":            {grapnel.ToolBefore, []grapnel.Spec{hook("a", open), hook("b", closed)}, grapnel.Block},
		"ask":               {grapnel.ToolBefore, []grapnel.Spec{hook("a", ask, grapnel.ToolBefore)}, grapnel.Ask},
		"other kind":        {grapnel.ToolBefore, []grapnel.Spec{hook("a", closed, grapnel.PromptBefore)}, grapnel.None},
		"fails open":        {grapnel.AgentAfter, []grapnel.Spec{hook("a", closed)}, grapnel.None},
		"unknown, open":     {"", []grapnel.Spec{hook("a", open)}, grapnel.None},
		"unknown, closed":   {"", []grapnel.Spec{hook("a", closed, grapnel.PromptBefore)}, grapnel.Block},
		"unknown, any":      {"", []grapnel.Spec{hook("a", closed)}, grapnel.Block},
		"unknown, a notice": {"", []grapnel.Spec{hook("a", closed, grapnel.SessionEnd, grapnel.AgentAfter)}, grapnel.None},
		"unknown, nobody":   {"", nil, grapnel.None},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var k keeper
			observed := make(chan grapnel.Decision, 1)
			specs := append(tt.specs, grapnel.Spec{Name: "observer", Phase: grapnel.PhaseObserve, Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				observed <- ev.Verdict().Decision
				return grapnel.Outcome{}, nil
			})})
			engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}}, specs...)
			v := unreadable(context.Background(), engine, &grapnel.Event{Kind: tt.kind}, unread)
			if v.Decision != tt.want || k.rec.Error != "not JSON" {
				t.Errorf("decision %v, Record.Error %q, want %v, not JSON", v.Decision, k.rec.Error, tt.want)
			}
			if tt.want == grapnel.Block && (v.Reasons[0].Cause != grapnel.CauseError || !strings.Contains(v.Reason(), "not JSON")) {
				t.Errorf("reasons %+v", v.Reasons)
			}
			if got := <-observed; got != tt.want {
				t.Errorf("the observing hook saw %v, want %v", got, tt.want)
			}
		})
	}
}

// TestContextDoneBeforeAStep checks that steps that do not start because the firing's time is
// over are failures of their hooks. Rules are cheap and still run.
func TestContextDoneBeforeAStep(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	spent := errors.New("the budget of 3s is spent")
	var k keeper
	var d diary
	closed := scoped("closed", grapnel.ScopeUser, 3, d.logged("closed", returns(grapnel.Outcome{})))
	closed.OnError = grapnel.OnErrorClosed
	engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}},
		rule("rule", d.logged("rule", returns(grapnel.Outcome{}))),
		scoped("slow", grapnel.ScopeUser, 1, grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			cancel(spent)
			return setCommand("y"), nil
		})),
		open(scoped("open", grapnel.ScopeUser, 2, d.logged("open", returns(grapnel.Outcome{})))), closed,
		scoped("never", grapnel.ScopeUser, 4, d.logged("never", returns(grapnel.Outcome{}))))
	v := engine.Fire(ctx, toolEvent("x"))
	if diff := cmp.Diff([]string{"rule saw x"}, d.read()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, name := range []string{"open", "closed"} {
		if r := run(t, k.rec, name); r.Error != "not started: the budget of 3s is spent" || r.Cause != grapnel.CauseError {
			t.Errorf("run %+v", r)
		}
	}
	if v.Decision != grapnel.Block || len(k.rec.Hooks) != 4 {
		t.Errorf("decision %v, runs %+v, want a block by the closed step, which ends the rest", v.Decision, k.rec.Hooks)
	}
}

func TestContextDoneBeforeTheFiring(t *testing.T) {
	t.Parallel()
	spent := errors.New("the budget of 3s is spent")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(spent)
	ask := rule("rule", decides(grapnel.Ask, "sure?"))
	observing := step("step", decides(grapnel.Block, "not started"))
	observing.Observe = true
	for name, tt := range map[string]struct {
		spec grapnel.Spec
		want grapnel.Decision
	}{
		"a Func":      {step("step", decides(grapnel.None, "")), grapnel.Block},
		"a Guard":     {step("step", grapnel.Guard(func(*grapnel.Event) string { return "" })), grapnel.Block},
		"a wrapper":   {step("step", struct{ grapnel.Hook }{grapnel.Guard(func(*grapnel.Event) string { return "" })}), grapnel.Block},
		"open":        {open(step("step", decides(grapnel.Block, "not started"))), grapnel.Ask},
		"with a time": {within(time.Hour, step("step", decides(grapnel.None, ""))), grapnel.Block},
		"observing":   {observing, grapnel.Ask},
	} {
		v := newEngine(t, nil, ask, tt.spec).Fire(ctx, toolEvent("x"))
		if v.Decision != tt.want || !errors.Is(v.Err, spent) || !strings.Contains(v.Err.Error(), `hook "step": not started: `) {
			t.Errorf("%s: %+v, want %v, and an error with the cause", name, v, tt.want)
		}
	}
	var many []grapnel.Spec
	for _, name := range []string{"a", "b", "c"} {
		many = append(many, open(step(name, decides(grapnel.Block, "not started"))))
	}
	if v := newEngine(t, nil, many...).Fire(ctx, toolEvent("x")); v.Err == nil || v.Err.Error() != `hook "a" and 2 more: not started: the budget of 3s is spent` {
		t.Errorf("three hooks that did not run: %v", v.Err)
	}
	// Where a Block prevents nothing, and at a stop, a failure does not block.
	for _, kind := range []grapnel.Kind{grapnel.AgentAfter, grapnel.ToolAfter, grapnel.SessionEnd, grapnel.CompactBefore, grapnel.SubagentStart} {
		if v := newEngine(t, nil, step("step", decides(grapnel.None, ""))).Fire(ctx, event(kind)); v.Decision != grapnel.None || !errors.Is(v.Err, spent) {
			t.Errorf("%s: %+v, want no decision, and the error", kind, v)
		}
	}
}

// Proves: IC-79, OC-05, OC-07
func TestObserversAlways(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		hook grapnel.Spec
		want grapnel.Decision
	}{
		{"nothing", step("h", returns(grapnel.Outcome{})), grapnel.None},
		{"allowed", step("h", decides(grapnel.Allow, "")), grapnel.Allow},
		{"blocked by a rule", rule("h", decides(grapnel.Block, "")), grapnel.Block},
		{"blocked by a step", step("h", decides(grapnel.Block, "")), grapnel.Block},
		{"failed", rule("h", fails(errors.New("broken"))), grapnel.Block},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var k keeper
			seen := make(chan *grapnel.Event, 9)
			late := grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				seen <- ev
				return grapnel.Outcome{Decision: grapnel.Block, Set: setCommand("z").Set}, errors.New("nobody hears this")
			})
			engine := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{&k}}, tt.hook,
				grapnel.Spec{Name: "late", Phase: grapnel.PhaseObserve, Hook: late},
				grapnel.Spec{Name: "blocks only", Phase: grapnel.PhaseObserve, Match: onBlock{}, Hook: late},
				grapnel.Spec{Name: "other tool", Phase: grapnel.PhaseObserve, Tools: []string{"read"}, Hook: late})
			v := engine.Fire(context.Background(), toolEvent("x"))
			if err := engine.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			close(seen)
			n := 0
			for ev := range seen {
				n++
				if ev.Verdict() == nil || ev.Verdict().Decision != tt.want {
					t.Errorf("an observing hook saw the Verdict %+v, want %v", ev.Verdict(), tt.want)
				}
			}
			want := 1
			if tt.want == grapnel.Block {
				want = 2
			}
			if n != want || v.Decision != tt.want || command(t, v) != "x" || k.rec.Decision != tt.want {
				t.Errorf("%d observing hooks ran, want %d; Verdict %+v", n, want, v)
			}
			async := 0
			for _, r := range k.rec.Hooks {
				if r.Async {
					async++
				}
			}
			if async != want {
				t.Errorf("%d runs in the Record are async, want %d", async, want)
			}
		})
	}
}

type onBlock struct{}

func (onBlock) Match(_ *grapnel.Event, v *grapnel.Verdict) (bool, error) {
	return v != nil && v.Decision == grapnel.Block, nil
}

// TestObserverPanics checks that a panic of an Observer affects neither the Verdict nor other
// Observers, and is reported.
func TestObserverPanics(t *testing.T) {
	t.Parallel()
	var k keeper
	bad := grapnel.ObserverFunc(func(context.Context, *grapnel.Record) { panic("disk full") })
	v := newEngine(t, &grapnel.Options{Observers: []grapnel.Observer{bad, &k}}, rule("no", decides(grapnel.Block, "no"))).Fire(context.Background(), toolEvent("x"))
	if v.Decision != grapnel.Block || k.n != 1 {
		t.Errorf("decision %v, the other Observer was told %d times", v.Decision, k.n)
	}
	if want := []string{"grapnel: cannot store a Record: panicked: disk full"}; !slices.Equal(v.Messages, want) {
		t.Errorf("messages %q, want %q", v.Messages, want)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	ev := toolEvent("x")
	ev.Session.ID = "s1"
	_, rec := fire(t, ev, rewrite("r", returns(setCommand("y"))), step("h", decides(grapnel.Ask, "sure?")))
	if rec.ID == "" || rec.Time.IsZero() || rec.Agent != "test" || rec.Session != "s1" || rec.Event != grapnel.ToolBefore || rec.Tool != "bash" {
		t.Errorf("Record %+v", rec)
	}
	if rec.Input.Tool.Commands[0] != "x" || rec.Input.ID != rec.ID || ev.ID != "" {
		t.Errorf("Record.Input %+v, want the event as it came, with the ID", rec.Input)
	}
	if rec.Verdict.Event.ID != rec.ID || !slices.Equal(rec.Changed, []grapnel.Field{grapnel.FieldInput}) {
		t.Errorf("Record.Verdict %+v, changed %q", rec.Verdict, rec.Changed)
	}
	line := encoded(rec)
	var got struct {
		Decision string
		Hooks    []struct{ Name, Decision, Cause string }
	}
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprint([]struct{ Name, Decision, Cause string }{{"r", "none", ""}, {"h", "ask", "decision"}}); got.Decision != "ask" || fmt.Sprint(got.Hooks) != want {
		t.Errorf("JSON %s", line)
	}

	named := toolEvent("x")
	named.ID = "mine"
	if _, rec := fire(t, named); rec.ID != "mine" || rec.Hooks == nil {
		t.Errorf("Record %+v, want the ID that the event brought", rec)
	}
}
