//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// Peculiarities of single agents, and Grapnel's reports about them.

// findings returns the findings of "grapnel doctor" on this agent, as "ID level: text".
func (g guarded) findings(t *testing.T) []string {
	t.Helper()
	out := g.Exec(t, filepath.Join(g.bin, "grapnel"), "doctor", g.Agent.ID, "--json", "--no-run", "--root", g.kit)
	var report struct {
		Findings []struct{ ID, Level, What, Why string }
	}
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil {
		t.Fatalf("grapnel doctor: exit %d, %v\n%s%s", out.Exit, err, out.Stdout, out.Stderr)
	}
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.ID+" "+f.Level+": "+f.What+"; "+f.Why)
	}
	return found
}

// wantFinding checks that one of the findings begins with the given text.
func wantFinding(t *testing.T, found []string, begin string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, begin) }) {
		t.Errorf("the doctor found %q, want %q among it", found, begin)
	}
}

// Codex silently skips an untrusted hook; "grapnel doctor" reports it.
func TestCodexUntrusted(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.Codex, noTouching)
	plan := []model.Step{model.Do(g.Shell("touch forbidden.txt")), model.Do(g.Shell("echo free > free.txt")), model.Answer("all done")}
	res := g.Run(t, "Do as planned.", plan...)
	wantFile(t, res, "forbidden.txt", "")
	wantFile(t, res, "free.txt", "free\n")
	judged := len(g.records(t))

	g.Untrusting = true
	res = g.Run(t, "Do as planned.", plan...)
	if _, written := res.Files["forbidden.txt"]; !written || len(g.records(t)) != judged {
		t.Error("Codex runs hooks that nobody trusted; then the documentation is wrong")
	}
	wantFinding(t, g.findings(t), "trust.hooks bad: Codex does not trust Grapnel's entries for ")
}

// In a trusted folder Copilot CLI also runs the hooks of .claude/settings.json. Both hooks report
// each call. The call is judged and recorded once, and a block takes effect.
func TestCopilotReportsTwice(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.CopilotCLI, noTouching)
	g.WriteFile(t, ".git/HEAD", "ref: refs/heads/main\n")
	g.grapnel(t, "install", "claude-code", "--scope", "project", "--yes")
	res := g.Run(t, "Do as planned.",
		model.Do(g.Shell("touch forbidden.txt")),
		model.Do(g.Shell("echo free > free.txt")),
		model.Answer("all done"),
	)
	wantFile(t, res, "forbidden.txt", "")
	wantFile(t, res, "free.txt", "free\n")
	log := g.records(t)
	if got := strings.Join(log.of("tool.before").decisions(), " "); got != "block none" {
		t.Errorf("decided %q, want block none: one Record of each call", got)
	}
	for _, event := range []string{"prompt.before", "tool.after", "agent.after"} {
		if n := len(log.of(event)); n != 1 {
			t.Errorf("%d records of %s, want one", n, event)
		}
	}
	for _, r := range log {
		if r.Agent != agents.CopilotCLI.ID {
			t.Errorf("record %+v is of another agent", r)
		}
	}
}

// In Qwen Code a later hook that allows cancels a block. "grapnel doctor" warns about it. In Droid
// no other hook cancels a block, not even an earlier one.
func TestOtherHookAllows(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent *agents.Agent
		first bool // the other hook is above Grapnel's
		runs  bool
		undo  string // finding of grapnel doctor
	}{
		{agents.QwenCode, false, true, "hooks.undo info: can undo Grapnel's decisions: "},
		{agents.Droid, true, false, ""},
		{agents.Droid, false, false, ""},
	} {
		t.Run(fmt.Sprintf("%s first %v", tc.agent, tc.first), func(t *testing.T) {
			t.Parallel()
			g := guard(t, tc.agent, noTouching)
			var settings map[string]json.RawMessage
			if err := json.Unmarshal([]byte(g.ReadFile(t, g.SettingsFile())), &settings); err != nil {
				t.Fatal(err)
			}
			var hooks map[string][]any
			if err := json.Unmarshal(settings["hooks"], &hooks); err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(g.Root, "allow.sh")
			g.WriteFile(t, script, "#!/bin/sh\necho '{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", \"permissionDecision\": \"allow\"}}'\n")
			at := len(hooks["PreToolUse"])
			if tc.first {
				at = 0
			}
			hooks["PreToolUse"] = slices.Insert(hooks["PreToolUse"], at, any(map[string]any{"hooks": []any{map[string]any{"type": "command", "command": script}}}))
			changed, err := json.Marshal(hooks)
			if err != nil {
				t.Fatal(err)
			}
			set(t, g.World, "hooks", string(changed))
			res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch forbidden.txt")), model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
			wantFile(t, res, "free.txt", "free\n")
			if _, written := res.Files["forbidden.txt"]; written != tc.runs {
				t.Errorf("the blocked call ran: %v, want %v; then the documentation is wrong", written, tc.runs)
			}
			if got := strings.Join(g.records(t).of("tool.before").decisions(), " "); got != "block none" {
				t.Errorf("decided %q, want block none", got)
			}
			if tc.undo != "" {
				wantFinding(t, g.findings(t), tc.undo)
			}
		})
	}
}

