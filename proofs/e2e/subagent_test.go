//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// helperTask begins the prompt of every sub-agent here, and no other text.
const helperTask = "You help."

// helper returns the call with which the model starts a sub-agent that does these steps.
func helper(g guarded, steps ...model.Step) model.Call {
	return g.Agent.Tools.Task(model.Prompt(helperTask, steps...))
}

// helped is the step that ends a sub-agent's work.
func helped(g guarded) model.Step {
	if done := g.Agent.Tools.Done; done != nil {
		return done("helped")
	}
	return model.Answer("helped")
}

// byHelper splits the main requests of a run into the requests of the sub-agent and the others.
func byHelper(l model.Log) (sub, main model.Log) {
	for _, r := range l.MainRequests() {
		if slices.ContainsFunc(r.Texts, func(text string) bool { return strings.HasPrefix(text, "user: "+helperTask) }) {
			sub = append(sub, r)
		} else {
			main = append(main, r)
		}
	}
	return sub, main
}

// The actions of a sub-agent are guarded like the actions of the agent: its tools in both agents,
// and in Gemini CLI also its requests to the model.
func TestSubagent(t *testing.T) {
	t.Parallel()
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, noTouching+`
  - name: no-names
    on: model.before
    replace: [{pattern: BARNACLE, with: somebody}]
`)
		res := g.Run(t, "Do as planned.",
			model.Do(helper(g,
				model.Do(g.Shell("touch forbidden.txt")),
				model.Do(g.Shell("echo BARNACLE > free.txt")),
				helped(g),
			)),
			model.Answer("all done"),
		)
		wantFile(t, res, "forbidden.txt", "")
		gotReason := false
		for _, r := range res.Requests.ToolResults() {
			gotReason = gotReason || r.IsError && strings.Contains(r.Text, "that file belongs to somebody else")
		}
		if !gotReason {
			t.Errorf("the sub-agent was not told the reason: %+v", res.Requests.ToolResults())
		}
		if res.Answer != "all done" {
			t.Errorf("answer %q, want %q", res.Answer, "all done")
		}
		sub, _ := byHelper(res.Requests)
		if len(sub) != 3 {
			t.Errorf("%d main requests of the sub-agent, want 3", len(sub))
		}
		if a == agents.GeminiCLI {
			// The plan of the sub-agent is in its prompt, so the change reaches the plan.
			wantFile(t, res, "free.txt", "somebody\n")
			if found := sub.Around("BARNACLE"); found != "" {
				t.Errorf("the name reached the model: %s", found)
			}
		} else {
			wantFile(t, res, "free.txt", "BARNACLE\n")
		}
		for _, r := range g.records(t) {
			if r.Session == "" || r.Session != g.records(t)[0].Session {
				t.Errorf("record %+v has another session than the agent", r)
			}
		}
	})
}

