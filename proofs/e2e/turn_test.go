//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// A hook that always blocks and a model that does not react do not keep each other busy forever.
// Each stop is judged by another process, so the count is on disk.
func TestStopIsBlockedEightTimesInARow(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: never-content
    on: agent.after
    block: it is not DONE yet
`)
		res := g.Run(t, "Do as planned.", model.Answer("finished"))
		if n := len(res.Requests.MainRequests()); n != 9 {
			t.Errorf("%d main requests, want the first and one for each of 8 blocked stops", n)
		}
		if !res.Requests.Contains("it is not DONE yet") {
			t.Error("the model was not told why it has to go on")
		}
		if !strings.HasSuffix(res.Answer, "finished") {
			t.Errorf("answer %q, want that of the model", res.Answer)
		}
		if want := "hooks prevented the agent from stopping 8 times in a row"; !strings.Contains(res.Shown, want) {
			t.Errorf("the person was not told %q:\n%s", want, res.Shown)
		}

		stops := g.records(t).of("agent.after")
		want := append(slices.Repeat([]string{"block"}, 8), "none")
		if got := stops.decisions(); !slices.Equal(got, want) {
			t.Fatalf("the stops were decided as %v, want %v", got, want)
		}
		for i, r := range stops {
			if len(r.Hooks) != 1 || r.Hooks[0].Decision != "block" {
				t.Errorf("record %d of a stop does not say that the hook blocked it: %+v", i, r)
			}
		}
		if unsupported := strings.Join(stops[8].Unsupported, ""); !strings.Contains(unsupported, "block: not sent") {
			t.Errorf("the log does not say why the ninth block was lifted: %q", unsupported)
		}
		if status := g.grapnel(t, "status"); !strings.Contains(status, "8 block") {
			t.Errorf("the status does not count 8 blocks:\n%s", status)
		}
	})
}

// A halt ends the turn. Before a tool, it also blocks the call.
func TestHaltEndsTheTurn(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		on       string
		ran      bool   // whether the call runs
		requests int    // requests to the model
		answer   string // the agent's last words
		decision string // of the halted event
	}{
		{on: "tool.before", requests: 2, decision: "block"},
		{on: "tool.after", ran: true, requests: 2, decision: "none"},
		// At this event a block makes the agent continue. The halt has precedence.
		{on: "agent.after", ran: true, requests: 4, answer: "finished", decision: "none"},
	} {
		t.Run(s.on, func(t *testing.T) {
			t.Parallel()
			inTwo(t, func(t *testing.T, a *agents.Agent) {
				g := guard(t, a, `
version: 1
hooks:
  - name: enough
    on: `+s.on+`
    run: case "$GRAPNEL_COMMAND" in ""|"touch halt.txt") echo '{"halt":"that is ENOUGH"}';; esac
  - name: go-on
    on: agent.after
    run: echo "there is more to do" >&2; exit 2
`)
				res := g.Run(t, "Do as planned.",
					model.Do(g.Shell("echo free > before.txt")),
					model.Do(g.Shell("touch halt.txt")),
					model.Do(g.Shell("echo free > after.txt")),
					model.Answer("finished"),
				)
				wantFile(t, res, "before.txt", "free\n")
				if _, ran := res.Files["halt.txt"]; ran != s.ran {
					t.Errorf("the call in question was made: %v, want %v", ran, s.ran)
				}
				if _, ran := res.Files["after.txt"]; ran != (s.answer != "") {
					t.Errorf("the call after it was made: %v, want %v", ran, !ran)
				}
				if n := len(res.Requests.MainRequests()); n != s.requests {
					t.Errorf("%d main requests, want %d", n, s.requests)
				}
				if res.Answer != s.answer {
					t.Errorf("answer %q, want %q", res.Answer, s.answer)
				}
				if a != agents.ClaudeCode || s.answer == "" { // headless, it prints only the answer of a turn that has one
					wantStopped(t, a, res, "that is ENOUGH")
				}
				log := g.records(t).of(s.on)
				if last := log[len(log)-1]; last.Halt != "that is ENOUGH" || last.Decision != s.decision {
					t.Errorf("last record of %s: %+v, want the halt and the decision %s", s.on, last, s.decision)
				}
			})
		})
	}
}

// wantStopped checks that the agent reports to the user that a hook ended the turn, with the
// reason. Claude Code shows the reason only on its screen, not in a headless run.
func wantStopped(t *testing.T, a *agents.Agent, res verify.Result, why string) {
	t.Helper()
	if a == agents.ClaudeCode {
		why = `"terminal_reason":"hook_stopped"`
	}
	if !strings.Contains(res.Shown, why) {
		t.Errorf("the person was not told %q:\n%s", why, res.Shown)
	}
}

// A block after a tool has run reaches the model, and the agent continues.
func TestFeedback(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: wants-a-header
    on: tool.after
    match: {tool: write}
    block: that needs a HEADER
  - name: knows-where
    on: tool.failed
    match: {tool: read}
    block: look for it ELSEWHERE
`)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Write("code.txt", "code\n")),
			model.Do(g.Read("absent.txt")),
			model.Answer("all done"),
		)
		wantFile(t, res, "code.txt", "code\n") // written before the hook could refuse it
		main := res.Requests.MainRequests()
		if len(main) != 3 {
			t.Fatalf("%d main requests, want 3", len(main))
		}
		for i, want := range []string{1: "that needs a HEADER", 2: "look for it ELSEWHERE"} {
			if want != "" && (!main[i:].Contains(want) || main[:i].Contains(want)) {
				t.Errorf("%q did not reach the model with request %d", want, i)
			}
		}
		if res.Answer != "all done" {
			t.Errorf("answer %q, want %q", res.Answer, "all done")
		}
		log := g.records(t)
		for _, event := range []string{"tool.after", "tool.failed"} {
			if got := log.of(event).decisions(); !slices.Equal(got, []string{"block"}) {
				t.Errorf("decisions about %s: %v, want one block", event, got)
			}
		}
	})
}

