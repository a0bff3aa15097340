package hooktest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/hooktest"
	"github.com/grapnel-dev/grapnel/internal/noop"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

const house = `
version: 1
use: [destructive]
hooks:
  - name: no-deploy
    on: tool.before
    match: {command: kubectl apply}
    block: Deploying is for the pipeline.
  - name: prod
    on: tool.before
    match: {tool: write, path: "deploy/prod/**"}
    ask: This changes production. Go on?
  - name: keys
    on: [tool.before, tool.after]
    replace: [{pattern: 'sk-[a-z0-9]{8,}', with: sk-***}]
  - name: check
    on: tool.before
    match: {command: make}
    run: exit 2
`

func TestPolicy(t *testing.T) {
	t.Parallel()
	engine := hooktest.PolicyText(t, house, &hooktest.PolicyOptions{Programs: map[string]grapnel.Hook{
		"check": grapnel.Guard(func(*grapnel.Event) string { return "not today" }),
	}})
	hooktest.Blocks(t, hooktest.Shell("cd app && sudo kubectl -n prod apply -f x.yaml"), engine)
	hooktest.Passes(t, hooktest.Shell("kubectl get pods"), engine)
	hooktest.Asks(t, hooktest.Write("deploy/prod/app.yaml", "replicas: 0"), engine)
	hooktest.Passes(t, hooktest.Write("deploy/test/app.yaml", "replicas: 0"), engine)
	hooktest.Changes(t, hooktest.Shell("echo sk-abcdefgh"), hooktest.Shell("echo sk-***"), engine)
	hooktest.Changes(t, hooktest.After(hooktest.Shell("env"), "KEY=sk-abcdefgh"), hooktest.After(hooktest.Shell("env"), "KEY=sk-***"), engine)
	if f := hooktest.Blocks(t, hooktest.Shell("make"), engine); f.Reason() != "not today" {
		t.Errorf("the program's place is taken by a stub, and the reason is %q", f.Reason())
	}
	if f := hooktest.Fire(t, hooktest.Shell("rm -rf /"), engine); f.Decision < grapnel.Ask {
		t.Errorf("the pack is not in force:\n%v", f)
	}
}

// A project's policy can restrict, but its allow has no effect.
func TestPolicyOfAProject(t *testing.T) {
	t.Parallel()
	const text = "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: make}, allow: true}\n"
	if f := hooktest.Fire(t, hooktest.Shell("make"), hooktest.PolicyText(t, text, nil)); f.Decision != grapnel.Allow {
		t.Errorf("the user's own:\n%v", f)
	}
	hooktest.Passes(t, hooktest.Shell("make"), hooktest.PolicyText(t, text, &hooktest.PolicyOptions{Scope: grapnel.ScopeProject}))
}