// Claude Code reports the start and end of a sub-agent. Gemini CLI does not.
func TestSubagentEvents(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.ClaudeCode, `
version: 1
hooks:
  - name: house-rules
    on: subagent.start
    context: {text: always mind the CAPSTAN}
  - name: none-at-all
    on: subagent.start
    block: no helpers today
  - name: tests-first
    on: subagent.after
    run: test -e tests.txt || { echo "write the TESTS first" >&2; exit 2; }
`)
	res := g.Run(t, "Do as planned.",
		model.Do(helper(g,
			model.Do(g.Write("code.txt", "code\n")),
			helped(g),
			model.Do(g.Write("tests.txt", "tests\n")),
			model.Answer("really helped"),
		)),
		model.Answer("all done"),
	)
	wantFile(t, res, "code.txt", "code\n")
	wantFile(t, res, "tests.txt", "tests\n")
	sub, main := byHelper(res.Requests)
	if len(sub) != 4 || len(main) != 2 {
		t.Fatalf("%d main requests of the sub-agent and %d of the agent, want 4 and 2", len(sub), len(main))
	}
	if !sub[:1].Contains("always mind the CAPSTAN") {
		t.Error("the context is not in the sub-agent's first request")
	}
	if found := main.Around("CAPSTAN"); found != "" {
		t.Errorf("the agent itself was told the context: %s", found)
	}
	if sub[:2].Contains("write the TESTS first") || !sub[2:].Contains("write the TESTS first") {
		t.Error("the sub-agent was not told, once it wanted to stop, why it has to go on")
	}
	if !main.Contains("really helped") {
		t.Error("the agent did not get what the sub-agent said in the end")
	}
	log := g.records(t)
	// No reply at this event can prevent the start of a sub-agent.
	if start := log.of("subagent.start"); len(start) != 1 || !slices.Contains(start[0].Unsupported, "block: not sent") {
		t.Errorf("records of subagent.start: %+v, want one that lost its block", start)
	}
	if got, want := log.of("subagent.after").decisions(), []string{"block", "none"}; !slices.Equal(got, want) {
		t.Errorf("decisions about subagent.after: %v, want %v", got, want)
	}
}

// The stop of a sub-agent may be blocked as often as the stop of an agent. The counts are
// separate: afterwards the agent's stop can still be blocked as often.
func TestSubagentStopIsBlockedEightTimesInARow(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.ClaudeCode, `
version: 1
hooks:
  - name: never-content
    on: [subagent.after, agent.after]
    block: it is not DONE yet
`)
	res := g.Run(t, "Do as planned.", model.Do(helper(g, helped(g))), model.Answer("all done"))
	sub, main := byHelper(res.Requests)
	if len(sub) != 9 || len(main) != 10 {
		t.Errorf("%d main requests of the sub-agent and %d of the agent, want 9 and 10", len(sub), len(main))
	}
	want := append(slices.Repeat([]string{"block"}, 8), "none")
	for _, event := range []string{"subagent.after", "agent.after"} {
		if got := g.records(t).of(event).decisions(); !slices.Equal(got, want) {
			t.Errorf("decisions about %s: %v, want %v", event, got, want)
		}
	}
}

// Every way in which a hook of Claude Code can refuse, without Grapnel. None of them prevents the
// start of a sub-agent, so Grapnel lists a block as unsupported.
func TestNothingKeepsASubagentFromStarting(t *testing.T) {
	t.Parallel()
	w := agents.NewWorld(t, agents.ClaudeCode)
	var hooks []string
	for name, script := range map[string]string{
		"exit":       "echo no >&2; exit 2",
		"decision":   `echo '{"decision": "block", "reason": "no"}'`,
		"continue":   `echo '{"continue": false, "stopReason": "no"}'`,
		"permission": `echo '{"hookSpecificOutput": {"hookEventName": "SubagentStart", "permissionDecision": "deny"}}'`,
	} {
		path := filepath.Join(w.Root, name)
		w.WriteFile(t, path, "#!/bin/sh\ntouch "+name+".asked\n"+script+"\n")
		hooks = append(hooks, fmt.Sprintf(`{"type": "command", "command": %q, "timeout": 20}`, path))
	}
	w.WriteFile(t, w.SettingsFile(), `{"hooks": {"SubagentStart": [{"hooks": [`+strings.Join(hooks, ", ")+`]}]}}`)
	g := guarded{World: w}
	res := g.Run(t, "Do as planned.",
		model.Do(helper(g, model.Do(g.Shell("echo free > free.txt")), helped(g))),
		model.Answer("all done"),
	)
	for _, name := range []string{"exit", "decision", "continue", "permission"} {
		if _, asked := res.Files[name+".asked"]; !asked {
			t.Errorf("the hook that objects by its %s did not run", name)
		}
	}
	wantFile(t, res, "free.txt", "free\n")
	if res.Answer != "all done" {
		t.Errorf("answer %q, want %q", res.Answer, "all done")
	}
}