// One line in a repository keeps Droid from running any hook. "grapnel doctor" names the file.
func TestDroidHooksDisabled(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ file, content, setting string }{
		{".factory/settings.json", `{"hooks": {"hooksDisabled": true}}`, "hooks.hooksDisabled"},
		{".factory/hooks.json", `{"hooksDisabled": true}`, "hooksDisabled"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.Droid, noTouching)
			g.WriteFile(t, tc.file, tc.content)
			res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > forbidden.txt")), model.Answer("all done"))
			wantFile(t, res, "forbidden.txt", "free\n")
			if log := g.records(t); len(log) > 0 {
				t.Errorf("hooks ran; then the documentation is wrong: %+v", log)
			}
			wantFinding(t, g.findings(t), "settings.off bad: "+tc.setting+" is true in "+g.Path(tc.file))
		})
	}
}

// Without the grant, OpenClaw silently does not report prompts and turns to a plugin, only calls.
// "grapnel doctor" reports it.
func TestOpenClawWithoutGrant(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.OpenClaw, noTouching+"  - {name: rules, on: agent.before, context: always mind the MARLINSPIKE}\n")
	settings := g.ReadFile(t, g.SettingsFile())
	without := strings.Replace(settings, `"allowConversationAccess": true`, `"allowConversationAccess": false`, 1)
	if without == settings {
		t.Fatalf("there is no grant in\n%s", settings)
	}
	g.WriteFile(t, g.SettingsFile(), without)
	res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch forbidden.txt")), model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
	wantFile(t, res, "forbidden.txt", "")
	wantFile(t, res, "free.txt", "free\n")
	if res.Requests.Contains("MARLINSPIKE") || len(g.records(t).of("prompt.before")) > 0 {
		t.Error("OpenClaw told of the prompt; then the documentation is wrong")
	}
	wantFinding(t, g.findings(t), "settings.off bad: plugins.entries.grapnel.hooks.allowConversationAccess is false")
}

// "openclaw agent exec" runs no plugin hooks, so nothing guards it. "grapnel doctor" reports it.
func TestOpenClawExecIsUnguarded(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.OpenClaw, noTouching)
	prompt := model.Prompt("Do as planned.", model.Do(g.Shell("touch forbidden.txt")), model.Answer("all done"))
	done := agents.Slot()
	out := g.Exec(t, g.Program.Command[0], append(slices.Clone(g.Program.Command[1:]), "agent", "exec", "--cwd", g.Project, prompt)...)
	done()
	if len(g.Model.Log().MainRequests()) < 2 {
		t.Fatalf("it made %d main requests: exit %d\n%s%s", len(g.Model.Log().MainRequests()), out.Exit, out.Stdout, out.Stderr)
	}
	if results := g.Model.Log().ToolResults(); len(results) != 1 || strings.Contains(results[0].Text, "somebody else") || len(g.records(t)) != 0 {
		t.Errorf("openclaw agent exec asks hooks; then the documentation is wrong: %+v", results)
	}
	wantFinding(t, g.findings(t), "unseen info: no hook sees: openclaw agent exec")
}

