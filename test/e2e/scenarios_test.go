//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/test/e2e/agents"
	"github.com/grapnel-dev/grapnel/verify"
	"github.com/grapnel-dev/grapnel/verify/model"
)

// eachAgent runs f for the agents that Grapnel's hooks act in by what they print, side
// by side as far as the harness allows.
func eachAgent(t *testing.T, f func(t *testing.T, a *agents.Agent)) {
	t.Helper()
	for _, a := range []*agents.Agent{agents.ClaudeCode, agents.GeminiCLI} {
		t.Run(a.ID, func(t *testing.T) {
			t.Parallel()
			f(t, a)
		})
	}
}

// shell and write make a call when the agent is known.
func shell(command string) func(*agents.World) model.Call {
	return func(w *agents.World) model.Call { return w.Shell(command) }
}

func write(name, content string) func(*agents.World) model.Call {
	return func(w *agents.World) model.Call { return w.Write(name, content) }
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
	notInProd = `
version: 1
hooks:
  - name: not-in-prod
    on: tool.before
    match: {tool: [write, edit], path: "deploy/prod/**"}
    block: production is changed by hand
`
)

// toolScenarios are about one tool call each. In every run the model makes a
// harmless call, then the one in question, then another harmless one, and ends.
var toolScenarios = []struct {
	name   string
	policy string
	call   func(*agents.World) model.Call

	// What must have become of the call: file has this content afterwards, or,
	// when content is empty, it does not exist and the model was told of an error.
	file, content string
	told          []string // what else the model must have been told of the call
	untold        string   // what must not have reached the model in any way

	failing string        // the hook whose failure must be in the log
	atMost  time.Duration // that the agent may take; 0 means no matter
	endsRun *agents.Agent // this one does not go on after the call
	asError *agents.Agent // this one can say it to the model only as an error
}{
	{
		name: "no opinion",
		policy: `
version: 1
hooks:
  - name: something-else
    on: tool.before
    match: {command: git push --force}
    block: not here
`,
		call: shell("echo ran > asked.txt"),
		file: "asked.txt", content: "ran\n",
		untold: "rapnel", // the model does not notice that it is there
	},
	{
		name:   "block a command",
		policy: noTouching,
		call:   shell("touch forbidden.txt"),
		file:   "forbidden.txt", told: []string{"that file belongs to somebody else"},
	},
	{
		name:   "block a command behind another shell",
		policy: noTouching,
		call:   shell(`cd . && sh -c 'true; \touch "forbidden.txt"'`),
		file:   "forbidden.txt", told: []string{"that file belongs to somebody else"},
	},
	{
		name:   "do not block a mention of a command",
		policy: noTouching,
		call:   shell(`echo "touch forbidden.txt" > note.txt`),
		file:   "note.txt", content: "touch forbidden.txt\n",
	},
	{
		name:   "block writing a path",
		policy: notInProd,
		call:   write("deploy/prod/app.yaml", "replicas: 0\n"),
		file:   "deploy/prod/app.yaml", told: []string{"production is changed by hand"},
	},
	{
		name:   "block writing a path that leads there in a roundabout way",
		policy: notInProd,
		call:   write("docs/../deploy/./prod/app.yaml", "replicas: 0\n"),
		file:   "deploy/prod/app.yaml", told: []string{"production is changed by hand"},
	},
	{
		name: "rewrite a command",
		policy: `
version: 1
hooks:
  - name: safer
    on: tool.before
    match: {command: touch asked.txt}
    set: {tool.command: "echo rewritten > asked.txt"}
`,
		call: shell("touch asked.txt"),
		file: "asked.txt", content: "rewritten\n",
	},
	{
		name: "replace in what is written",
		policy: `
version: 1
hooks:
  - name: hide-keys
    on: tool.before
    replace: [{pattern: 'sk-[A-Za-z0-9]{20,}', with: sk-***}]
`,
		call: write("config.txt", "key=sk-abcdefghijklmnopqrstuvwx\nname=\"a\\b\"\n"),
		file: "config.txt", content: "key=sk-***\nname=\"a\\b\"\n",
	},
	{
		name: "a program blocks",
		policy: `
version: 1
hooks:
  - name: by-script
    on: tool.before
    match: {tool: shell}
    run: 'case "$(cat)" in *forbidden.txt*) echo "the script says no" >&2; exit 2;; esac'
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"the script says no"},
	},
	{
		name: "a program written for Claude Code blocks",
		policy: `
version: 1
hooks:
  - name: old-claude-hook
    on: tool.before
    run: 'case "$(cat)" in *Bash*forbidden.txt*) echo "the Claude hook says no" >&2; exit 2;; esac'
    speaks: claude
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"the Claude hook says no"},
	},
	{
		name: "a program written for Gemini CLI blocks",
		policy: `
version: 1
hooks:
  - name: old-gemini-hook
    on: tool.before
    run: 'case "$(cat)" in *run_shell_command*forbidden.txt*) printf "{\"decision\":\"deny\",\"reason\":\"the Gemini hook says no\"}";; esac'
    speaks: gemini
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"the Gemini hook says no"},
	},
	{
		name: "a program fails, open",
		policy: `
version: 1
hooks:
  - name: broken-guard
    on: tool.before
    match: {command: echo ran}
    run: echo oops >&2; exit 1
    on_error: open
`,
		call: shell("echo ran > asked.txt"),
		file: "asked.txt", content: "ran\n",
		failing: "broken-guard",
	},
	{
		name: "a program fails, closed",
		policy: `
version: 1
hooks:
  - name: broken-guard
    on: tool.before
    match: {command: touch forbidden.txt}
    run: echo oops >&2; exit 1
    on_error: closed
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"broken-guard"},
		failing: "broken-guard",
	},
	{
		name: "a program is killed, open",
		policy: `
version: 1
hooks:
  - name: broken-guard
    on: tool.before
    match: {command: echo ran}
    run: kill -9 $$
    on_error: open
`,
		call: shell("echo ran > asked.txt"),
		file: "asked.txt", content: "ran\n",
		failing: "broken-guard",
	},
	{
		name: "a program is killed, closed",
		policy: `
version: 1
hooks:
  - name: broken-guard
    on: tool.before
    match: {command: touch forbidden.txt}
    run: kill -9 $$
    on_error: closed
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"broken-guard"},
		failing: "broken-guard",
	},
	{
		name: "a program hangs, open",
		policy: `
version: 1
hooks:
  - name: slow-guard
    on: tool.before
    match: {command: echo ran}
    run: sleep 60
    timeout: 1s
    on_error: open
`,
		call: shell("echo ran > asked.txt"),
		file: "asked.txt", content: "ran\n",
		failing: "slow-guard", atMost: 30 * time.Second,
	},
	{
		name: "a program hangs, closed",
		policy: `
version: 1
hooks:
  - name: slow-guard
    on: tool.before
    match: {command: touch forbidden.txt}
    run: sleep 60
    timeout: 1s
    on_error: closed
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"slow-guard"},
		failing: "slow-guard", atMost: 30 * time.Second,
	},
	{
		name: "a program leaves a child that holds its output, closed",
		policy: `
version: 1
hooks:
  - name: slow-guard
    on: tool.before
    match: {command: touch forbidden.txt}
    run: trap '' TERM INT; sleep 60 & wait
    timeout: 1s
    on_error: closed
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"slow-guard"},
		failing: "slow-guard", atMost: 30 * time.Second,
	},
	{
		name: "a program is gone, open",
		policy: `
version: 1
hooks:
  - name: absent-guard
    on: tool.before
    match: {command: echo ran}
    run: /nonexistent/program
    on_error: open
`,
		call: shell("echo ran > asked.txt"),
		file: "asked.txt", content: "ran\n",
		failing: "absent-guard",
	},
	{
		name: "a program is gone, closed",
		policy: `
version: 1
hooks:
  - name: absent-guard
    on: tool.before
    match: {command: touch forbidden.txt}
    run: /nonexistent/program
    on_error: closed
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"absent-guard"},
		failing: "absent-guard",
	},
	{
		name: "format after a write",
		policy: `
version: 1
hooks:
  - name: formatter
    on: tool.after
    match: {tool: [write, edit], path: "**/*.txt"}
    run: sed -i 's/ugly/pretty/' "$GRAPNEL_PATH"
`,
		call: write("text.txt", "ugly\n"),
		file: "text.txt", content: "pretty\n",
	},
	{
		name: "hide a key in what a tool printed",
		policy: `
version: 1
hooks:
  - name: hide-keys
    on: tool.after
    replace: [{pattern: 'sk-[A-Za-z0-9]{20,}', with: sk-***}]
`,
		// The key is put together by the command: the prompt holds the plan.
		call: shell("printf 'the key is sk-%s\\n' abcdefghijklmnopqrstuvwx | tee key.txt"),
		file: "key.txt", content: "the key is sk-abcdefghijklmnopqrstuvwx\n",
		told: []string{"the key is sk-***"}, untold: "sk-abcdefghijklmnopqrstuvwx",
		asError: agents.GeminiCLI, // its hooks cannot replace an output, but refuse it and say why
	},
	{
		// Nobody is there to be asked. Claude Code refuses and tells the model
		// why; Gemini CLI ends the run without a word.
		name: "ask",
		policy: `
version: 1
hooks:
  - name: ask-first
    on: tool.before
    match: {command: touch forbidden.txt}
    ask: is that meant
`,
		call: shell("touch forbidden.txt"),
		file: "forbidden.txt", told: []string{"is that meant"},
		endsRun: agents.GeminiCLI,
	},
}

