package policytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

func TestMain(m *testing.M) {
	process.SandboxMain()
	os.Exit(m.Run())
}

const house = `
version: 1
use: [destructive]
hooks:
  - name: keep-out-of-prod
    on: tool.before
    match: {tool: [write, edit], path: "deploy/prod/**"}
    ask: This changes production. Go on?
  - name: hide-keys
    on: [prompt.before, tool.before, tool.after, tool.failed]
    replace: [{pattern: 'sk-[A-Za-z0-9]{20,}', with: sk-***}]
  - name: house-rules
    on: session.start
    context: house rules apply
  - name: lint
    on: tool.after
    match: {tool: write, path: "**/*.go"}
    run: exit 7
    on_error: closed
  - name: company
    on: tool.before
    match: {command: deploy}
    http: https://policy.example.com/v1
  - name: plan-first
    on: tool.before
    match: {command: terraform apply}
    after: {event: tool.before, match: {command: terraform init}}
    block: Plan first.
  - name: dry
    mode: observe
    on: tool.before
    match: {command: make}
    block: no make
  - name: twice
    on: tool.before
    match: {command: npm test}
    limit: {count: 2, per: 1m}
  - name: reminded
    on: tool.before
    match: {command: sh}
    after: {event: tool.after, match: {command: curl}, within: 10m}
    ask: That was fetched. Run it?
  - name: no-planning
    on: tool.before
    match: {mode: plan}
    block: not while planning
`

