package policytest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// put writes files below a new directory, and returns that directory.
func put(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loaded reads a valid test file.
func loaded(t *testing.T, name string) *policytest.File {
	t.Helper()
	file, errs := policytest.Read(name)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return file
}

// all checks that there are n results and that every test passes.
func all(t *testing.T, n int, got []string) {
	t.Helper()
	if len(got) != n {
		t.Errorf("%d results, want %d: %q", len(got), n, got)
	}
	for i, text := range got {
		if text != string(policytest.Passed) {
			t.Errorf("test %d: %s", i+1, text)
		}
	}
}

// If a file cannot be copied into the project of a test, the error has the position of its name.
func TestSeeds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files without anything in them take room there")
	}
	dir := put(t, map[string]string{"grapnel.yaml": "version: 1\n", "big/a": "", "big/b": ""})
	for _, name := range []string{"a", "b"} { // with nothing in them
		if err := os.Truncate(filepath.Join(dir, "big", name), 40<<20); err != nil {
			t.Fatal(err)
		}
	}
	for from, want := range map[string]string{
		"big":      "big is too large for a test: more than 10000 files or 64 MB",
		os.DevNull: "it is not a regular file",
	} {
		name := filepath.Join(dir, "p_test.yaml")
		if err := os.WriteFile(name, []byte("version: 1\npolicy: grapnel.yaml\ntests:\n  - {command: ls, files: {x: {from: "+from+"}}, want: none}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want = "error; p_test.yaml:4:27: cannot make the file x of the project: " + want
		if got := run(t, loaded(t, name), nil); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

// Recorded input is replayed in its original format: a payload, a golden conversation, a Record.
func TestRecorded(t *testing.T) {
	t.Parallel()
	const push = `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/repo","tool_name":"Bash","tool_input":{"command":"git push -f"}}`
	const geminiPush = `{"session_id":"s","transcript_path":"","cwd":"/repo","hook_event_name":"BeforeTool","timestamp":"2026-11-20T20:10:06.168Z","tool_name":"run_shell_command","tool_input":{"command":"git push -f"}}`
	dir := put(t, map[string]string{
		"grapnel.yaml":          house,
		"push.json":             push,
		"gemini-cli/push.txtar": "Push.\n-- stdin.json --\n" + geminiPush + "\n-- event.json --\n{}\n",
		"record.json":           `{"id":"1","agent":"gemini-cli","event":"tool.before","hooks":[],"input":{"kind":"tool.before","native":` + geminiPush + `}}`,
		"plain.json":            `{"id":"1","agent":"claude-code","event":"tool.before","hooks":[],"input":{"kind":"tool.before","session":{"id":"s","cwd":"/repo"},"tool":{"name":"Bash","class":"shell","input":{"command":"git push -f"},"facts":[{"field":"tool.command","at":"/command"}]}}}`,
		"grapnel_test.yaml": `
version: 1
tests:
  - {name: a payload, agent: claude-code, payload: push.json, want: {decision: block, reply: {stdout: '/"permissionDecision":"deny"/', exit: 0}}}
  - {name: for another, agent: claude-code, payload: push.json, agents: [gemini-cli], want: {decision: block, replies: {gemini-cli: {stdout: '/"decision":"deny"/'}}}}
  - {name: a conversation, payload: gemini-cli/push.txtar, want: {decision: block, reply: {stdout: '/"decision":"deny"/'}}}
  - {name: a Record, payload: record.json, want: {decision: block, reply: {stdout: '/"decision":"deny"/'}}}
  - {name: a Record of another, payload: plain.json, want: {decision: block}}
  - {name: of its session, agent: claude-code, before: [npm test, npm test], payload: {hook_event_name: PreToolUse, session_id: theirs, cwd: /repo, tool_name: Bash, tool_input: {command: npm test}}, want: block}
`,
	})
	file := loaded(t, filepath.Join(dir, "grapnel_test.yaml"))
	results, err := policytest.Run(t.Context(), file.Tests, nil)
	if err != nil {
		t.Fatal(err)
	}
	all(t, 6, testKey(results))
	var agents []string
	for i := range results {
		agents = append(agents, results[i].Agent)
	}
	if want := []string{"claude-code", "gemini-cli", "gemini-cli", "gemini-cli", "plain", "claude-code"}; !slices.Equal(agents, want) {
		t.Errorf("the agents are %v, want %v", agents, want)
	}
	_, errs := policytest.Parse(filepath.Join(dir, "grapnel_test.yaml"), []byte(test("payload: grapnel.yaml, agent: claude, want: none")))
	if len(errs) != 1 || !strings.Contains(errs[0].Msg, "it is not valid JSON") {
		t.Errorf("no JSON: %v", errs)
	}
}

// A test can name a pack instead of a policy, in every scope, and a run can test another policy
// instead.
func TestPackAndPlace(t *testing.T) {
	t.Parallel()
	file := read(t, "version: 1\n", "version: 1\npack: destructive\ntests:\n  - {command: git push -f, want: {decision: block, rule: no-force-push}}\n")
	all(t, 1, run(t, file, nil))
	file = read(t, "version: 1\n", test("command: git push -f, want: {decision: block, rule: mine}"))
	other := filepath.Join(put(t, map[string]string{"new.yaml": "version: 1\nhooks: [{name: mine, on: tool.before, match: {command: git push}, block: true}]\n"}), "new.yaml")
	all(t, 1, run(t, file, &policytest.Options{Policy: other}))
}

// A policy has only the effects that its scope permits.
func TestScope(t *testing.T) {
	t.Parallel()
	const allows = "version: 1\nhooks: [{name: go, on: tool.before, match: {command: make}, allow: true}]\n"
	for scope, want := range map[string]string{"user": "allow", "managed": "allow", "project": "none"} {
		file := read(t, allows, "version: 1\nscope: "+scope+"\ntests:\n  - {command: make, want: {decision: "+want+"}}\n")
		all(t, 1, run(t, file, nil))
	}
}

// An invalid policy is an error of each of its tests.
func TestBrokenPolicy(t *testing.T) {
	t.Parallel()
	file := read(t, "version: 1\nhooks: [{name: a, on: tool.befor, block: true}]\n", test("command: make, want: none"))
	if got := run(t, file, nil); len(got) != 1 || !strings.HasPrefix(got[0], `error; cannot load the policy: grapnel.yaml:2:23: unknown event "tool.befor"`) {
		t.Errorf("got %q", got)
	}
}

// Neither the order of tests nor the number of parallel tests changes a result: limits,
// sequences, stops and files of programs are per test.
func TestOrder(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("version: 1\ntests:\n")
	for i := range 12 {
		fmt.Fprintf(&text, "  - {name: limit %d, before: [npm test, npm test], command: npm test, want: block}\n", i)
		fmt.Fprintf(&text, "  - {name: below %d, before: [npm test], command: npm test, want: none}\n", i)
		fmt.Fprintf(&text, "  - {name: apply %d, command: terraform apply, want: {not: {rule: plan-first}}}\n", i)
		fmt.Fprintf(&text, "  - {name: init %d, before: [terraform init], command: terraform apply, want: {rule: plan-first}}\n", i)
	}
	file := read(t, house, text.String())
	backwards := *file
	backwards.Tests = slices.Clone(file.Tests)
	slices.Reverse(backwards.Tests)
	for _, file := range []*policytest.File{file, &backwards} {
		for _, parallel := range []int{1, 2, 8} {
			all(t, 48, run(t, file, &policytest.Options{Parallel: parallel}))
		}
	}
}

// Results come in the order of the tests. After too many failures the same tests are left out,
// independent of the number of parallel tests.
func TestMax(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("version: 1\ntests:\n")
	for i := range 40 {
		want := "none"
		if i%7 == 6 {
			want = "block"
		}
		fmt.Fprintf(&text, "  - {name: t%02d, command: ls, want: %s}\n", i, want)
	}
	file := read(t, house, text.String())
	for _, parallel := range []int{1, 3, 16} {
		var done []string
		results, err := policytest.Run(t.Context(), file.Tests, &policytest.Options{Parallel: parallel, Max: 3, Done: func(r *policytest.Result) { done = append(done, r.Test.Name) }})
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != 21 || results[20].Test.Name != "t20" || results[20].Status != policytest.Failed {
			t.Errorf("%d at once: %d results, want 21", parallel, len(results))
		}
		if !slices.IsSorted(done) || len(done) != len(results) {
			t.Errorf("%d at once: told of %v", parallel, done)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if results, err := policytest.Run(ctx, file.Tests, nil); err != nil || len(results) > 0 {
		t.Errorf("a run that was cancelled has %d results, %v", len(results), err)
	}
}

// Results contain each event as it was fired and the active hooks. A caller can replace the
// hooks.
func TestSeams(t *testing.T) {
	t.Parallel()
	file := read(t, house, test("name: a, before: [ls], command: git push -f, want: block", "name: b, prompt: hi, want: none"))
	without := func(req load.Request) load.Set {
		set := load.Policies(req)
		set.Specs = slices.DeleteFunc(set.Specs, func(s grapnel.Spec) bool { return s.Name == "no-force-push" })
		return set
	}
	results, err := policytest.Run(t.Context(), file.Tests, nil)
	if err != nil {
		t.Fatal(err)
	}
	all(t, 2, testKey(results))
	f := results[0].Firings
	if len(f) != 2 || f[0].Record.Input.Tool.Commands[0] != "ls" || f[1].Record.Input.Tool.Commands[0] != "git push -f" || !slices.Equal(f[1].By(), []string{"no-force-push"}) {
		t.Errorf("the firings are %v", f)
	}
	if !slices.ContainsFunc(f[1].Specs(), func(s grapnel.Spec) bool { return s.Name == "no-force-push" }) {
		t.Error("the hook in force is missing")
	}
	got := run(t, file, &policytest.Options{Load: without})
	if len(got) != 2 || got[0] != "fail; decision: got none, want block" || got[1] != "pass" {
		t.Errorf("without the hook: %q", got)
	}
}

// The time of a decision is measured on request.
func TestBench(t *testing.T) {
	t.Parallel()
	file := read(t, house, test("before: [ls], command: git push -f, want: block"))
	results, err := policytest.Run(t.Context(), file.Tests, &policytest.Options{Bench: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if b := results[0].Bench; b == nil || b.N < 1 || b.Fast <= 0 || b.Median < b.Fast || b.Allocs == 0 || b.Bytes == 0 {
		t.Errorf("measured %+v", b)
	}
}

// JUnit XML has a suite for each file. It contains failed, broken and skipped tests, and the
// errors of files that cannot be read.
func TestJUnit(t *testing.T) {
	t.Parallel()
	file := read(t, house, test("name: good, command: ls, want: none", "name: \"bad <&\\x01>\", command: ls, want: block", "name: broken, command: ls, want: {rule: nobody}", "name: later, command: ls, skip: not yet, want: block"))
	results, err := policytest.Run(t.Context(), file.Tests, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := policytest.WriteJUnit(&b, results, []*policyfile.Error{{File: "x_test.yaml", Line: 3, Col: 1, Msg: "wrong"}}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Suites []struct {
			Name     string `xml:"name,attr"`
			Tests    int    `xml:"tests,attr"`
			Failures int    `xml:"failures,attr"`
			Errors   int    `xml:"errors,attr"`
			Skipped  int    `xml:"skipped,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Line    int    `xml:"line,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, &b)
	}
	if len(got.Suites) != 2 || got.Suites[0].Errors != 1 {
		t.Fatalf("got %s", &b)
	}
	s := got.Suites[1]
	if s.Tests != 4 || s.Failures != 1 || s.Errors != 1 || s.Skipped != 1 || s.Cases[1].Line != 4 || s.Cases[1].Failure == nil ||
		s.Cases[1].Failure.Message != "decision: got none, want block" || !strings.Contains(s.Cases[1].Failure.Text, `"commands":["ls"]`) {
		t.Errorf("got %s", &b)
	}
}

// Details describes everything about a failure, and Report returns it as data.
func TestDetails(t *testing.T) {
	t.Parallel()
	file := read(t, house, "version: 1\ncwd: /repo\ntests:\n  - {before: [ls], command: git push -f, want: none}\n")
	results, err := policytest.Run(t.Context(), file.Tests, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &results[0]
	got := strings.ReplaceAll(r.Details(), file.Policy, "grapnel.yaml")
	for _, want := range []string{
		"\tdecision: got block, want none\n", "\tbefore   {\"kind\":\"tool.before\"", "\tevent    {\"kind\":\"tool.before\"", "\tverdict  {\"decision\":\"block\"",
		"\thook     no-force-push (grapnel.yaml:", "\tby       no-force-push\n", "\texplain  printf '%s' '{\"cwd\":\"/repo\"", "| grapnel explain claude-code --policy grapnel.yaml\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	text, err := json.Marshal(r.Report())
	if err != nil {
		t.Fatal(err)
	}
	var line struct {
		Line       int      `json:"line"`
		Status     string   `json:"status"`
		By         []string `json:"by"`
		Mismatches []policytest.Mismatch
		Verdict    struct{ Decision string }
	}
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]policytest.Mismatch{{What: "decision", Want: "none", Got: "block"}}, line.Mismatches); diff != "" || line.Line != 4 || line.Status != "fail" || line.Verdict.Decision != "block" || line.By[0] != "no-force-push" {
		t.Errorf("%s%s", diff, text)
	}
}

// Find returns test files by their names, below the given directories.
func TestFind(t *testing.T) {
	t.Parallel()
	dir := put(t, map[string]string{
		"a_test.yaml": "", "b_test.yml": "", "c.yaml": "", "sub/d_test.yaml": "", ".hidden/e_test.yaml": "", "node_modules/f_test.yaml": "", "k8s/g_test.yaml": "",
	})
	for name, tt := range map[string]struct {
		paths, ignore []string
		want          string
	}{
		"all":        {[]string{"."}, nil, "a_test.yaml b_test.yml k8s/g_test.yaml sub/d_test.yaml"},
		"ignored":    {[]string{"."}, []string{"k8s", "b_*"}, "a_test.yaml sub/d_test.yaml"},
		"by path":    {[]string{"."}, []string{"**/sub/**"}, "a_test.yaml b_test.yml k8s/g_test.yaml"},
		"named":      {[]string{"c.yaml", "sub"}, nil, "c.yaml sub/d_test.yaml"},
		"named once": {[]string{"a_test.yaml", "."}, []string{"k8s", "b_*", "sub"}, "a_test.yaml"},
		"a hidden":   {[]string{".hidden"}, nil, ".hidden/e_test.yaml"},
	} {
		var paths []string
		for _, path := range tt.paths {
			paths = append(paths, filepath.Join(dir, path))
		}
		files, err := policytest.Find(paths, tt.ignore)
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			rel, err := filepath.Rel(dir, file)
			if err != nil {
				t.Fatal(err)
			}
			files[i] = filepath.ToSlash(rel)
		}
		if got := strings.Join(files, " "); got != tt.want {
			t.Errorf("%s: found %s, want %s", name, got, tt.want)
		}
	}
	if _, err := policytest.Find([]string{filepath.Join(dir, "nowhere")}, nil); err == nil {
		t.Error("what is not there is found")
	}
}

// A test states the branch, so that it passes on a machine without the repository.
func TestBranchOfATest(t *testing.T) {
	t.Parallel()
	dir := put(t, map[string]string{
		"p.yaml": `version: 1
hooks:
  - {name: not-on-main, on: tool.before, match: {branch: main, command: git commit}, block: not on main}
  - {name: no-edits, on: tool.before, match: {branch: main, tool: edit}, block: not on main}
  - {name: no-push, on: tool.before, match: {pushes: main}, block: not to main}
`,
		"p_test.yaml": `version: 1
tests:
  - {command: git commit -m x, branch: main, want: {decision: block, rule: not-on-main}}
  - {command: git commit -m x, branch: feature/a, want: none}
  - {tool: edit, path: a.go, content: x, branch: main, want: block}
  - {tool: edit, path: wt/a.go, content: x, branch: {.: main, wt: topic}, want: none}
  - each: [{want: block}, {branch: topic, want: none}]
    command: git push
    branch: main
  - {command: cd wt && git commit -m x, branch: {.: topic, wt: main}, want: block}
  - {command: cd wt && git commit -m x, branch: {.: main, wt: topic}, files: {wt/x: y}, want: none}
`,
		"bad_test.yaml": `version: 1
policy: p.yaml
tests:
  - {command: ls, branch: ../x, want: none}
  - {command: ls, branch: [main], want: none}
  - {command: ls, branch: {../x: main}, want: none}
  - {command: ls, branch: main, cwd: /tmp, want: none}
`,
	})
	all(t, 8, run(t, loaded(t, filepath.Join(dir, "p_test.yaml")), nil))
	_, errs := policytest.Read(filepath.Join(dir, "bad_test.yaml"))
	if len(errs) != 4 {
		t.Errorf("errors %v, want 4", errs)
	}
}