// Each scenario runs in every agent; GC-04 and GC-12 are among them.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	for _, s := range toolScenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			eachAgent(t, func(t *testing.T, a *agents.Agent) {
				g := guard(t, a, s.policy)
				res := g.Run(t, "Do as planned.",
					model.Do(g.Shell("echo free > before.txt")),
					model.Do(s.call(g.World)),
					model.Do(g.Write("after.txt", "free\n")),
					model.Say("all done"),
				)
				ended := s.endsRun == a
				blocked := s.content == ""
				results := res.Requests.ToolResults()
				told := func(i int) model.ToolResult {
					if i >= len(results) {
						t.Fatalf("the model was told %d tool results, want one at index %d: %+v", len(results), i, results)
					}
					return results[i]
				}

				wantFile(t, res, "before.txt", "free\n")
				if first := told(0); first.IsError {
					t.Errorf("of the harmless first call the model was told %+v", first)
				}
				wantFile(t, res, s.file, s.content)
				if ended {
					if len(results) != 1 || res.Answer == "all done" {
						t.Errorf("the run went on: answer %q, tool results %+v", res.Answer, results)
					}
				} else {
					call := told(1)
					if want := blocked || s.asError == a; call.IsError != want {
						t.Errorf("of the call the model was told %+v, want an error: %v", call, want)
					}
					for _, want := range s.told {
						if !strings.Contains(call.Text, want) {
							t.Errorf("of the call the model was told %q, want %q in it", call.Text, want)
						}
					}
					wantFile(t, res, "after.txt", "free\n")
					if last := told(2); last.IsError {
						t.Errorf("of the harmless last call the model was told %+v", last)
					}
					if res.Answer != "all done" {
						t.Errorf("answer %q, want %q", res.Answer, "all done")
					}
				}
				if s.atMost > 0 && res.Took > s.atMost {
					t.Errorf("the agent took %v, want at most %v", res.Took, s.atMost)
				}
				if s.untold != "" {
					if found := withoutCache(t, res.Requests).Around(s.untold); found != "" {
						t.Errorf("the model was told %q: %s", s.untold, found)
					}
				}
				log, judged := g.records(t), 3
				if ended {
					judged = 2
				}
				wantJudged(t, log, judged)
				if s.failing != "" && !failed(log, s.failing) {
					t.Errorf("the log does not say that %s failed: %+v", s.failing, log)
				}
			})
		})
	}
}