// read reads a test file next to a policy.
func read(t *testing.T, policyText, tests string) *policytest.File {
	t.Helper()
	file, errs := parse(t, policyText, tests)
	for _, err := range errs {
		t.Errorf("%v", err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	return file
}

func parse(t *testing.T, policyText, tests string) (*policytest.File, []*policyfile.Error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"grapnel.yaml": policyText, "grapnel_test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return policytest.Read(filepath.Join(dir, "grapnel_test.yaml"))
}

// run runs tests and returns one line with the result of each.
func run(t *testing.T, file *policytest.File, opts *policytest.Options) []string {
	t.Helper()
	results, err := policytest.Run(t.Context(), file.Tests, opts)
	if err != nil {
		t.Fatal(err)
	}
	return testKey(results)
}

func testKey(results []policytest.Result) []string {
	var list []string
	for _, r := range results {
		text := string(r.Status)
		for _, m := range r.Mismatches {
			text += "; " + m.String()
		}
		if r.Error != nil {
			text += "; " + r.Error.Error()
		}
		list = append(list, strings.ReplaceAll(text, filepath.Dir(r.Test.File.Path)+string(filepath.Separator), ""))
	}
	return list
}

// runTests are tests with their results in Claude Code.
var runTests = map[string]struct{ test, want string }{
	"a block":                   {`{command: git push --force, want: block}`, "pass"},
	"a block that is none":      {`{command: git push, want: block}`, "fail; decision: got none, want block"},
	"nothing":                   {`{command: git status, want: none}`, "pass"},
	"nothing, and a change":     {`{command: echo sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: none}`, `fail; changes: got tool.input, want none`},
	"nothing, and context":      {`{event: session.start, want: none}`, `fail; context: got ["house rules apply"], want none`},
	"any of two":                {`{command: git push -f, want: {decision: [ask, block]}}`, "pass"},
	"a person is asked":         {`{tool: write, path: deploy/prod/a.yaml, want: {decision: ask, reason: changes production, rule: keep-out-of-prod}}`, "pass"},
	"an edit":                   {`{tool: edit, path: deploy/prod/a.yaml, content: "a: 1", want: ask}`, "pass"},
	"by name":                   {`{tool: NotebookEdit, path: deploy/prod/a.ipynb, want: ask}`, "pass"},
	"another reason":            {`{tool: write, path: deploy/prod/a.yaml, want: {reason: because}}`, "fail; reason: got This changes production. Go on?, want because"},
	"a reason over two lines":   {`{tool: write, path: deploy/prod/a.yaml, want: {reason: "This changes\n  production."}}`, "pass"},
	"a reason that matches":     {`{tool: write, path: deploy/prod/a.yaml, want: {reason: "/^This .* Go on\\?$/"}}`, "pass"},
	"another rule":              {`{command: git push -f, want: {rule: keep-out-of-prod}}`, "fail; rule: got no-force-push, want keep-out-of-prod"},
	"any rule of two":           {`{command: git push -f, want: {rule: [keep-out-of-prod, no-force-push]}}`, "pass"},
	"no such rule":              {`{command: git push -f, want: {rule: no-force-psh}}`, `error; grapnel_test.yaml:3:41: grapnel.yaml has no hook "no-force-psh" (did you mean "no-force-push"?)`},
	"a prompt":                  {`{prompt: it is sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {prompt: it is sk-***}}}`, "pass"},
	"a prompt changed else":     {`{prompt: it is sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {prompt: hidden}}}`, `fail; prompt: got "it is sk-***", want "hidden"`},
	"no change":                 {`{prompt: hello, want: {changes: {prompt: hello}}}`, `fail; prompt: got no change of "hello", want "hello"`},
	"a command is changed":      {`{command: echo sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {tool.command: echo sk-***}}}`, "pass"},
	"an output":                 {`{command: env, output: KEY=sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {tool.output: KEY=sk-***}}}`, "pass"},
	"context":                   {`{event: {kind: session.start}, want: {context: [house, rules apply]}}`, "pass"},
	"other context":             {`{event: {kind: session.start}, want: {context: [house, garden]}}`, `fail; context: got ["house rules apply"], want garden`},
	"no context":                {`{event: {kind: session.start}, want: {context: []}}`, `fail; context: got ["house rules apply"], want none`},
	"the agent's own name":      {`{event: SessionStart, want: {context: house}}`, "pass"},
	"not":                       {`{command: git push -f, want: {not: {rule: keep-out-of-prod, decision: [none, ask]}}}`, "pass"},
	"not so":                    {`{command: git push -f, want: {not: block}}`, "fail; decision: got block, want not block"},
	"what came before":          {`{before: [terraform init], command: terraform apply, want: block}`, "pass"},
	"nothing came before":       {`{before: [terraform plan, {prompt: go}], command: terraform apply, want: none}`, "pass"},
	"a limit":                   {`{before: [npm test], command: npm test, want: none}`, "pass"},
	"a limit that is reached":   {`{before: [npm test, npm test], command: npm test, want: {decision: block, rule: twice}}`, "pass"},
	"a limit for now":           {`{before: [npm test, {command: npm test, later: 20s}], command: npm test, later: 39s, want: {decision: block, reason: "Try again in 1s, at 12:01:00."}}`, "pass"},
	"a limit that runs out":     {`{before: [npm test, {command: npm test, later: 20s}], command: npm test, later: 40s, want: none}`, "pass"},
	"within its time":           {`{before: [{command: curl x, output: ok}, {prompt: hi, later: 9m}], command: sh x, later: 59s, want: {rule: reminded}}`, "pass"},
	"after its time":            {`{before: [{command: curl x, output: ok}, {prompt: hi, later: 9m}], command: sh x, later: 1m, want: none}`, "pass"},
	"an observer":               {`{command: make, want: {decision: none, would: block}}`, "pass"},
	"another observer":          {`{command: make, want: {would: ask}}`, "fail; would: got block, want ask"},
	"a mode":                    {`{command: ls, mode: plan, want: {decision: block, rule: no-planning}}`, "pass"},
	"a program fails":           {`{tool: write, path: a.go, output: ok, want: block}`, `fail; hook lint: got "exit 7": exit code 7, want an answer`},
	"a program shall fail":      {`{tool: write, path: a.go, output: ok, want: {decision: block, failed: lint}}`, "pass"},
	"a program shall fail now":  {`{command: ls, want: {failed: [lint]}}`, "fail; hook lint: got an answer, want an error"},
	"a program's place":         {`{tool: write, path: a.go, output: ok, programs: {lint: {block: no}}, want: {decision: block, reason: no}}`, "pass"},
	"a program has no opinion":  {`{tool: write, path: a.go, output: ok, programs: {lint: none}, want: none}`, "pass"},
	"a program's output":        {`{tool: write, path: a.go, output: ok, programs: {lint: {exit: 2, stderr: not so}}, want: {decision: block, reason: not so}}`, "pass"},
	"a program's JSON":          {`{tool: write, path: a.go, output: ok, programs: {lint: {stdout: {context: [hm]}}}, want: {decision: none, context: hm}}`, "pass"},
	"a program's error":         {`{tool: write, path: a.go, output: ok, programs: {lint: {error: gone}}, want: {decision: block, reason: gone, failed: lint}}`, "pass"},
	"a program is late":         {`{tool: write, path: a.go, output: ok, programs: {lint: {timeout: true}}, want: {decision: block, failed: lint}}`, "pass"},
	"no such program":           {`{command: ls, programs: {lnt: none}, want: none}`, `error; grapnel_test.yaml:3:30: no hook "lnt" of grapnel.yaml runs a program or calls a server (did you mean "lint"?)`},
	"a server":                  {`{command: deploy, want: none}`, "fail; hook company: got grapnel.yaml: tests call no servers: set the answer of the hook company in `programs:`, want an answer"},
	"a server's place":          {`{command: deploy, programs: {company: {ask: sure?, message: hm, halt: stop}}, want: {decision: block, message: hm, halt: stop}}`, "pass"},
	"a server's change":         {`{command: deploy, programs: {company: {set: {tool.command: deploy -n}}}, want: {changes: {tool.command: deploy -n}}}`, "pass"},
	"what was sent":             {`{payload: {hook_event_name: PreToolUse, session_id: s, cwd: /repo, tool_name: Bash, tool_input: {command: git push -f}}, agent: claude, want: {reply: {stdout: "/\"deny\"/", stderr: "", exit: 0}}}`, "pass"},
	"what the agent gets":       {`{command: git status, want: {replies: {claude-code: {stdout: "", stderr: "", exit: 0}}}}`, "pass"},
	"what the agent gets, else": {`{command: git status, want: {reply: {stdout: {a: 1}, exit: 2}}}`, `fail; stdout of claude-code: got nothing, want {"a":1}; exit code of claude-code: got 0, want 2`},
	"a skipped one":             {`{command: git status, skip: not yet, want: block}`, "skip"},
}
