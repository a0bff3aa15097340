//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A scenario checks one tool call. All scenarios are steps of one run.
type scenario struct {
	name  string
	hooks string // hooks of the policy, which match only this call
	call  func(*agents.World) model.Call

	// The expected result of the call. The file has this content afterwards. If content is empty,
	// the file does not exist and the model got an error.
	file, content string
	wantText      string // other text that the model must get for the call
	noText        string // text that must not reach the model in any way
	failing       string // the hook whose failure must be in the log

	// The part of the verdict that not all agents support. In the other agents the call has
	// another result, see expect.
	on   grapnel.Kind
	word string
}

// shell and write make a call for an agent that is not yet known.
func shell(command string) func(*agents.World) model.Call {
	return func(w *agents.World) model.Call { return w.Shell(command) }
}

func write(name, content string) func(*agents.World) model.Call {
	return func(w *agents.World) model.Call { return w.Write(name, content) }
}

var scenarios = []scenario{
	{
		name: "no opinion",
		call: shell("echo ran > free.txt"),
		file: "free.txt", content: "ran\n",
	},
	{
		name:  "block a command",
		hooks: "- {name: no-touching, on: tool.before, match: {command: touch blocked.txt}, block: that file belongs to somebody else}",
		call:  shell("touch blocked.txt"),
		file:  "blocked.txt", wantText: "that file belongs to somebody else",
	},
	{
		name:  "block a command behind another shell",
		hooks: "- {name: no-hiding, on: tool.before, match: {command: touch hidden.txt}, block: that one is HIDDEN}",
		call:  shell(`cd . && sh -c 'true; \touch "hidden.txt"'`),
		file:  "hidden.txt", wantText: "that one is HIDDEN",
	},
	{
		name:  "do not block a mention of a command",
		hooks: "- {name: no-mention, on: tool.before, match: {command: touch mentioned.txt}, block: that was no mention}",
		call:  shell(`echo "touch mentioned.txt" > note.txt`),
		file:  "note.txt", content: "touch mentioned.txt\n",
	},
	{
		name:  "block writing a path",
		hooks: `- {name: not-in-prod, on: tool.before, match: {tool: [write, edit], path: "deploy/prod/**"}, block: production is changed by hand}`,
		call:  write("deploy/prod/app.yaml", "replicas: 0\n"),
		file:  "deploy/prod/app.yaml", wantText: "production is changed by hand",
	},
	{
		name: "write another path",
		call: write("deploy/test/app.yaml", "replicas: 1\n"),
		file: "deploy/test/app.yaml", content: "replicas: 1\n",
	},
	{
		name:  "block writing a path that leads there in a roundabout way",
		hooks: `- {name: not-in-vault, on: tool.before, match: {tool: [write, edit], path: "deploy/vault/**"}, block: the vault stays CLOSED}`,
		call:  write("docs/../deploy/./vault/app.yaml", "replicas: 0\n"),
		file:  "deploy/vault/app.yaml", wantText: "the vault stays CLOSED",
	},
	{
		name:  "rewrite a command",
		hooks: `- {name: safer, on: tool.before, match: {command: touch rewritten.txt}, set: {tool.command: "echo safer > rewritten.txt"}}`,
		call:  shell("touch rewritten.txt"),
		file:  "rewritten.txt", content: "safer\n",
		on: grapnel.ToolBefore, word: "rewrite",
	},
	{
		name:  "replace in what is written",
		hooks: "- {name: hide-keys, on: tool.before, replace: [{pattern: 'sk-[a-x]{20,}', with: sk-***}]}",
		call:  write("config.txt", "key=sk-abcdefghijklmnopqrstuvwx\nname=\"a\\b\"\n"),
		file:  "config.txt", content: "key=sk-***\nname=\"a\\b\"\n",
		on: grapnel.ToolBefore, word: "rewrite",
	},
	{
		name:  "a program blocks",
		hooks: `- {name: by-script, on: tool.before, match: {tool: shell}, run: 'case "$(cat)" in *by-script.txt*) echo "the script says no" >&2; exit 2;; esac'}`,
		call:  shell("touch by-script.txt"),
		file:  "by-script.txt", wantText: "the script says no",
	},
	{
		name:  "a program written for Claude Code blocks",
		hooks: `- {name: old-claude-hook, on: tool.before, speaks: claude, run: 'case "$(cat)" in *Bash*by-claude.txt*) echo "the Claude hook says no" >&2; exit 2;; esac'}`,
		call:  shell("touch by-claude.txt"),
		file:  "by-claude.txt", wantText: "the Claude hook says no",
	},
	{
		name:  "a program written for Gemini CLI blocks",
		hooks: `- {name: old-gemini-hook, on: tool.before, speaks: gemini, run: 'case "$(cat)" in *run_shell_command*by-gemini.txt*) printf "{\"decision\":\"deny\",\"reason\":\"the Gemini hook says no\"}";; esac'}`,
		call:  shell("touch by-gemini.txt"),
		file:  "by-gemini.txt", wantText: "the Gemini hook says no",
	},
	failing("fails", "echo oops >&2; exit 1", "open"),
	failing("fails", "echo oops >&2; exit 1", "closed"),
	failing("is-killed", "kill -9 $$", "open"),
	failing("is-killed", "kill -9 $$", "closed"),
	failing("hangs", "sleep 120", "open"),
	failing("hangs", "sleep 120", "closed"),
	failing("leaves-a-child", "trap '' TERM INT; sleep 120 & wait", "closed"), // that holds its output
	failing("is-gone", "/nonexistent/program", "open"),
	failing("is-gone", "/nonexistent/program", "closed"),
	{
		name:  "format after a write",
		hooks: `- {name: formatter, on: tool.after, match: {tool: [write, edit], path: "**/text.txt"}, run: sed -i 's/ugly/pretty/' "$GRAPNEL_PATH"}`,
		call:  write("text.txt", "ugly\n"),
		file:  "text.txt", content: "pretty\n",
	},
	{
		name:  "hide something in what a tool printed",
		hooks: "- {name: hide-printed, on: tool.after, replace: [{pattern: 'code-[A-X]{20,}', with: code-HIDDEN}]}",
		// The command assembles the code, because the prompt contains the plan. The code does not
		// look like a key, because OpenClaw itself masks keys. The command ends after a delay,
		// because Qwen Code sometimes reports an empty output for a command that ends at once.
		call: shell("printf 'it is code-%s\\n' ABCDEFGHIJKLMNOPQRSTUVWX | tee code.txt; sleep 0.5"),
		file: "code.txt", content: "it is code-ABCDEFGHIJKLMNOPQRSTUVWX\n",
		wantText: "it is code-HIDDEN", noText: "code-ABCDEFGHIJKLMNOPQRSTUVWX",
		on: grapnel.ToolAfter, word: "replace",
	},
	{
		// No user is there to answer the question. Most agents refuse the call then. Gemini CLI
		// ends the run without a message, so this scenario comes last.
		name:  "ask",
		hooks: "- {name: ask-first, on: tool.before, match: {command: touch asked.txt}, ask: is that meant}",
		call:  shell("touch asked.txt"),
		file:  "asked.txt", wantText: "is that meant",
		on: grapnel.ToolBefore, word: "ask",
	},
}