// All calls in one answer of the model are judged together after they ran. Gemini CLI has no such
// event.
func TestToolBatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		action   string
		requests int
		answer   string
	}{
		"context": {action: "context: {text: mind the BATCH}", requests: 2, answer: "all done"},
		"block":   {action: "block: this BATCH is the last", requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.ClaudeCode, "version: 1\nhooks:\n  - name: it\n    on: toolbatch.after\n    "+tc.action+"\n")
			res := g.Run(t, "Do as planned.",
				model.Do(g.Shell("echo one > a.txt"), g.Shell("echo two > b.txt")),
				model.Answer("all done"),
			)
			wantFile(t, res, "a.txt", "one\n")
			wantFile(t, res, "b.txt", "two\n")
			if n := len(res.Requests.MainRequests()); n != tc.requests {
				t.Errorf("%d main requests, want %d", n, tc.requests)
			}
			if res.Answer != tc.answer {
				t.Errorf("answer %q, want %q", res.Answer, tc.answer)
			}
			if tc.requests > 1 && !res.Requests.Contains("mind the BATCH") {
				t.Error("the model was not told the context")
			}
			if tc.requests == 1 {
				wantStopped(t, g.Agent, res, "this BATCH is the last")
			}
			if n := len(g.records(t).of("toolbatch.after")); n != 1 {
				t.Errorf("%d records of toolbatch.after, want one for both calls", n)
			}
		})
	}
}

// With a block of the stop, Gemini CLI can also clear the conversation.
func TestForgetBeforeGoingOn(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.GeminiCLI, `
version: 1
hooks:
  - name: fresh-eyes
    on: agent.after
    run: test -e seen.txt || { touch seen.txt; echo '{"decision":"block","reason":"look at it AFRESH","set":{"memory.clear":true}}'; }
`)
	res := g.Run(t, "Do as planned.", model.Answer("all of it is in ORDER"))
	main := res.Requests.MainRequests()
	if len(main) != 2 {
		t.Fatalf("%d main requests, want 2", len(main))
	}
	if !main[1:].Contains("look at it AFRESH") {
		t.Error("the model was not told why it has to go on")
	}
	for _, before := range []string{"Do as planned.", "all of it is in ORDER"} {
		if found := main[1:].Around(before); found != "" {
			t.Errorf("the agent did not forget %q: %s", before, found)
		}
	}
}

// After a tool, a hook can name the tool that Gemini CLI must run next. That call is guarded like
// a call of the model.
func TestNextTool(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.GeminiCLI, noTouching+`
  - name: and-then
    on: tool.after
    run: |
      case "$GRAPNEL_PATH" in
      *one.txt) echo '{"set":{"tool.next":{"name":"run_shell_command","input":{"command":"echo next > next.txt"}}}}';;
      *two.txt) echo '{"set":{"tool.next":{"name":"run_shell_command","input":{"command":"touch forbidden.txt"}}}}';;
      esac
`)
	res := g.Run(t, "Do as planned.",
		model.Do(g.Write("one.txt", "one\n")),
		model.Do(g.Write("two.txt", "two\n")),
		model.Answer("all done"),
	)
	for file, content := range map[string]string{"one.txt": "one\n", "next.txt": "next\n", "two.txt": "two\n", "forbidden.txt": ""} {
		wantFile(t, res, file, content)
	}
	results := res.Requests.ToolResults()
	if len(results) != 2 || results[0].IsError || !strings.Contains(results[1].Text, "that file belongs to somebody else") {
		t.Errorf("the model was told %+v, want the first call's success and the reason why the second one's next is blocked", results)
	}
	wantJudged(t, g.records(t), 4)
}