// wantFile checks a file of the project; empty content means it must not exist.
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

// withoutCache returns the log without the path that the agents are installed
// below: Gemini CLI tells the model where it lives, and that is, unless somebody
// chose otherwise, a directory named after Grapnel.
func withoutCache(t *testing.T, l model.Log) model.Log {
	t.Helper()
	cache, err := agents.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	l = slices.Clone(l)
	for i := range l {
		l[i].Body = bytes.ReplaceAll(l[i].Body, []byte(cache), []byte("CACHE"))
	}
	return l
}

// wantJudged checks that Grapnel was asked about so many tool calls: what it let
// through says nothing when it was not there.
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

// failed reports whether the log says that this hook did not answer.
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

// Of two calls in one answer of the model only the one that is meant is blocked.
func TestOneOfTwoCallsAtOnce(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, noTouching)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("touch forbidden.txt"), g.Write("free.txt", "free\n")),
			model.Say("all done"),
		)
		wantFile(t, res, "forbidden.txt", "")
		wantFile(t, res, "free.txt", "free\n")
		results := res.Requests.ToolResults()
		if len(results) != 2 || !results[0].IsError || !strings.Contains(results[0].Text, "that file belongs to somebody else") || results[1].IsError {
			t.Errorf("the model was told %+v, want one refusal with the reason and one success", results)
		}
	})
}

