package policytest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy/load"
)

const recordedPolicy = `version: 1
hooks:
  - {name: no-push, on: tool.before, match: {command: git push}, block: no}
  - {name: no-keys, on: tool.before, match: {path: "~/.ssh/**"}, ask: sure}
`

// kept returns a Record of a Claude Code call.
func kept(t *testing.T, payload string, runs ...grapnel.HookRun) *spool.Entry {
	t.Helper()
	if !json.Valid([]byte(payload)) {
		t.Fatalf("no JSON: %s", payload)
	}
	e := &spool.Entry{Record: grapnel.Record{
		ID: "r1", Time: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), Agent: "claude-code", Session: "s", Event: grapnel.ToolBefore, Hooks: runs,
		Input: &grapnel.Event{Agent: grapnel.Agent{Name: "claude-code"}, Native: json.RawMessage(payload)},
	}}
	for _, run := range runs {
		e.Decision = max(e.Decision, run.Decision)
	}
	return e
}

func newRecorder(t *testing.T, text []byte, opts RecorderOptions) *Recorder {
	t.Helper()
	dir := t.TempDir()
	opts.Policy = filepath.Join(dir, "grapnel.yaml")
	if err := os.WriteFile(opts.Policy, []byte(recordedPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := NewRecorder(filepath.Join(dir, "grapnel_test.yaml"), text, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	by := func(hook string, d grapnel.Decision) grapnel.HookRun { return grapnel.HookRun{Name: hook, Decision: d} }
	call := func(tool, input string) string {
		return `{"session_id":"s","cwd":"/home/ann/app","hook_event_name":"PreToolUse","tool_name":"` + tool + `","tool_use_id":"t","tool_input":` + input + `}`
	}
	tests := map[string]struct {
		payload string
		runs    []grapnel.HookRun
		want    []string
		skipped bool
	}{
		"a command": {call("Bash", `{"command":"git push","description":"push it"}`), []grapnel.HookRun{by("no-push", grapnel.Block)}, []string{
			"  - name: git push is blocked\n    agents: [claude-code]\n    payload:\n      session_id: s1\n      hook_event_name: PreToolUse\n      tool_name: Bash\n      tool_input: {command: git push, description: push it}\n    want: {decision: block, rule: no-push}\n",
		}, false},
		"paths": {call("Read", `{"file_path":"/home/ann/.ssh/id"}`), []grapnel.HookRun{by("no-keys", grapnel.Ask)}, []string{`tool_input: {file_path: "~/.ssh/id"}`, "decision: ask"}, false},
		"a path in a text": {call("Bash", `{"command":"cat /home/ann/app/x /home/anna/y /mnt/home/ann/z \"/home/ann\""}`), nil, []string{
			`tool_input: {command: 'cat /repo/x /home/anna/y /mnt/home/ann/z "~"'}`, "want: none",
		}, false},
		"a secret that was kept":   {call("Bash", `{"command":"curl -H 'Authorization: Bearer sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789' x.example"}`), nil, []string{"sk-ant-***", "# a part of this event is missing because it was secret"}, false},
		"more than words say":      {call("Bash", `{"command":"make","run_in_background":true}`), nil, []string{"tool_input: {command: make, run_in_background: true}"}, false},
		"a tool of a server":       {call("mcp__lab__run", `{"n":1.50,"path":"/home/ann/x"}`), nil, []string{`input: {"n": 1.50, path: "~/x"}`}, false},
		"lines":                    {call("Bash", `{"command":"cat <<E\n ${x}\nE\n"}`), nil, []string{"      tool_input:\n        command: |\n          cat <<E\n           ${x}\n          E\n"}, false},
		"odd lines":                {call("Bash", `{"command":"a \n\tb"}`), nil, []string{`command: "a \n\tb"`}, false},
		"what turns the direction": {call("Bash", `{"command":"echo \u202egnp.exe\u200d\udb40\udc41"}`), nil, []string{`command: "echo \u202egnp.exe\u200d\udb40\udc41"`}, false},
		"the same in a payload":    {call("Bash", "{\"command\":\"make \u2066x\",\"run_in_background\":\"\u2069\"}"), nil, []string{`\u2066x`, `\u2069`}, false},
		"approved":                 {call("Bash", `{"command":"git push"}`), []grapnel.HookRun{{Name: "no-push", Approved: grapnel.Block}}, []string{"git push is blocked", "want: {decision: block, rule: no-push}"}, false},
		"another policy's":         {call("Bash", `{"command":"ls"}`), []grapnel.HookRun{by("not-ours", grapnel.Block)}, []string{"want: none"}, false},
		"no longer so":             {call("Bash", `{"command":"ls"}`), []grapnel.HookRun{by("no-push", grapnel.Block)}, []string{"skip: \"the policy now gives another result: decision: got none, want block"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(t, nil, RecorderOptions{Home: "/home/ann", Elsewhere: true})
			made := r.Add(t.Context(), kept(t, test.payload, test.runs...), nil)
			if made.Test == "" || made.Skipped != test.skipped {
				t.Fatalf("Add = %+v, want a test, skipped: %v", made, test.skipped)
			}
			text, err := r.Text()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("want %q in:\n%s", want, text)
				}
			}
			if again := r.Add(t.Context(), kept(t, test.payload, test.runs...), nil); again.Test != "" {
				t.Errorf("the same once more = %+v, want no test", again)
			}
			if err := os.WriteFile(r.path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			file, errs := Read(r.path)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			results, err := Run(t.Context(), file.Tests, nil)
			if err != nil || len(results) != 1 || results[0].Status != Passed && !test.skipped {
				t.Errorf("Run = %+v, %v, want one that passes:\n%s", results, err, text)
			}
		})
	}
}

// The tests of a private file have the recorded directories. Load replaces the policy.
func TestRecorderPrivate(t *testing.T) {
	t.Parallel()
	load := func(req load.Request) load.Set {
		req.Content = map[string][]byte{req.Files[0].Path: []byte("version: 1\nhooks:\n  - {name: other, on: tool.before, when: 'tool.command == \"ls /home/ann/app\"', ask: Sure?}\n")}
		return load.Policies(req)
	}
	r := newRecorder(t, nil, RecorderOptions{Home: "/home/ann", Elsewhere: true, Private: true, Load: load})
	made := r.Add(t.Context(), kept(t, `{"cwd":"/home/ann/app","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls /home/ann/app"}}`, grapnel.HookRun{Name: "other", Decision: grapnel.Ask}), nil)
	text, err := r.Text()
	if err != nil || made.Test == "" || made.Skipped {
		t.Fatalf("Add = %+v, %v", made, err)
	}
	const want = "# Recorded from real work. *** replaces secrets.\nversion: 1\ntests:\n  - name: \"ls /home/ann/app is asked about\"\n    agents: [claude-code]\n    cwd: \"/home/ann/app\"\n    payload:\n      hook_event_name: PreToolUse\n      tool_name: Bash\n      tool_input: {command: \"ls /home/ann/app\"}\n    want: {decision: ask, rule: other}\n"
	if _, got, _ := strings.Cut(string(text), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A recorded test gives a time only if state had expired by then.
func TestRecorderTimes(t *testing.T) {
	t.Parallel()
	const rules = `version: 1
hooks:
  - {name: day, on: tool.before, match: {command: sh}, after: {event: tool.before, match: {command: curl}, within: 24h}, ask: sure}
  - {name: moment, on: tool.before, match: {command: sh}, after: {event: tool.before, match: {command: curl}, within: 5m}, block: not so soon}
`
	for name, tt := range map[string]struct {
		gaps [3]time.Duration // after each of the earlier events
		want string
		by   grapnel.HookRun
	}{
		"over":     {[3]time.Duration{3 * time.Second, 20 * time.Minute, 40 * time.Minute}, "    before:\n      - payload:\n          session_id: s1\n          hook_event_name: PreToolUse\n          tool_name: Bash\n          tool_input: {command: curl -O x}\n    later: 1h0m3s\n    want: {decision: ask, rule: day}\n", grapnel.HookRun{Name: "day", Decision: grapnel.Ask}},
		"not over": {[3]time.Duration{time.Second, time.Second, time.Second}, "    before:\n      - payload:\n          session_id: s1\n          hook_event_name: PreToolUse\n          tool_name: Bash\n          tool_input: {command: curl -O x}\n    want: {decision: block, rule: moment}\n", grapnel.HookRun{Name: "moment", Decision: grapnel.Block}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := RecorderOptions{Elsewhere: true}
			opts.Policy = filepath.Join(t.TempDir(), "grapnel.yaml")
			if err := os.WriteFile(opts.Policy, []byte(rules), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := NewRecorder(strings.TrimSuffix(opts.Policy, ".yaml")+Suffix, nil, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
			bash := func(id, line string, runs ...grapnel.HookRun) spool.Entry {
				e := kept(t, `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"`+id+`","tool_input":{"command":"`+line+`"}}`, runs...)
				e.Time = at
				return *e
			}
			var earlier []spool.Entry
			for i, line := range []string{"curl -O x", "ls", "cat x"} {
				earlier = append(earlier, bash(line, line))
				at = at.Add(tt.gaps[i])
			}
			e := bash("last", "sh x", tt.by)
			if made := r.Add(t.Context(), &e, func() []spool.Entry { return earlier }); made.Test == "" || made.Skipped {
				t.Fatalf("Add = %+v, want a test", made)
			}
			text, err := r.Text()
			if err != nil || !strings.Contains(string(text), tt.want) {
				t.Errorf("got (%v)\n%s\nwant\n%s", err, text, tt.want)
			}
		})
	}
}

// The recorder does not change a byte of hand-written text.
func TestRecorderAdds(t *testing.T) {
	t.Parallel()
	const there = "version: 1\ntests:\n  - {name: mine, payload: {session_id: s1, hook_event_name: PreToolUse, tool_name: Bash, tool_input: {command: \"make ${x}\"}}, agents: [claude-code], want: {decision: none}}\n"
	tests := map[string]struct{ before, after string }{
		"a list":      {"version: 1\ntests:\n  - {command: ls, want: none} # mine\n", "version: 1\ntests:\n  - {command: ls, want: none} # mine\n\n  - name: \"make ${x} passes\"\n    agents: [claude-code]\n    payload:\n      session_id: s1\n      hook_event_name: PreToolUse\n      tool_name: Bash\n      tool_input: {command: \"make ${x}\"}\n    want: none\n"},
		"no indent":   {"version: 1\ntests:\n- {command: ls, want: none}", "version: 1\ntests:\n- {command: ls, want: none}\n\n- name: \"make ${x} passes\"\n  agents: [claude-code]\n  payload:\n    session_id: s1\n    hook_event_name: PreToolUse\n    tool_name: Bash\n    tool_input: {command: \"make ${x}\"}\n  want: none\n"},
		"in between":  {"tests:\n  - {command: ls, want: none}\n\n# of mine\nversion: 1\n", "tests:\n  - {command: ls, want: none}\n\n  - name: \"make ${x} passes\"\n    agents: [claude-code]\n    payload:\n      session_id: s1\n      hook_event_name: PreToolUse\n      tool_name: Bash\n      tool_input: {command: \"make ${x}\"}\n    want: none\n\n# of mine\nversion: 1\n"},
		"variables":   {"version: 1\nvars: {x: y}\ntests:\n  - {command: ls, want: none}\n", "version: 1\nvars: {x: y}\ntests:\n  - {command: ls, want: none}\n\n  - name: \"make $${x} passes\"\n    agents: [claude-code]\n    payload:\n      session_id: s1\n      hook_event_name: PreToolUse\n      tool_name: Bash\n      tool_input: {command: \"make $${x}\"}\n    want: none\n"},
		"other ends":  {"version: 1\r\ntests:\r\n  - {command: ls, want: none}\r\n", "version: 1\r\ntests:\r\n  - {command: ls, want: none}\r\n\r\n  - name: \"make ${x} passes\"\r\n    agents: [claude-code]\r\n    payload:\r\n      session_id: s1\r\n      hook_event_name: PreToolUse\r\n      tool_name: Bash\r\n      tool_input: {command: \"make ${x}\"}\r\n    want: none\r\n"},
		"other agent": {"version: 1\nagents: [codex]\ntests:\n  - {command: ls, want: none}\n", "version: 1\nagents: [codex]\ntests:\n  - {command: ls, want: none}\n\n  - name: \"make ${x} passes\"\n    agents: [claude-code]\n    payload:\n      session_id: s1\n      hook_event_name: PreToolUse\n      tool_name: Bash\n      tool_input: {command: \"make ${x}\"}\n    want: none\n"},
		"there":       {there, there},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			policy := filepath.Join(dir, "grapnel.yaml")
			if err := os.WriteFile(policy, []byte(recordedPolicy), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := NewRecorder(filepath.Join(dir, "grapnel_test.yaml"), []byte(test.before), RecorderOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			r.Add(t.Context(), kept(t, `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make ${x}"}}`), nil)
			text, err := r.Text()
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != test.after {
				t.Errorf("got\n%q\nwant\n%q", text, test.after)
			}
		})
	}
}

func TestReplacePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                      "",
		"/home/ann":             "~",
		"/home/ann/x":           "~/x",
		"/home/anna":            "/home/anna",
		"/home/ann.old":         "/home/ann.old",
		"/mnt/home/ann":         "/mnt/home/ann",
		"/home/ann/home/ann":    "~/home/ann",
		"a=/home/ann:/home/ann": "a=~:~",
		"cd '/home/ann'":        "cd '~'",
	} {
		if got := replacePath(text, "/home/ann", "~"); got != want {
			t.Errorf("replacePath(%q) = %q, want %q", text, got, want)
		}
	}
}

// Each event that an agent really sent becomes a test of the same event in the same agent.
func TestRecorderAgents(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../dialect/testdata/*/*.txtar")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d conversations, %v", len(files), err)
	}
	r := newRecorder(t, nil, RecorderOptions{})
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sent := Event{Agent: filepath.Base(filepath.Dir(name))}
		if sent.recorded(name, text) != nil {
			continue
		}
		d := sent.payloadDialect()
		got := dialect.Receive(d, dialect.Input{Payload: sent.Payload, Event: sent.Native})
		if got.Err != nil || got.Row() == nil && sent.Native != "" {
			continue // unreadable, or with a name that no Record has
		}
		e := kept(t, string(sent.Payload))
		e.Agent, e.Input.Agent.Name, e.Event = d.Name, d.Name, got.Event.Kind
		made := r.Add(t.Context(), e, nil)
		if made.Skipped || made.Want == "" {
			t.Errorf("%s: %+v", name, made)
		}
	}
	written, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	again, errs := Parse(r.path, written)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	if len(again.Tests) < 100 {
		t.Errorf("%d tests", len(again.Tests))
	}
}

// Each text stays exact, over however many lines it is written.
func TestRecorderTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 40)
	texts := []string{
		"", "\n", "a\n", "a\nb", "a\nb\n", "a\n\n\nb\n\n", "\na\nb", " a\nb", "a\n b", "\ta\n\tb\n", "a\n\tb \n", "a\r\nb", "# a\n# b", "- a\n- b", "a: b\nc: [", "---\na", "...\na", "%a\nb", "| a\n> b", "a\n  \nb",
		long, long + "end", "# " + long + "end", "- " + long + "end", "'" + long + "\"", long + "  two blanks", long + "a\ttab", long + "a\nb", long + "\u202e", "${x} " + long + "${x}", strings.Repeat("x", 200), "a " + strings.Repeat("x", 200) + " b",
		"null", "true", "1.50", "~", "*a", "&a", "!a", "@a", "`a`", "{a", "[a", "\u0085a\nb", "\U0001F600\n\U0001F600", "\u00e9\n\u65e5\u672c",
	}
	r := newRecorder(t, nil, RecorderOptions{})
	for i, text := range texts {
		payload, err := json.Marshal(map[string]any{"session_id": "s1", "hook_event_name": "PreToolUse", "tool_name": "mcp__lab__run", "tool_input": map[string]any{"n": i, "text": text, "list": []any{text, map[string]any{text: text}}}})
		if err != nil {
			t.Fatal(err)
		}
		if made := r.Add(t.Context(), kept(t, string(payload)), nil); made.Test == "" || made.Skipped {
			t.Errorf("%q: %+v", text, made)
		}
	}
	written, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	file, errs := Parse(r.path, written)
	if len(errs) > 0 || len(file.Tests) != len(texts) {
		t.Fatalf("%d tests, %v", len(file.Tests), errs)
	}
	for i, text := range texts {
		var got struct {
			Input struct {
				Text string `json:"text"`
				List []any  `json:"list"`
			} `json:"tool_input"`
		}
		if err := json.Unmarshal(file.Tests[i].Event.Payload, &got); err != nil {
			t.Fatal(err)
		}
		if want := []any{text, map[string]any{text: text}}; got.Input.Text != text || !reflect.DeepEqual(got.Input.List, want) {
			t.Errorf("%q became %q in\n%s", text, got.Input, written)
		}
	}
}