// A hook that always blocks the stop does not keep an agent running forever. Qwen Code ends the
// turn at the eighth block in a row, OpenClaw at the fourth.
func TestStopLoopsEnd(t *testing.T) {
	t.Parallel()
	among(t, []*agents.Agent{agents.Codex, agents.CopilotCLI, agents.QwenCode, agents.OpenClaw}, func(t *testing.T, a *agents.Agent) {
		blocks := 8
		switch a {
		case agents.QwenCode:
			blocks = 7
		case agents.OpenClaw:
			blocks = 3
		}
		g := guard(t, a, "version: 1\nhooks:\n  - {name: never-content, on: agent.after, block: it is not DONE yet}\n")
		res := g.Run(t, "Do as planned.", model.Answer("finished"))
		if n := len(res.Requests.MainRequests()); n != blocks+1 {
			t.Errorf("%d main requests, want the first and one for each of %d blocked stops that count", n, blocks)
		}
		if !res.Requests.Contains("it is not DONE yet") || !strings.HasSuffix(res.Answer, "finished") {
			t.Errorf("answer %q; was the model told why it has to go on: %v", res.Answer, res.Requests.Contains("it is not DONE yet"))
		}
		stops := g.records(t).of("agent.after").decisions()
		if got := strings.Count(strings.Join(stops, " "), "block"); got < blocks {
			t.Errorf("the stops were decided as %v, want at least %d blocks", stops, blocks)
		}
	})
}

// If a model calls a tool through OpenClaw's wrapper tool, OpenClaw reports the call twice. It is
// judged and recorded once, under the name of the inner tool. Core tools are never called through
// the wrapper.
func TestOpenClawWrapper(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.OpenClaw, "version: 1\nhooks:\n  - {name: nobody-else, on: tool.before, match: {tool: agents_list}, block: that is NOT for you}\n")
	set(t, g.World, "tools", `{"profile": "full", "exec": {"security": "full", "ask": "off"}, "toolSearch": {"mode": "tools"}}`)
	inside := func(tool string) model.Step {
		return model.Do(model.Call{Tool: "tool_call", Input: map[string]any{"id": tool, "args": map[string]any{}}})
	}
	res := g.Run(t, "Do as planned.", inside("agents_list"), inside("sessions_list"), model.Do(g.Shell("echo free > free.txt")), model.Answer("all done"))
	wantFile(t, res, "free.txt", "free\n")
	log := g.records(t).of("tool.before")
	var judged []string
	for _, r := range log {
		judged = append(judged, r.Tool+" "+r.Decision)
	}
	if want := []string{"agents_list block", "sessions_list none", "exec none"}; !slices.Equal(judged, want) {
		t.Errorf("judged %q, want %q: one Record of each call", judged, want)
	}
	results := res.Requests.ToolResults()
	if len(results) != 3 || !strings.Contains(results[0].Text, "that is NOT for you") || !strings.Contains(results[1].Text, "sessions") {
		t.Errorf("the model was told %+v, want the reason and the list", results)
	}
}

// Qwen Code has a wrapper tool for tools that it has not shown to the model. Calls through it are
// also judged under the name of the inner tool.
func TestQwenWrapper(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.QwenCode, noTouching+"  - {name: no-fetching, on: tool.before, match: {tool: web_fetch}, block: nothing from OUTSIDE}\n")
	inside := func(tool string, input map[string]any) model.Step {
		return model.Do(model.Call{Tool: "tool_call", Input: map[string]any{"name": tool, "arguments": input}})
	}
	res := g.Run(t, "Do as planned.",
		inside("run_shell_command", map[string]any{"command": "touch forbidden.txt", "is_background": false}),
		model.Do(model.Call{Tool: "tool_search", Input: map[string]any{"query": "select:web_fetch"}}),
		inside("web_fetch", map[string]any{"url": "https://example.com/", "prompt": "what is it"}),
		model.Do(g.Shell("echo free > free.txt")),
		model.Answer("all done"),
	)
	wantFile(t, res, "forbidden.txt", "")
	wantFile(t, res, "free.txt", "free\n")
	var judged []string
	for _, r := range g.records(t).of("tool.before") {
		judged = append(judged, r.Tool+" "+r.Decision)
	}
	if want := []string{"tool_search none", "web_fetch block", "run_shell_command none"}; !slices.Equal(judged, want) {
		t.Errorf("judged %q, want %q", judged, want)
	}
	results := res.Requests.ToolResults()
	if len(results) != 4 || !strings.Contains(results[0].Text, "refused") || !strings.Contains(results[2].Text, "nothing from OUTSIDE") {
		t.Errorf("the model was told %+v, want that Qwen Code refuses the first call and a hook the third", results)
	}
}
