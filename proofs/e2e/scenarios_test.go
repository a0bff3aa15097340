//go:build e2e

package e2e

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
)

// eachAgent runs f for every agent, in parallel within the limit of the harness.
func eachAgent(t *testing.T, f func(t *testing.T, a *agents.Agent)) {
	t.Helper()
	among(t, agents.All, f)
}

// inTwo runs f for the two agents that support and report the most.
func inTwo(t *testing.T, f func(t *testing.T, a *agents.Agent)) {
	t.Helper()
	among(t, []*agents.Agent{agents.ClaudeCode, agents.GeminiCLI}, f)
}

func among(t *testing.T, list []*agents.Agent, f func(t *testing.T, a *agents.Agent)) {
	t.Helper()
	for _, a := range list {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			f(t, a)
		})
	}
}

// Policies of more than one scenario.
const (
	noTouching = `
version: 1
hooks:
  - name: no-touching
    on: tool.before
    match: {command: touch forbidden.txt}
    block: that file belongs to somebody else
`
)

// wantFile checks a file of the project. Empty content means that the file must not exist.
func wantFile(t *testing.T, res verify.Result, name, content string) {
	t.Helper()
	got, exists := res.Files[name]
	switch {
	case content == "" && exists:
		t.Errorf("%s was written, with %q", name, got)
	case content != "" && !exists:
		t.Errorf("%s was not written", name)
	case got != content:
		t.Errorf("%s holds %q, want %q", name, got, content)
	}
}

// withoutCache returns the log without the path of the agents' cache. Gemini CLI sends its own
// path to the model, and by default the path contains the name of Grapnel.
func withoutCache(t *testing.T, l model.Log) model.Log {
	t.Helper()
	cache, err := npm.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	l = slices.Clone(l)
	for i := range l {
		l[i].Body = bytes.ReplaceAll(l[i].Body, []byte(cache), []byte("CACHE"))
	}
	return l
}

// wantJudged checks the number of tool calls that Grapnel judged. Without this check, a call that
// runs could mean that Grapnel was not asked.
func wantJudged(t *testing.T, log records, calls int) {
	t.Helper()
	n := 0
	for _, r := range log {
		if r.Event == "tool.before" {
			n++
		}
	}
	if n != calls {
		t.Errorf("the log has %d records of tool.before, want %d: %+v", n, calls, log)
	}
}

// failed reports whether the log has an error of this hook.
func failed(log records, hook string) bool {
	for _, r := range log {
		for _, h := range r.Hooks {
			if h.Name == hook && h.Error != "" {
				return true
			}
		}
	}
	return false
}

// If the model makes two calls in one answer, only the matching call is blocked.
func TestOneOfTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, noTouching)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("touch forbidden.txt"), g.Write("free.txt", "free\n")),
			model.Answer("all done"),
		)
		wantFile(t, res, "forbidden.txt", "")
		wantFile(t, res, "free.txt", "free\n")
		results := res.Requests.ToolResults()
		if len(results) != 2 || !results[0].IsError || !strings.Contains(results[0].Text, "that file belongs to somebody else") || results[1].IsError {
			t.Errorf("the model was told %+v, want one refusal with the reason and one success", results)
		}
	})
}

// Context of a session start and of a prompt reaches the model.
//
// Proves: GC-02, GC-07
func TestContextReachesTheModel(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: house-rules
    on: session.start
    context: {text: always mind the MARLINSPIKE}
  - name: each-prompt
    on: prompt.before
    context: {text: never forget the BOWLINE}
`)
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
		wantFile(t, res, "free.txt", "free\n")
		for _, marker := range []string{"always mind the MARLINSPIKE", "never forget the BOWLINE"} {
			if !res.Requests.MainRequests().Contains(marker) {
				t.Errorf("the model was not told %q", marker)
			}
		}
	})
}

// Context of a tool call reaches the model, beside no decision, a block and a new input.
func TestContextOfACallReachesTheModel(t *testing.T) {
	t.Parallel()
	able := slices.DeleteFunc(slices.Clone(agents.All), func(a *agents.Agent) bool { return claim(t, a, grapnel.ToolBefore, "context") != verify.Native })
	among(t, able, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: each-call
    on: tool.before
    match: {command: touch free.txt}
    context: {text: mind the CAPSTAN}
  - name: rewrites
    on: tool.before
    match: {command: touch written.txt}
    set: {tool.command: touch rewritten.txt}
  - name: each-rewritten-call
    on: tool.before
    match: {command: touch rewritten.txt}
    context: {text: mind the HAWSER}
`)
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch free.txt")), model.Do(g.Shell("touch written.txt")), model.Answer("all done"))
		for _, file := range []string{"free.txt", "rewritten.txt"} {
			if _, ok := res.Files[file]; !ok {
				t.Errorf("the call that creates %s did not run; files %v", file, res.Files)
			}
		}
		for _, marker := range []string{"mind the CAPSTAN", "mind the HAWSER"} {
			if !res.Requests.MainRequests().Contains(marker) {
				t.Errorf("the model was not told %q", marker)
			}
		}
	})
}

