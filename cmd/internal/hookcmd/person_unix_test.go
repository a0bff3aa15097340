//go:build linux || darwin

package hookcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/consent"
	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
	"github.com/grapnel-dev/grapnel/local"
)

// An agent that runs these tests is no agent whose question a person sees.
func TestMain(m *testing.M) {
	ancestor.Runner = "hookcmd.test"
	if err := os.Unsetenv("CLAUDE_CODE_ENTRYPOINT"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const personPolicy = `version: 1
hooks:
  - {name: fix, on: tool.before, replace: [{pattern: "--forec", with: "--force"}]}
  - {name: ask-push, on: tool.before, match: {command: git push}, ask: Push now?, approve: {within: 10m}}
  - {name: no-main, on: tool.before, match: {command: git push origin main}, block: Not to main.}
`

// placed returns a root with a policy, and its place.
func placed(t *testing.T, policy string) (root string, place local.Place) {
	t.Helper()
	root = rootWith(t, policy)
	place, err := local.Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	return root, place
}

// asking starts the hook program with a call, and returns the request that it stores and a function
// that waits for its reply.
func asking(t *testing.T, place local.Place, args []string, payload []byte) (*approval.Request, func() programResult) {
	t.Helper()
	known, _ := place.Approvals().Requests()
	replies := make(chan programResult, 1)
	go func() { replies <- program(args, payload) }()
	var asked *approval.Request
	await.Until(t, "a request", func() bool {
		all, _ := place.Approvals().Requests()
		for i := range all {
			if r := &all[i]; !slices.ContainsFunc(known, func(k approval.Request) bool { return k.ID == r.ID }) {
				asked = r
			}
		}
		return asked != nil
	})
	return asked, func() programResult { t.Helper(); return await.Receive(t, "the reply", replies) }
}

// answers answers a request as a person does.
func answers(t *testing.T, place local.Place, r *approval.Request, state approval.State, change func(*approval.Grant)) {
	t.Helper()
	a := &approval.Answer{State: state, By: "ada", Reason: "the tests are red", Time: time.Now()}
	if state == approval.Approved {
		g, err := r.Yes("ada", "", false, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(g)
		}
		a.Grant = g
	}
	if _, first, err := place.Approvals().Answer(r.ID, a); err != nil || !first {
		t.Fatalf("Answer: %v, %v", first, err)
	}
}

// A person's answer releases the call that waits, with a daemon as without.
func TestPersonAnswers(t *testing.T) {
	t.Parallel()
	ways := map[string][]programResult{}
	for _, way := range []string{"program", "daemon"} {
		root, place := placed(t, personPolicy)
		if way == "daemon" {
			listen(t, root)
		}
		args := []string{"claude-code", "--root", root}
		for command, tt := range map[string]struct {
			state approval.State
			want  string
		}{
			"git push --force": {approval.Approved, `"permissionDecision":"allow"`},
			"git push --tags":  {approval.Denied, "ada denied this call: the tests are red. Do not try"},
		} {
			r, reply := asking(t, place, args, bash("s", command))
			if !strings.Contains(string(r.Line), `"command":"`+command+`"`) || r.Question != "Push now?" || r.Changed || r.Scope.Session != "s" || len(r.Hooks) != 1 {
				t.Errorf("%s: the request is %+v", way, r)
			}
			answers(t, place, r, tt.state, nil)
			got := reply()
			if !strings.Contains(got.Stdout, tt.want) || got.Exit != 0 {
				t.Errorf("%s: %s: %+v, want %s", way, tt.state, got, tt.want)
			}
			ways[way] = append(ways[way], got)
		}
		// The same denied call is denied again without a question, and a yes has one use.
		if got := program(args, bash("s", "git push --tags")); !strings.Contains(got.Stdout, "ada denied this call") {
			t.Errorf("%s: the denied call again: %+v", way, got)
		}
		again, reply := asking(t, place, args, bash("s", "git push --force"))
		answers(t, place, again, approval.Denied, nil)
		if got := reply(); !strings.Contains(got.Stdout, "ada denied") {
			t.Errorf("%s: the approved call again: %+v", way, got)
		}
	}
	for _, list := range ways {
		slices.SortFunc(list, func(a, b programResult) int { return strings.Compare(a.Stdout, b.Stdout) })
	}
	if diff := cmp.Diff(ways["program"], ways["daemon"]); diff != "" {
		t.Errorf("(-program +daemon)\n%s", diff)
	}
}

// The person sees the input after all changes, and the yes is for that. What a hook blocks, no
// person is asked about. The Records name the request, the grant and the hooks.
func TestPersonSeesTheFinalInput(t *testing.T) {
	t.Parallel()
	root, place := placed(t, personPolicy)
	args := []string{"claude-code", "--root", root}
	if got := program(args, bash("s", "git push origin main")); !strings.Contains(got.Stdout, "Not to main.") {
		t.Errorf("a blocked call: %+v", got)
	}
	r, reply := asking(t, place, args, bash("s", "git push --forec --token ghp_"+strings.Repeat("a", 36)))
	if !r.Changed || !strings.Contains(string(r.Line), "--force ") || strings.Contains(string(r.Line), "--forec") || strings.Contains(string(r.Line), "aaaaaa") {
		t.Errorf("the person sees %s", r.Line)
	}
	answers(t, place, r, approval.Approved, nil)
	if got := reply(); !strings.Contains(got.Stdout, `"allow"`) || !strings.Contains(got.Stdout, "--force ") {
		t.Errorf("the changed call: %+v", got)
	}
	var kinds []string
	for e, err := range spool.Read(place.State, spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, fmt.Sprintf("%s %v", e.Record.Event, e.Decision))
		if e.ID == r.Record && (e.Approval != r.ID || e.Hooks[1].Approved != grapnel.Ask) {
			t.Errorf("the Record of the call: %+v", e.Record)
		}
	}
	if want := []string{"tool.before block", "native.grapnel.Ask none", "tool.before allow"}; !slices.Equal(kinds, want) {
		t.Errorf("Records %q, want %q", kinds, want)
	}
}

// A grant of another call, session or policy, an old or a revoked one, lets nothing pass.
func TestPersonForged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(place local.Place, g *approval.Grant){
		"another call":    func(_ local.Place, g *approval.Grant) { g.Digest = strings.Repeat("0", 64) },
		"another session": func(_ local.Place, g *approval.Grant) { g.Scope.Session = "t" },
		"another policy":  func(_ local.Place, g *approval.Grant) { g.Policy = strings.Repeat("0", 64) },
		"another hook":    func(_ local.Place, g *approval.Grant) { g.Hooks = []string{"other"} },
		"not yet":         func(_ local.Place, g *approval.Grant) { g.Since = g.Since.Add(time.Hour) },
		"over":            func(_ local.Place, g *approval.Grant) { g.Until = g.Since },
		"too long":        func(_ local.Place, g *approval.Grant) { g.Until = g.Since.Add(25 * time.Hour) },
		"used":            func(p local.Place, g *approval.Grant) { p.Approvals().Use(g, "another event") },
		"revoked":         func(p local.Place, g *approval.Grant) { _ = p.Approvals().Revoke(g) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, place := placed(t, personPolicy)
			r, reply := asking(t, place, []string{"claude-code", "--root", root}, bash("s", "git push"))
			answers(t, place, r, approval.Approved, func(g *approval.Grant) { change(place, g) })
			if got := reply(); !strings.Contains(got.Stdout, `"deny"`) || !strings.Contains(got.Stdout, "no longer valid") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A yes to a question of a policy that has changed meanwhile does not count: the new policy judges
// the call.
func TestPersonPolicyChanged(t *testing.T) {
	t.Parallel()
	root, place := placed(t, personPolicy)
	args, payload := []string{"claude-code", "--root", root}, bash("s", "git push")
	r, reply := asking(t, place, args, payload)
	before := time.Now().Add(-time.Minute) // a change takes effect when the file has settled
	if err := errors.Join(os.WriteFile(place.Policy, []byte(strings.Replace(personPolicy, "git push origin main", "git push", 1)), 0o600), os.Chtimes(place.Policy, before, before)); err != nil {
		t.Fatal(err)
	}
	answers(t, place, r, approval.Approved, nil)
	if got := reply(); !strings.Contains(got.Stdout, `"deny"`) || !strings.Contains(got.Stdout, "the policies have changed since the question") {
		t.Errorf("%+v", got)
	}
	if got := program(args, payload); !strings.Contains(got.Stdout, "Not to main.") {
		t.Errorf("the retry: %+v", got)
	}
}

// A grant that names a policy is valid under this policy only.
func TestGrantOfAPolicy(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"program", "daemon"} {
		root, place := placed(t, approvalPolicy)
		if way == "daemon" {
			listen(t, root)
		}
		args, payload := []string{"claude-code", "--root", root}, bash("s", "make all")
		program(args, payload)
		var digest string
		engine, err := local.Open(t.Context(), &local.Options{Place: &place})
		if err == nil {
			digest = engine.Set.Digest()
		}
		for policy, passes := range map[string]bool{strings.Repeat("0", 64): false, digest: true} {
			g := allowed(t, place, payload, "no-make", "ask-make")
			g.Policy = policy
			if err := place.Approvals().Add(g); err != nil {
				t.Fatal(err)
			}
			if got := program(args, payload); (got.Stdout == "") != passes {
				t.Errorf("%s: with a grant of %.8s, %+v, want passes %v", way, policy, got, passes)
			}
		}
	}
}

// "grapnel allow" at another terminal stores a grant without an answer. It releases the call, too.
func TestPersonAllowsElsewhere(t *testing.T) {
	t.Parallel()
	root, place := placed(t, personPolicy)
	payload := bash("s", "git push")
	r, reply := asking(t, place, []string{"claude-code", "--root", root}, payload)
	allowed(t, place, payload, "ask-push")
	if got := reply(); !strings.Contains(got.Stdout, `"allow"`) {
		t.Errorf("%+v", got)
	}
	if now, err := place.Approvals().Request(r.ID); err != nil || now.Answer == nil || now.Answer.State != approval.Approved {
		t.Errorf("the request is %+v, %v", now, err)
	}
}

// If the agent cannot wait as long as the person may take, its model must retry the call, which then
// passes once. A request is not repeated for a retry.
func TestPersonPending(t *testing.T) {
	t.Parallel()
	root, place := placed(t, personPolicy)
	if err := installation.Write(place.Installs(), installation.Record{
		ID: strings.Repeat("a", 26), Agent: "claude-code", Scope: "user", Program: "/bin/grapnel-hook", Root: root, TimeoutMS: 3100, Events: []string{"PreToolUse"},
	}); err != nil {
		t.Fatal(err)
	}
	args, payload := []string{"claude-code", "--root", root}, bash("s", "git push")
	r, reply := asking(t, place, args, payload)
	for range 2 {
		if got := reply(); !strings.Contains(got.Stdout, `"deny"`) || !strings.Contains(got.Stdout, "(request "+r.ID+")") {
			t.Fatalf("%+v", got)
		}
		got := program(args, payload)
		reply = func() programResult { return got }
	}
	if all, err := place.Approvals().Requests(); err != nil || len(all) != 1 {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	answers(t, place, r, approval.Approved, nil)
	if got := program(args, bash("another", "git push")); !strings.Contains(got.Stdout, `"deny"`) {
		t.Errorf("another session: %+v", got)
	}
	if got := program(args, payload); !strings.Contains(got.Stdout, `"allow"`) {
		t.Errorf("the retry: %+v", got)
	}
	if got := program(args, payload); strings.Contains(got.Stdout, `"allow"`) {
		t.Errorf("the second retry: %+v", got)
	}
}

// The reply precedes the agent's timeout. Without an answer it is a block, the agent's own
// question, or a request to retry.
func TestPersonTimes(t *testing.T) {
	t.Parallel()
	const block, question, retry = "is blocked. Silence is not consent", "", "retry exactly the same call"
	for name, tt := range map[string]struct {
		agent    string
		within   string
		other    string // without an answer
		timeout  time.Duration
		terminal bool
		want     string
		after    time.Duration
		state    approval.State
	}{
		"expired":                {"claude-code", "10m", "block", time.Hour, false, block, 10 * time.Minute, approval.Expired},
		"expired, asks":          {"claude-code", "10m", "ask", time.Hour, false, question, 10 * time.Minute, approval.Handed},
		"cannot ask":             {"codex", "10m", "ask", time.Hour, false, question, 10 * time.Minute, approval.Expired},
		"short timeout":          {"claude-code", "10m", "block", 8 * time.Second, false, retry, 5 * time.Second, ""},
		"no installation":        {"claude-code", "10m", "block", 0, false, retry, 57 * time.Second, ""},
		"OpenClaw":               {"openclaw", "10m", "block", time.Hour, false, retry, 12 * time.Second, ""},
		"at a terminal":          {"claude-code", "10m", "block", time.Hour, true, question, 20 * time.Second, approval.Handed},
		"at a terminal, no ask":  {"codex", "10m", "block", time.Hour, true, block, 10 * time.Minute, approval.Expired},
		"at a terminal, shortly": {"claude-code", "10s", "block", time.Hour, true, question, 10 * time.Second, approval.Handed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, place := placed(t, "version: 1\nhooks:\n  - {name: ask-push, on: tool.before, match: {command: git push}, ask: Push now?, approve: {within: "+tt.within+", else: "+tt.other+"}}\n")
			if tt.timeout > 0 {
				if err := installation.Write(place.Installs(), installation.Record{
					ID: strings.Repeat("a", 26), Agent: tt.agent, Scope: "user", Program: "/bin/grapnel-hook", Root: root, TimeoutMS: tt.timeout.Milliseconds(),
				}); err != nil {
					t.Fatal(err)
				}
			}
			d, _ := dialect.Find(tt.agent)
			payload := bash("s", "git push")
			if tt.agent == "openclaw" {
				payload = []byte(`{"hook":"before_tool_call","event":{"toolName":"exec","params":{"command":"git push"},"toolCallId":"c"},"ctx":{"sessionId":"s1","workspaceDir":"/"}}`)
			}
			got := dialect.Receive(d, dialect.Input{Payload: payload})
			got.Event.ID = "e1"
			synctest.Test(t, func(t *testing.T) {
				engine, err := local.Open(t.Context(), &local.Options{Place: &place})
				if err != nil {
					t.Fatal(err)
				}
				sp, err := spool.Open(place.State, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer sp.Close()
				inv := &invocation{root: root}
				inv.watch = newWatchdog(inv, d, false)
				f := &firing{set: &engine.Set, spool: sp, keep: spooled{sp}, watch: inv.watch, policies: sync.OnceValue(engine.Set.Digest)}
				p := &person{place, got, inv, f, &local.Options{Place: &place}}
				begun := time.Now()
				id, out := p.asker(tt.terminal).Ask(t.Context(), got.Event, []grapnel.HookRun{{Name: "ask-push", Source: place.Policy, Decision: grapnel.Ask}})
				took := time.Since(begun)
				if id != "" || !strings.Contains(out.Reason, tt.want) || (out.Reason == "") != (tt.want == "") {
					t.Errorf("Ask = %q, %+v; want %q", id, out, tt.want)
				}
				if took < tt.after || took > tt.after+poll {
					t.Errorf("after %v, want %v", took, tt.after)
				}
				if limit := inv.watch.limit(); limit <= took || limit > took+consent.Margin {
					t.Errorf("the watchdog replies after %v, and the person's time ends after %v", limit, took)
				}
				all, err := place.Approvals().Requests()
				if err != nil || len(all) != 1 || (all[0].Answer == nil) != (tt.state == "") || all[0].Answer != nil && all[0].Answer.State != tt.state {
					t.Errorf("requests %+v, %v", all, err)
				}
			})
		})
	}
}

const poll = 20 * time.Millisecond

// A canceled wait, for example because the agent ended, leaves a request that a retry continues.
func TestPersonCanceled(t *testing.T) {
	t.Parallel()
	root, place := placed(t, personPolicy)
	payload := bash("s", "git push")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan dialect.Reply, 1)
	go func() {
		reply, _ := answer(ctx, invocation{root: root}, dialect.ClaudeCode(), dialect.Input{Payload: payload}, place, nil)
		done <- reply
	}()
	await.Until(t, "a request", func() bool { all, _ := place.Approvals().Requests(); return len(all) == 1 })
	cancel()
	if got := await.Receive(t, "the reply", done); !strings.Contains(string(got.Stdout), `"deny"`) {
		t.Errorf("%s", got.Stdout)
	}
	all, err := place.Approvals().Requests()
	if err != nil || len(all) != 1 || !all[0].Open(time.Now()) || time.Now().Before(all[0].Waits) {
		t.Errorf("%+v, %v", all, err)
	}
	answers(t, place, &all[0], approval.Approved, nil)
	if got := program([]string{"claude-code", "--root", root}, payload); !strings.Contains(got.Stdout, `"allow"`) {
		t.Errorf("the retry: %+v", got)
	}
}

// A daemon answers the events about which no person is asked, also if hooks change events. If a
// person is asked about a changed event, the hook program asks.
func TestDaemonBesidePerson(t *testing.T) {
	t.Parallel()
	root, place := placed(t, personPolicy+"  - {name: swap, on: tool.before, replace: [{pattern: \"git --force push\", with: git push --force}]}\n")
	daemon := listen(t, root)
	args := []string{"claude-code", "--root", root}
	if got := program(args, bash("s", "go test --forec")); !strings.Contains(got.Stdout, "--force") {
		t.Errorf("%+v", got)
	}
	if n := kept(daemon); n != 1 {
		t.Errorf("the daemon stored %d Records, want 1", n)
	}
	for _, command := range []string{"git push --forec", "git --forec push --tags"} { // the second one is asked about after the change only
		r, reply := asking(t, place, args, bash("s", command))
		answers(t, place, r, approval.Denied, nil)
		if got := reply(); !strings.Contains(got.Stdout, "ada denied") || kept(daemon) != 1 {
			t.Errorf("%s: %+v; the daemon stored %d Records", command, got, kept(daemon))
		}
	}
}

func kept(l *listening) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}