// Context of a session start and of a prompt is what the model reads: GC-02, GC-07.
func TestContextReachesTheModel(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
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
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Say("all done"))
		wantFile(t, res, "free.txt", "free\n")
		for _, marker := range []string{"always mind the MARLINSPIKE", "never forget the BOWLINE"} {
			if !res.Requests.MainRequests().Contains(marker) {
				t.Errorf("the model was not told %q", marker)
			}
		}
	})
}

// A blocked prompt reaches no model. The next one in the same world does, so it
// was the block and nothing else.
func TestBlockedPrompt(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: no-secrets
    on: prompt.before
    match: {prompt: /launch code/}
    block: secrets stay out of prompts
`)
		plan := []model.Step{model.Do(g.Shell("echo free > free.txt")), model.Say("all done")}
		res := g.Run(t, "The launch code is 1234.", plan...)
		if n := len(res.Requests.MainRequests()); n != 0 {
			t.Errorf("%d main requests after a blocked prompt, want none", n)
		}
		if !strings.Contains(res.Stdout+res.Stderr, "secrets stay out of prompts") {
			t.Errorf("the person was not told the reason:\n%s%s", res.Stdout, res.Stderr)
		}
		wantFile(t, res, "free.txt", "")

		res = g.Run(t, "Do as planned.", plan...)
		wantFile(t, res, "free.txt", "free\n")
	})
}

// What is blocked at the end of a turn is the end: the agent goes on, with the
// reason, until the hook is content.
func TestBlockedStopMakesItGoOn(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: tests-first
    on: agent.after
    run: test -e tests.txt || { echo "write the TESTS first" >&2; exit 2; }
`)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Write("code.txt", "code\n")),
			model.Say("finished"),
			model.Do(g.Write("tests.txt", "tests\n")),
			model.Say("really finished"),
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