// A blocked prompt does not reach the model. The next prompt in the same world does, so the block
// was the reason.
func TestBlockedPrompt(t *testing.T) {
	t.Parallel()
	able := slices.DeleteFunc(slices.Clone(agents.All), func(a *agents.Agent) bool {
		return claim(t, a, grapnel.PromptBefore, "block") != verify.Native || a == agents.Droid // droid exec does not report prompts
	})
	among(t, able, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: no-secrets
    on: prompt.before
    match: {prompt: /launch code/}
    block: secrets stay out of prompts
`)
		plan := []model.Step{model.Do(g.Shell("echo free > free.txt")), model.Answer("all done")}
		res := g.Run(t, "The launch code is 1234.", plan...)
		if n := len(res.Requests.MainRequests()); n != 0 {
			t.Errorf("%d main requests after a blocked prompt, want none", n)
		}
		// Codex and Qwen Code end such a turn without a message in a run without a user.
		silent := a.ID == agents.Codex.ID || a == agents.QwenCode
		if gotReason := strings.Contains(res.Stdout+res.Stderr, "secrets stay out of prompts"); gotReason == silent {
			t.Errorf("the person was told the reason: %v, want %v:\n%s%s", gotReason, !silent, res.Stdout, res.Stderr)
		}
		wantFile(t, res, "free.txt", "")

		res = g.Run(t, "Do as planned.", plan...)
		wantFile(t, res, "free.txt", "free\n")
	})
}

// If a stop is blocked, the agent continues, with the reason, until the hook allows the stop.
func TestBlockedStopMakesItGoOn(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: tests-first
    on: agent.after
    run: test -e tests.txt || { echo "write the TESTS first" >&2; exit 2; }
`)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Write("code.txt", "code\n")),
			model.Answer("finished"),
			model.Do(g.Write("tests.txt", "tests\n")),
			model.Answer("really finished"),
		)
		wantFile(t, res, "code.txt", "code\n")
		wantFile(t, res, "tests.txt", "tests\n")
		if n := len(res.Requests.MainRequests()); n != 4 {
			t.Errorf("%d main requests, want 4", n)
		}
		if !res.Requests.Contains("write the TESTS first") {
			t.Error("the model was not told why it has to go on")
		}
		if !strings.HasSuffix(res.Answer, "really finished") { // Gemini CLI prints both answers
			t.Errorf("answer %q, want the last one", res.Answer)
		}
	})
}

// The hook ends only after the end of the agent, so the agent cannot have waited for it.
func TestAsyncHookIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: later
    on: tool.after
    match: {tool: shell}
    run: while [ ! -e agent-is-gone ]; do sleep 0.1; done; touch async.txt
    async: true
    timeout: 60s
`)
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
		wantFile(t, res, "free.txt", "free\n")
		wantFile(t, res, "async.txt", "")
		if res.Answer != "all done" {
			t.Errorf("answer %q", res.Answer)
		}
		g.WriteFile(t, "agent-is-gone", "")
		g.AwaitFile(t, "async.txt")
	})
}

func TestRecords(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, noTouching)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("echo free > free.txt")),
			model.Do(g.Shell("touch forbidden.txt")),
			model.Answer("all done"),
		)
		wantFile(t, res, "free.txt", "free\n")
		wantFile(t, res, "forbidden.txt", "")

		log := g.records(t)
		count, ids := map[string]int{}, map[string]bool{}
		var blocked records
		for _, r := range log {
			count[r.Event]++
			ids[r.ID] = true
			if r.Decision == "block" {
				blocked = append(blocked, r)
			}
			if r.Agent != a.ID || r.Session == "" || r.Session != log[0].Session {
				t.Errorf("record %+v: want agent %s and the session of the others", r, a.ID)
			}
		}
		if len(ids) != len(log) {
			t.Errorf("%d records have %d IDs", len(log), len(ids))
		}
		for event, want := range map[string]int{
			"session.start": 1, "prompt.before": 1, "tool.before": 2, "tool.after": 1, "agent.after": 1, "session.end": 1,
		} {
			if count[event] != want {
				t.Errorf("%d records of %s, want %d", count[event], event, want)
			}
		}
		if len(blocked) != 1 || blocked[0].Event != "tool.before" || len(blocked[0].Hooks) != 1 || blocked[0].Hooks[0].Name != "no-touching" {
			t.Errorf("records with a block: %+v, want the one tool.before that no-touching blocked", blocked)
		}
		if t.Failed() {
			t.Logf("log: %+v", log)
		}
	})
}

// No opinion is not the same as allow. Where Claude Code itself would ask, a guard must not
// answer for the user if it has no opinion, only rewrites, or allows less than the call. Gemini
// CLI does not offer such a tool to the model in a run without a user.
func TestNoOpinionIsNotAllow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hook    string // match and action of the hook
		command string
		runs    bool
	}{
		"nothing said":                 {hook: "match: {command: git push}\n    block: not this", command: "touch asked.txt"},
		"rewritten":                    {hook: "match: {command: touch asked.txt}\n    set: {tool.command: touch ./asked.txt}", command: "touch asked.txt"},
		"allowed":                      {hook: "match: {command: touch asked.txt}\n    allow: true", command: "touch asked.txt", runs: true},
		"allowed without the redirect": {hook: "match: {command: echo ran}\n    allow: true", command: "echo ran > asked.txt"},
		"allowed without its neighbor": {hook: "match: {command: touch asked.txt}\n    allow: true", command: "touch asked.txt; touch more.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.ClaudeCode, "version: 1\nhooks:\n  - name: it\n    on: tool.before\n    "+tc.hook+"\n")
			g.Cautious = true
			g.WriteFile(t, "there.txt", "before\n")
			res := g.Run(t, "Do as planned.",
				model.Do(g.Read("there.txt")),
				model.Do(g.Shell(tc.command)),
				model.Answer("all done"),
			)
			if _, ran := res.Files["asked.txt"]; ran != tc.runs {
				t.Errorf("the command ran: %v, want %v", ran, tc.runs)
			}
			results := res.Requests.ToolResults()
			if len(results) != 2 || results[0].IsError || results[1].IsError == tc.runs {
				t.Errorf("the model was told %+v, want what it read, and that the command ran: %v", results, tc.runs)
			}
			wantJudged(t, g.records(t), 2)
		})
	}
}