// failing returns a scenario with a guard that does not answer.
func failing(how, program, onError string) scenario {
	name := how + "-" + onError
	s := scenario{
		name:  "a program " + name,
		hooks: fmt.Sprintf("- {name: %s, on: tool.before, match: {command: touch %s.txt}, run: %q, timeout: 1s, on_error: %s}", name, name, program, onError),
		call:  shell(fmt.Sprintf("touch %s.txt && echo ran > %s.txt", name, name)),
		file:  name + ".txt", content: "ran\n", failing: name,
	}
	if onError == "closed" {
		s.content, s.wantText = "", name
	}
	return s
}

// claim returns the support for a part of a verdict at a kind of event, from the agent's tables.
func claim(t *testing.T, a *agents.Agent, on grapnel.Kind, word string) string {
	t.Helper()
	d, ok := dialect.FindAgent(a.ID)
	if !ok {
		t.Fatalf("no dialect for %s", a)
	}
	for i := range d.Events {
		if row := &d.Events[i]; row.Kind == on && row.Install {
			return verify.Claim(d, row, word)
		}
	}
	return verify.Not
}

// expect returns the expected result in an agent that does not support the verdict: a change that
// it cannot make becomes a block, and output of the tool can be refused or reaches the model.
// isError reports whether the model gets an error.
func (s scenario) expect(t *testing.T, a *agents.Agent) (_ scenario, isError bool) {
	t.Helper()
	isError = s.content == ""
	if s.word == "" {
		return s, isError
	}
	switch c := claim(t, a, s.on, s.word); {
	case s.word == "rewrite" && c == verify.AsBlock:
		s.content, s.wantText, isError = "", "***", true
		if strings.HasPrefix(s.name, "rewrite") {
			s.wantText = "echo safer"
		}
	case s.word == "replace" && c == verify.AsBlock:
		isError = true
	case s.word == "replace" && c == verify.Not:
		s.wantText, s.noText = s.noText, ""
	case s.word == "ask" && a == agents.OpenClaw:
		s.wantText = "approval" // it uses its own words for a missing approval
	}
	return s, isError
}