// The hook ends only after the agent is gone, so the agent cannot have waited.
func TestAsyncHookIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
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
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("echo free > free.txt")), model.Say("all done"))
		wantFile(t, res, "free.txt", "free\n")
		wantFile(t, res, "async.txt", "")
		if res.Answer != "all done" {
			t.Errorf("answer %q", res.Answer)
		}
		g.WriteFile(t, "agent-is-gone", "")
		g.AwaitFile(t, "async.txt", 20*time.Second)
	})
}

func TestRecords(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, noTouching)
		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("echo free > free.txt")),
			model.Do(g.Shell("touch forbidden.txt")),
			model.Say("all done"),
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

// oddSettings are settings as people have them, with a hook of their own before
// every tool (%s is its command) and a layout that no program would choose.
var oddSettings = map[string]string{
	agents.ClaudeCode.ID: "{\r\n" + `      "cleanupPeriodDays":30   ,
"hooks" :{ "PreToolUse":[
        {"matcher":"Bash" , "hooks":[{"type":"command","command":"%s"}]} ],
   "Stop": []  },


	"env": { "ODD_NUMBER": "1e400", "ODD_TEXT": "caf\u00e9 <&> é" },
"includeCoAuthoredBy":false}`, // no newline at the end
	agents.GeminiCLI.ID: `// my settings
{ "security": {"auth":{"selectedType":"gemini-api-key"},   "folderTrust":{"enabled":false}},
   /* quiet */ "general": {"enableAutoUpdate":false,"enableAutoUpdateNotification":false} ,
	"privacy":{"usageStatisticsEnabled":false}, // as agreed
    "telemetry"  : {"enabled":false},
"hooks":{
 "BeforeTool":[ {"matcher":"run_shell_command","hooks":[{"type":"command","name":"mine","command":"%s","timeout":5000}]} // mine
 ]} }

`,
}

// Installing leaves what is there alone, twice is once, and uninstalling gives
// every byte back.
func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		g := unguarded(t, a, noTouching)
		settings := g.SettingsFile()
		original := fmt.Sprintf(oddSettings[a.ID], "touch "+filepath.Join(g.Project, "foreign.txt"))
		g.WriteFile(t, settings, original)
		plan := []model.Step{
			model.Do(g.Shell("touch forbidden.txt")),
			model.Do(g.Shell("echo free > free.txt")),
			model.Say("all done"),
		}

		g.grapnel(t, "install", a.ID, "--yes")
		installed := g.ReadFile(t, settings)
		if installed == original {
			t.Fatal("install did not change the settings")
		}
		g.grapnel(t, "install", a.ID, "--yes")
		if again := g.ReadFile(t, settings); again != installed {
			t.Errorf("a second install changed the settings from\n%s\nto\n%s", installed, again)
		}
		res := g.Run(t, "Do as planned.", plan...)
		wantFile(t, res, "forbidden.txt", "")
		wantFile(t, res, "free.txt", "free\n")
		if _, ran := res.Files["foreign.txt"]; !ran {
			t.Error("the user's own hook did not run beside Grapnel")
		}

		g.grapnel(t, "uninstall", a.ID, "--yes")
		if restored := g.ReadFile(t, settings); restored != original {
			t.Errorf("after uninstall the settings are\n%q\nwant\n%q", restored, original)
		}
		for _, name := range []string{"free.txt", "foreign.txt"} {
			if err := os.Remove(filepath.Join(g.Project, name)); err != nil {
				t.Fatal(err)
			}
		}
		res = g.Run(t, "Do as planned.", plan...)
		for _, name := range []string{"forbidden.txt", "free.txt", "foreign.txt"} {
			if _, there := res.Files[name]; !there {
				t.Errorf("without Grapnel %s is not written", name)
			}
		}
	})
}

// No opinion is not allow: where Claude Code itself would ask, a guard that has
// nothing to say, only rewrites, or allows less than what is about to run must not
// answer for the person. Gemini CLI offers no such tool to the model when nobody
// can be asked.
func TestNoOpinionIsNotAllow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hook    string // what it matches and does
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
				model.Say("all done"),
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