// The agent gets the reply of grapnel-hook in its own dialect. A test of cmd/internal/hookcmd
// compares both.
func TestAgent(t *testing.T) {
	t.Parallel()
	engine := hooktest.PolicyText(t, house, nil)
	for agent, want := range map[string]string{
		"claude-code": `{"systemMessage":"grapnel: rule no-deploy blocked this call; a person can allow it with \"grapnel allow\" in another terminal","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Deploying is for the pipeline."}}` + "\n",
		"gemini":      `{"systemMessage":"grapnel: rule no-deploy blocked this call; a person can allow it with \"grapnel allow\" in another terminal","decision":"deny","reason":"Deploying is for the pipeline."}` + "\n",
	} {
		d, _ := dialect.FindAgent(agent)
		payload, err := d.WriteEvent(hooktest.Shell("kubectl apply -f x.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if reply := hooktest.Agent(t, engine, agent, string(payload)); string(reply.Stdout) != want || reply.Exit != 0 {
			t.Errorf("%s gets %s exit %d for %s, want %s", agent, reply.Stdout, reply.Exit, payload, want)
		}
	}
}

// An error in a policy is reported with its place.
func TestPolicyErrors(t *testing.T) {
	t.Parallel()
	program := map[string]grapnel.Hook{"chekc": noop.Hook{}}
	for name, tt := range map[string]struct {
		text string
		opts *hooktest.PolicyOptions
		want string
	}{
		"a typo":     {"version: 1\nhooks:\n  - {name: a, on: tool.befor, block: no}\n", nil, "grapnel.yaml:3:"},
		"no pack":    {"version: 1\nuse: [nosuchpack]\n", nil, "grapnel.yaml:2:"},
		"no program": {house, &hooktest.PolicyOptions{Programs: program}, "no program of a hook chekc"},
	} {
		if got := hooktest.Failure(t, func(t testing.TB) { hooktest.PolicyText(t, tt.text, tt.opts) }); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	absent := filepath.Join(t.TempDir(), "nowhere.yaml")
	if got := hooktest.Failure(t, func(t testing.TB) { hooktest.Policy(t, absent, nil) }); !strings.Contains(got, "the file does not exist") {
		t.Errorf("an absent file: %q", got)
	}
	if got := hooktest.Failure(t, func(t testing.TB) { hooktest.Agent(t, nil, "emacs", "") }); !strings.Contains(got, `no agent "emacs", want one of claude-code`) {
		t.Errorf("no agent: %q", got)
	}
	if _, err := os.Stat(absent); err == nil {
		t.Error("the file is there now")
	}
}

// A test calls no server. A hook from Programs answers in its place; without one the test fails and
// names the fix.
func TestPolicyAsksNoServer(t *testing.T) {
	t.Parallel()
	const asks = "version: 1\nhooks:\n  - {name: company, on: tool.before, http: https://policy.example.com/v1, on_error: closed}\n"
	engine := hooktest.PolicyText(t, asks, &hooktest.PolicyOptions{Programs: map[string]grapnel.Hook{
		"company": grapnel.Guard(func(*grapnel.Event) string { return "the company says no" }),
	}})
	if v := hooktest.Fire(t, hooktest.Shell("ls"), engine); v.Decision != grapnel.Block || v.Reasons[0].Text != "the company says no" {
		t.Errorf("%+v", v)
	}
}

// A test sends nothing to the server of a notify: hook, and this is not a failure. To see the event
// that the server would get, use a hook from Programs.
func TestPolicyTellsNoServer(t *testing.T) {
	t.Parallel()
	const tells = "version: 1\nhooks:\n  - {name: guard, on: tool.before, block: no}\n  - {name: team, on: tool.before, when: 'verdict.decision == \"block\"', notify: https://hooks.example.com}\n"
	heard := make(chan grapnel.Decision, 1)
	engine := hooktest.PolicyText(t, tells, &hooktest.PolicyOptions{Programs: map[string]grapnel.Hook{
		"team": grapnel.Watch(func(_ context.Context, ev *grapnel.Event) { heard <- ev.Verdict().Decision }),
	}})
	hooktest.Blocks(t, hooktest.Shell("ls"), engine)
	if got := <-heard; got != grapnel.Block {
		t.Errorf("the team hears of %v", got)
	}
	hooktest.Blocks(t, hooktest.Shell("ls"), hooktest.PolicyText(t, tells, nil))
}

// Test files also run as tests in Go.
func TestPoliciesOfFiles(t *testing.T) {
	t.Parallel()
	hooktest.TestPolicies(t, "testdata/policies")
}

// A failed test reports its place in the file and the result.
func TestPoliciesFail(t *testing.T) {
	t.Parallel()
	file, errs := policytest.Parse("testdata/policies/house_test.yaml", []byte("version: 1\ntests:\n  - {command: git push, want: block}\n"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	results, err := policytest.Run(t.Context(), file.Tests, nil)
	if err != nil || len(results) != 1 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	got := hooktest.Failure(t, func(t testing.TB) { hooktest.Passed(t, &results[0]) })
	for _, want := range []string{"testdata/policies/house_test.yaml:3: git push (claude-code)", "decision: got none, want block", `"commands":["git push"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}
