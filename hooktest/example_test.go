package hooktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/hooktest"
)

// t replaces the *testing.T of a test. It prints the message of a test that fails.
var t = &printer{}

type printer struct {
	testing.TB
	dirs []string
}

func (*printer) Helper() {}

func (*printer) Context() context.Context { return context.Background() }

func (*printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (*printer) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (p *printer) TempDir() string {
	dir, err := os.MkdirTemp("", "grapnel-example-")
	if err != nil {
		panic(err)
	}
	p.dirs = append(p.dirs, dir)
	return dir
}

// cleanup removes directories that a test would remove by itself.
func (p *printer) cleanup() {
	for _, dir := range p.dirs {
		_ = os.RemoveAll(dir)
	}
	p.dirs = nil
}

var noForcePush = grapnel.Spec{
	Name: "no-force-push", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"},
	Hook: grapnel.Guard(func(ev *grapnel.Event) string {
		if slices.Contains(ev.Tool.Commands, "git push --force") {
			return "Push a new branch instead."
		}
		return ""
	}),
}

func ExampleBlocks() {
	hooktest.Blocks(t, hooktest.Shell("git push --force"), noForcePush)
	hooktest.Passes(t, hooktest.Shell("git push"), noForcePush)
	// Output:
}

// The failure message shows the event and the hooks, so you need not run the test again.
func ExampleBlocks_failure() {
	ev := hooktest.Shell("git push -f")
	ev.Session = grapnel.Session{}
	hooktest.Blocks(t, ev, noForcePush)
	// Output:
	// got none, want block
	// 	event    {"kind":"tool.before","agent":{"name":"claude-code"},"tool":{"id":"toolu_1","name":"Bash","class":"shell","input":{"command":"git push -f"},"commands":["git push -f"]}}
	// 	verdict  {"decision":"none"}
	// 	hook     no-force-push: no opinion
}

func ExampleChanges() {
	nice := grapnel.Spec{
		Name: "nice", On: []grapnel.Kind{grapnel.ToolBefore}, Tools: []string{"shell"},
		Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Replace(grapnel.FieldCommand, "nice "+ev.Tool.Commands[0])
		}),
	}

	hooktest.Changes(t, hooktest.Shell("make"), hooktest.Shell("nice make"), nice)
	// Output:
}

// Fire returns everything else about an event: here, a guard that cannot answer blocks.
func ExampleFire() {
	guard := grapnel.Spec{
		Name: "guard", On: []grapnel.Kind{grapnel.PromptBefore}, OnError: grapnel.OnErrorClosed,
		Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, errors.New("the list of words is gone")
		}),
	}

	got := hooktest.Fire(t, hooktest.Prompt("hello"), guard)
	fmt.Println(got.Decision, got.Reasons[0].Cause)
	fmt.Println(got.Record.Hooks[0].Error)
	// Output:
	// block error
	// the list of words is gone
}

const houseRules = `
version: 1
hooks:
  - name: no-deploy
    on: tool.before
    match: {command: kubectl apply}
    block: Deploying is for the pipeline.
  - name: production
    on: tool.before
    match: {tool: [write, edit], path: "deploy/prod/**"}
    ask: This changes production. Go on?
  - name: lint
    on: tool.after
    match: {tool: [write, edit], path: "**/*.go"}
    run: golangci-lint run
`

func ExamplePolicy() {
	defer t.cleanup()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte(houseRules), 0o600); err != nil {
		t.Fatal(err)
	}

	engine := hooktest.Policy(t, file, &hooktest.PolicyOptions{Programs: map[string]grapnel.Hook{
		"lint": grapnel.Guard(func(ev *grapnel.Event) string { return ev.Tool.Paths[0].Path + " has an unused variable" }),
	}})

	hooktest.Blocks(t, hooktest.Shell("cd app && sudo kubectl -n prod apply -f app.yaml"), engine)
	hooktest.Passes(t, hooktest.Shell("kubectl get pods"), engine)
	hooktest.Asks(t, hooktest.Write("deploy/prod/app.yaml", "replicas: 0"), engine)

	written := hooktest.After(hooktest.Write("main.go", "package main"), "ok")
	got := hooktest.Blocks(t, written, engine)
	fmt.Println(got.Reason())
	// Output: main.go has an unused variable
}

// The same rule gives a different reply for each of two agents.
func ExampleAgent() {
	defer t.cleanup()
	engine := hooktest.PolicyText(t, houseRules, nil)

	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		payload, err := d.WriteEvent(hooktest.Shell("kubectl apply -f app.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		reply := hooktest.Agent(t, engine, d.Name, string(payload))
		fmt.Printf("exit %d %s", reply.Exit, reply.Stdout)
	}
	// Output:
	// exit 0 {"systemMessage":"grapnel: rule no-deploy blocked this call; a person can allow it with \"grapnel allow\" in another terminal","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Deploying is for the pipeline."}}
	// exit 0 {"systemMessage":"grapnel: rule no-deploy blocked this call; a person can allow it with \"grapnel allow\" in another terminal","decision":"deny","reason":"Deploying is for the pipeline."}
}

// A test of a hook runs the suite, with an event on which the hook has an opinion.
func TestForcePushGuard(t *testing.T) {
	t.Parallel()
	hooktest.TestHook(t, noForcePush, hooktest.Shell("git push --force"))
}

// A test of a dialect runs the suite.
func TestAcme(t *testing.T) {
	t.Parallel()
	hooktest.TestDialect(t, acme, "testdata/acme")
}
