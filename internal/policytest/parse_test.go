package policytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/documents"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// An error in a test file has a position, and a hint if the fix is known.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"empty":                  {"", "1:1: the file is empty (write `version: 1` and a list of `tests:`)"},
		"no YAML":                {"version: 1\n\ttests: []", "2:1: "},
		"a list":                 {"- a", "1:1: a file of tests must be a mapping, not a list"},
		"no version":             {"tests: []", "1:1: the version is missing (write `version: 1` as the first line)"},
		"another version":        {"version: 2\ntests: []", "1:10: unknown version 2 (write `version: 1`)"},
		"no tests":               {"version: 1", "1:1: the file has no tests"},
		"tests no list":          {"version: 1\ntests: {a: b}", "2:9: tests must be a list, not a mapping"},
		"unknown key":            {"version: 1\ntest: []", `2:1: unknown key of a file of tests "test" (did you mean "tests"?)`},
		"unknown pack":           {"version: 1\npack: destructiv\ntests: []", `2:7: unknown pack "destructiv" (did you mean "destructive"?)`},
		"policy and pack":        {"version: 1\npack: destructive\npolicy: a.yaml\ntests: []", "3:9: a file tests either a policy or a pack"},
		"unknown scope":          {"version: 1\nscope: root\ntests: []", `2:8: unknown scope "root" (valid values: user, project, managed)`},
		"unknown agent":          {"version: 1\nagents: [claud]\ntests: []", `2:10: unknown agent "claud" (did you mean`},
		"an agent twice":         {"version: 1\nagents: [claude, claude-code]\ntests: []", "2:18: the agent claude-code is listed twice"},
		"a bad variable":         {"version: 1\nvars: {a-b: c}\ntests: []", `2:8: "a-b" is not a variable name`},
		"no want":                {test("command: ls"), "3:6: the test has no `want` (for example `want: block`)"},
		"empty want":             {test("command: ls, want: {}"), "3:25: want is empty: the test checks nothing (for example `want: {decision: block, rule: no-force-push}`)"},
		"nothing happens":        {test("name: a, want: none"), "3:6: a test contains no event"},
		"two things":             {test("command: ls, prompt: hi, want: none"), "3:6: a test contains several events: a call, prompt"},
		"a misspelt key":         {test("comand: ls, want: none"), `3:6: unknown key of a test "comand" (did you mean "command"?)`},
		"a misspelt want":        {test("command: ls, want: {decison: none}"), `3:26: unknown key of want "decison" (did you mean "decision"?)`},
		"a bad decision":         {test("command: ls, want: deny"), `3:25: unknown decision "deny" (valid values: none, allow, ask, block)`},
		"a bad pattern":          {test("command: ls, want: {reason: /(/}"), "3:34: error parsing regexp"},
		"a field":                {test("command: ls, want: {changes: {comand: x}}"), `3:36: unknown field "comand" (valid values: tool.command, `},
		"a misspelt tool":        {test("tool: Writ, path: a, want: none"), `3:6: unknown tool "Writ" (did you mean`},
		"a tool of others":       {test("tool: run_shell_command, command: ls, want: none"), `3:6: unknown tool "run_shell_command" (write a class`},
		"a class of many":        {test("tool: mcp, want: none"), "3:6: the class mcp has many tools (write the name of one"},
		"no path there":          {test("tool: shell, path: a, want: none"), "3:6: the tool Bash has no path (write its input as `input: {...}`)"},
		"does not name the tool": {test("path: a, want: none"), "3:6: the test does not name the tool (for example `tool: write`)"},
		"input no mapping":       {test("tool: Skill, input: a, want: none"), "3:26: input must be a mapping, not text"},
		"output of a prompt":     {test("prompt: a, output: b, want: none"), "3:6: `output` and `error` need a tool call"},
		"output and error":       {test("command: a, output: b, error: c, want: none"), "3:6: a call has either an `output` or an `error`"},
		"no such event":          {test("event: tool.befor, want: none"), `3:13: unknown event "tool.befor" (did you mean "tool.before"?)`},
		"event of no kind":       {test("event: {tool: {name: Bash}}, want: none"), "3:14: the event has no kind"},
		"whose payload":          {test("payload: {a: b}, want: none"), "3:16: cannot detect which agent sent this payload (add `agent:`)"},
		"whose of two":           {test("agents: [claude-code, codex], payload: {a: b}, want: none"), "3:46: cannot detect which agent sent this payload (add `agent:`)"},
		"whose before":           {test("before: [{payload: {a: b}}], command: ls, want: none"), "3:26: cannot detect which agent sent this payload (add `agent:`)"},
		"not in this agent":      {test("agents: claude-code, payload: {a: b}, event: model.before, want: none"), "3:51: claude-code has no event model.before"},
		"no payload":             {test("payload: nowhere.json, want: none"), "3:15: cannot read the payload nowhere.json: "},
		"agent for agents":       {test("command: ls, agent: gemini, want: none"), "3:26: `agent` needs `payload` (`agents:` lists the agents in which a test runs)"},
		"a mode of an event":     {test("event: session.start, mode: plan, want: none"), "3:6: `mode` and `subagent` need a tool call"},
		"names twice":            {test("name: a, command: ls, want: none", "name: a, command: ps, want: none"), `4:6: two tests have the name "a", the first in line 3 (names must be unique in a file; `},
		"an empty table":         {test("each: [], want: none"), "3:12: each must be a list of rows"},
		"a bad row":              {test("each: [ls, {comand: a}], want: none"), `3:18: unknown key of a test "comand"`},
		"files and cwd":          {test("command: ls, cwd: /a, files: {b: c}, want: none"), "leave `cwd` out"},
		"a file outside":         {test("command: ls, files: {../b: c}, want: none"), `3:27: the file "../b" is outside of the project`},
		"a file from no":         {test("command: ls, files: {b: {from: nowhere}}, want: none"), "3:37: nowhere does not exist"},
		"a bad answer":           {test("command: ls, programs: {a: {blok: no}}, want: none"), `3:34: unknown key of an answer "blok" (did you mean "block"?)`},
		"two answers":            {test("command: ls, programs: {a: {block: no, exit: 2}}, want: none"), "3:34: an answer has either the output of the program (exit, stdout, stderr) or its meaning"},
		"a bad exit":             {test("command: ls, want: {reply: {exit: one}}"), `3:40: want a whole number, not "one"`},
		"a reply of nobody":      {test("command: ls, want: {replies: {emacs: {exit: 0}}}"), `3:36: unknown agent "emacs"`},
		"later than nothing":     {test("command: ls, later: 5m, want: none"), "3:26: `later` needs an earlier event (write the earlier events as `before:`)"},
		"later at first":         {test("command: ls, before: [{command: a, later: 5m}], want: none"), "3:48: `later` needs an earlier event"},
		"later without unit":     {test("command: ls, before: a, later: 5, want: none"), `3:37: "5" is not a duration (write a number with a unit: 30s, 10m, 2h)`},
		"earlier":                {test("command: ls, before: a, later: -5m, want: none"), `3:37: want a duration above zero, not "-5m"`},
		"later, a list":          {test("command: ls, before: a, later: [5m], want: none"), "3:37: want a duration, not a list"},
		"later than anything":    {test("command: ls, before: [a, {command: b, later: 8000h}], later: 8000h, want: none"), "3:67: more than 8760h pass in this test (no hook remembers anything that long)"},
		"no mapping":             {"version: 1\ntests: [ls]", "2:9: a test must be a mapping, not text (for example `{command: git push --force, want: block}`)"},
		"nothing as a test":      {"version: 1\ntests:\n  -\n", "3:4: a test must be a mapping, not nothing"},
		"want of nothing":        {test("command: ls, want: "), "3:24: want text, not nothing"},
		"any of no decisions":    {test("command: ls, want: []"), "3:25: the list is empty (leave it out)"},
		"any of no rules":        {test("command: ls, want: {rule: []}"), "3:32: the list is empty"},
		"no agents":              {test("command: ls, agents: [], want: none"), "3:27: the list is empty"},
		"an agent of numbers":    {test("command: ls, agents: [{a: b}], want: none"), "3:29: want text, not a mapping"},
		"a foreign agent":        {test("command: ls, agents: [emacs], want: none"), `3:28: unknown agent "emacs" (valid values: claude-code, `},
		"any reason":             {test("command: ls, want: {reason: ''}"), "3:34: want text, got an empty value"},
		"not nothing":            {test("command: ls, want: {not: {}}"), "3:31: not is empty: the test checks nothing (for example `not: {rule: no-force-push}`)"},
		"any reply":              {test("command: ls, want: {reply: {}}"), "3:33: reply is empty: the test checks nothing"},
		"no replies":             {test("command: ls, want: {replies: {}}"), "3:35: replies is empty: the test checks nothing"},
		"a reply twice":          {test("command: ls, want: {replies: {claude: {exit: 0}, claude-code: {exit: 0}}}"), "3:55: the agent claude-code is listed twice"},
		"a reply of another":     {test("command: ls, want: {replies: {gemini: {exit: 0}}}"), "3:36: the test does not run in gemini, so this reply is never checked (`agents:` lists the agents in which a test runs)"},
		"a table in a table":     {test("each: [{each: [ls]}], want: none"), "3:20: a row of a table cannot be a table (write a separate table)"},
		"an empty name":          {test("name: '', command: ls, want: none"), "3:12: want text, got an empty value"},
		"no answer":              {test("command: ls, programs: {a: }, want: none"), "an answer must be a mapping, not nothing (for example `none`, `block` or `{block: reason}`)"},
		"an odd end":             {test("command: ls, programs: {a: {exit: 256}}, want: none"), "3:40: an exit code is a number from 0 to 255"},
		"a file that is all":     {test("command: ls, files: {.: c}, want: none"), `3:27: the file "." is outside of the project`},
		"a file in a file":       {test("command: ls, files: {a: b, a/c: d}, want: none"), `3:33: "a" is already a file of this project, in line 3`},
		"a file of nothing":      {test("command: ls, files: {a: {}}, want: none"), "3:30: the file a has no content"},
		"a directory":            {test("payload: ., want: none"), "3:15: cannot read the payload .: it is not a regular file"},
		"a misspelt variable":    {"version: 1\nvars: {branch: main}\ntests:\n  - {command: 'git push ${brnch}', want: none}", "4:15: ${brnch} is not a variable of this file, and its variable ${branch} is never used (did you mean ${branch}? Write $${brnch} for a variable of the shell)"},
		"no such policy":         {"version: 1\npolicy: other.yaml\ntests: []", "2:9: policy other.yaml does not exist (names are relative to the directory of this file)"},
		"a list of packs":        {"version: 1\npack: []\ntests: []", "2:7: want text, not a list"},
		"version of nothing":     {"version:\ntests: []", "1:9: want text, not nothing"},
		"no event at all":        {test("event: 5, want: none"), "3:13: the event has no kind"},
		"no near event":          {test("event: monday, want: none"), `3:13: unknown event "monday" (for example ` + "`session.start`" + `; docs/events.md lists them)`},
		"a part of no event":     {test("event: {kind: prompt.before, promt: {text: hi}}, want: none"), `3:35: unknown part of event "promt" (did you mean "prompt"?)`},
		"a part of no tool":      {test("event: {kind: tool.before, tool: {nam: Bash}}, want: none"), `3:40: unknown part of tool "nam" (did you mean "name"?)`},
		"a tool that is none":    {test("event: {kind: tool.before, tool: 5}, want: none"), "3:39: tool must be a mapping, not a number"},
		"a skip of nothing":      {test("command: ls, skip: true, want: none"), "3:25: skip must give a reason"},
		"empty decision":         {test(`command: ls, want: ""`), `3:25: unknown decision "" (valid values: none, allow, ask, block)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs := parse(t, "version: 1\n", tt.text)
			if len(errs) == 0 {
				t.Fatalf("no error\n%s", tt.text)
			}
			if got := errs[0].Error(); !strings.Contains(got, tt.want) {
				t.Errorf("%s\ngot  %s\nwant %s", tt.text, got, tt.want)
			}
		})
	}
}

// An error in the shared part of a table is reported once. Replies may be for some of the rows. A
// variable that the file does not define is left to the shell.
func TestParseOnce(t *testing.T) {
	t.Parallel()
	if _, errs := parse(t, "version: 1\n", test("each: [ls, ps, df], before: [{command: a, later: 1s}], wnt: none")); len(errs) != 1 {
		t.Errorf("%d errors, want 1: %v", len(errs), errs)
	}
	read(t, "version: 1\n", test("each: [{agents: [codex]}, {agents: [gemini]}], command: ls, want: {replies: {codex: {exit: 0}, gemini: {exit: 0}}}"))
	read(t, "version: 1\n", "version: 1\nvars: {home: /home, x: y}\ntests: [{command: 'ls ${home} ${HOME} $${z}', want: none}]")
}

// Endless files, and pipes that wait for a writer, are not read.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), "long_test.yaml")
	if err := os.WriteFile(long, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, 1<<30); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		t.TempDir():       "cannot read the file: it is not a regular file",
		os.DevNull:        "cannot read the file: it is not a regular file",
		long:              "cannot read the file: it has 1073741824 bytes, the limit is 33554432",
		long + "_nowhere": "cannot read the file: ",
	} {
		if _, errs := policytest.Read(name); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("Read(%s) = %v, want %s", name, errs, want)
		}
	}
}

// test returns the text of a test file with these tests.
func test(tests ...string) string {
	return "version: 1\ntests:\n  - {" + strings.Join(tests, "}\n  - {") + "}\n"
}

// A test file tests the policy next to it, unless it names another one.
func TestWhatIsTested(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yml", "sub/c.yaml"} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("version: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct{ file, head, policy, err string }{
		"beside":       {"a_test.yaml", "", "a.yaml", ""},
		"short ending": {"b_test.yaml", "", "b.yml", ""},
		"of both":      {"b_test.yml", "", "b.yml", ""},
		"said":         {"a_test.yaml", "policy: sub/c.yaml\n", "sub/c.yaml", ""},
		"absent":       {"d_test.yaml", "", "", "policy d.yaml does not exist in its directory (write `policy: FILE`)"},
		"any name":     {"cases.yaml", "", "", "the file does not name the policy"},
		"named so":     {"cases.yaml", "policy: a.yaml\n", "a.yaml", ""},
	} {
		file, errs := policytest.Parse(filepath.Join(dir, tt.file), []byte("version: 1\n"+tt.head+"tests: []\n"))
		if tt.err != "" {
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tt.err) {
				t.Errorf("%s: %v, want %s", name, errs, tt.err)
			}
			continue
		}
		if want := filepath.Join(dir, filepath.FromSlash(tt.policy)); len(errs) > 0 || file.Policy != want {
			t.Errorf("%s: tests %s %v, want %s", name, file.Policy, errs, want)
		}
	}
}

// Names of tests without a name, of rows of tables, and with variables.
func TestNames(t *testing.T) {
	t.Parallel()
	file := read(t, "version: 1\n", `
version: 1
vars: {main: trunk, n: 5}
tests:
  - {command: 'git push origin ${main} ${HOME} $${main}', want: none}
  - {tool: write, path: a.go, want: none}
  - {command: make, output: ok, want: none}
  - {command: make, error: no, want: none}
  - {prompt: "hello\nworld", want: none}
  - {event: session.start, want: none}
  - {tool: mcp__lab__echo, input: {n: 1}, want: none}
  - {url: "https://example.com", want: none}
  - {before: [ls, {prompt: hi}], command: ps, want: none}
  - {payload: {hook_event_name: Stop, session_id: s, cwd: /}, agent: claude, want: none}
  - {before: [ls, {prompt: hi, later: 90s}], later: 2h, command: ps, want: none}
  - {command: ls, want: none}
  - {each: [ls, ls], want: none}
  - {command: '', want: none}
  - {agents: antigravity, event: tool.before, payload: {toolCall: {name: run_command, args: {CommandLine: make test}}}, want: none}
  - {agents: codex, payload: {hook_event_name: PreToolUse, tool_name: Bash, tool_input: {command: make}}, before: [{payload: {hook_event_name: PermissionRequest, tool_name: Bash, tool_input: {command: ls}}}], want: none}
  - {command: ls, want: none}
  - name: table
    want: none
    each:
      - ls
      - {name: two, command: ls}
      - {tool: read, path: '${n}'}
`)
	want := []string{
		"git push origin trunk ${HOME} ${main}", "write a.go", "make (done)", "make (failed)", "prompt: hello world", "session.start",
		`mcp__lab__echo {"n":1}`, "fetch https://example.com", "ps, after prompt: hi, after ls", "agent.after", "ps, 2h after prompt: hi, 1m30s after ls", "ls", "ls (line 17)", "ls (line 17, test 14)", "an empty command", "make test", "make, after ls (permission.before)", "ls (line 21)",
		"table: ls", "table: two", "table: read 5",
	}
	for i, test := range file.Tests {
		if i >= len(want) || test.Name != want[i] {
			t.Errorf("test %d in line %d is called %q, want %q", i, test.Line, test.Name, append(want, "nothing")[i])
		}
	}
	if got := file.Tests[len(file.Tests)-1].Line; got != 27 {
		t.Errorf("the last row stands in line %d, want 27", got)
	}
}

// The schema accepts every file that Parse accepts.
func TestSchema(t *testing.T) {
	t.Parallel()
	refuses, err := documents.Validator(policytest.Schema())
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text string) error {
		if _, err := yaml.Parse([]byte(text)); err != nil {
			t.Fatal(err) // the schema is not affected
		}
		return refuses(text)
	}
	if strings.Contains(policytest.Schema(), `"$`+`agentName"`) {
		t.Error("the names of agents are missing")
	}
	var texts []string
	for _, pattern := range []string{"../../*/testdata/policies/*_test.yaml", "../../examples/*/*_test.yaml", "../../packs/*_test.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(data))
		}
	}
	for _, tt := range runTests {
		texts = append(texts, "version: 1\ntests:\n  - "+tt.test+"\n")
	}
	if len(texts) < 40 {
		t.Errorf("only %d files of tests", len(texts))
	}
	for _, text := range texts {
		if err := valid(text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	for _, text := range []string{
		"version: 2\ntests: []", "tests: []", "version: 1\ntest: []", test("comand: ls, want: none"), test("command: ls, want: deny"), test("command: ls, want: {}"),
		test("command: ls, want: {rules: a}"), test("event: {tool: a}, want: none"), test("command: ls, programs: {a: {blok: b}}, want: none"), test("command: ls, want: {changes: {comand: x}}"),
		test("event: {kind: prompt.before, promt: {text: hi}}, want: none"), test("event: {kind: tool.before, tool: {nam: Bash}}, want: none"), test("event: null, want: none"),
		test("command: ls, before: a, later: 5, want: none"), test("command: ls, before: {command: a, later: -5m}, want: none"),
		test("command: ls, want: []"), test("command: ls, want: {rule: []}"), test("command: ls, agents: [], want: none"), test("command: ls, want: {reason: ''}"),
		test("command: ls, want: {not: {}}"), test("command: ls, want: {reply: {}}"), test("command: ls, want: {replies: {}}"), test("command: ls, files: {a: {}}, want: none"),
		test("command: ls, programs: {a: {exit: 256}}, want: none"),
		"version: 1\npack: destructiv\ntests: []", "version: 1\nscope: root\ntests: []", "version: 1\nagents: [emacs]\ntests: []",
	} {
		if err := valid(text); err == nil {
			t.Errorf("the schema accepts what Parse refuses:\n%s", text)
		}
	}
}