// Each scenario in every agent. A program that hangs does not delay
// the agent for long: waiting for one of them would take longer than the limit of a run.
//
// Proves: GC-04, GC-12
func TestToolCalls(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		policy := "version: 1\nhooks:\n"
		var steps []model.Step
		w := unguarded(t, a, "")
		for _, s := range scenarios {
			if s.hooks != "" {
				policy += "  " + s.hooks + "\n"
			}
			steps = append(steps, model.Do(s.call(w.World)))
		}
		for _, dir := range []string{"docs", "deploy/prod", "deploy/vault", "deploy/test"} { // not all agents create them
			w.WriteFile(t, dir+"/.keep", "")
		}
		w.WriteFile(t, w.kit+"/grapnel.yaml", policy)
		w.grapnel(t, "install", a.ID, "--yes")
		res := w.Run(t, "Do as planned.", append(steps, model.Do(w.Write("last.txt", "last\n")), model.Answer("all done"))...)

		results := res.Requests.ToolResults()
		want, judged := len(steps)+1, len(steps)+1
		if a == agents.GeminiCLI { // the question ends its run
			want, judged = len(steps)-1, len(steps)
		} else {
			wantFile(t, res, "last.txt", "last\n")
			if !strings.HasSuffix(res.Answer, "all done") {
				t.Errorf("answer %q, want %q", res.Answer, "all done")
			}
		}
		if len(results) != want {
			t.Fatalf("the model was told %d tool results, want %d: %+v", len(results), want, results)
		}
		log := w.records(t)
		wantJudged(t, log, judged)
		ids := map[string]bool{}
		for _, r := range log {
			ids[r.ID] = true
			if r.Agent != a.ID || r.Session == "" || r.Session != log[0].Session {
				t.Errorf("record %+v: want agent %s and the session of the others", r, a.ID)
			}
		}
		if len(ids) != len(log) {
			t.Errorf("%d records have %d IDs", len(log), len(ids))
		}
		for i, s := range scenarios {
			s, isError := s.expect(t, a)
			t.Run(s.name, func(t *testing.T) {
				wantFile(t, res, s.file, s.content)
				if s.failing != "" && !failed(log, s.failing) {
					t.Errorf("the log does not say that %s failed: %+v", s.failing, log)
				}
				if s.noText != "" {
					if found := res.Requests.Around(s.noText); found != "" {
						t.Errorf("the model was told %q: %s", s.noText, found)
					}
				}
				if i >= len(results) {
					return
				}
				text := results[i].Text
				if a == agents.Cline { // the output of its hooks comes after the result
					text = after(res.Requests, results[i].ID)
				}
				if !strings.Contains(text, s.wantText) {
					t.Errorf("of the call the model was told %q, want %q in it", text, s.wantText)
				}
				if a.MarksErrors && results[i].IsError != isError {
					t.Errorf("of the call the model was told %+v, want an error: %v", results[i], isError)
				}
			})
		}
	})
}

// after returns the texts of a request between the result of a call and the next result.
func after(l model.Log, id string) string {
	main := l.MainRequests()
	for _, r := range main {
		if n := len(r.Results); n > 0 && r.Results[n-1].ID == id {
			return strings.Join(r.Texts, "\n")
		}
	}
	return ""
}
