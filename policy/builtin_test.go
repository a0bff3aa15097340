package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
)

func TestBuiltinErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"unknown":              {hook("    builtin: audti\n"), `p.yaml:5:14: want one of audit, logging, session-summary, not "audti" (did you mean "audit"?)`},
		"list":                 {hook("    builtin: [audit]\n"), "p.yaml:5:14: want one of"},
		"without a name":       {hook("    builtin: {file: x}\n"), "the builtin has no name"},
		"unknown key":          {hook("    builtin: {name: audit, fil: x}\n"), `unknown key "fil" in builtin (did you mean "file"?)`},
		"audit with a program": {hook("    builtin: {name: audit, run: cat}\n"), "need the builtin session-summary"},
		"log into":             {hook("    builtin: {name: logging, into: x}\n"), "need the builtin session-summary"},
		"summary of a file":    {"version: 1\nhooks:\n  - {name: x, on: session.end, builtin: {name: session-summary, run: cat, file: x}}\n", "has no `file`"},
		"summary by nobody":    {"version: 1\nhooks:\n  - {name: x, on: session.end, builtin: {name: session-summary}}\n", "the program that writes it"},
		"summary as a word":    {"version: 1\nhooks:\n  - {name: x, on: session.end, builtin: session-summary}\n", "the program that writes it"},
		"beside another":       {hook("    builtin: audit\n    block: no\n"), "has several actions"},
		"async":                {hook("    builtin: audit\n    async: true\n"), "`async`, `speaks` and `env` need `run`"},
	} {
		_, errs := policy.Parse("p.yaml", []byte(tt.in))
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), tt.want) {
			t.Errorf("%s: errors %v, want %q\n%s", name, errs, tt.want, tt.in)
		}
		if err := checkSchema(t, tt.in); err == nil {
			t.Errorf("%s: the schema finds nothing wrong\n%s", name, tt.in)
		}
	}
	// A schema cannot express these rules.
	for in, want := range map[string]string{
		hook("    builtin: {name: session-summary, run: cat}\n"):                                   "a session summary needs the event session.end",
		"version: 1\npack: {version: 1}\nhooks:\n  - {name: x, on: tool.before, builtin: audit}\n": "a pack cannot write files",
	} {
		if _, errs := policy.Parse("p.yaml", []byte(in)); len(errs) == 0 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("errors %v, want %q\n%s", errs, want, in)
		}
	}
}

// fire loads a policy file, fires events, and waits for all observing hooks.
func fire(t *testing.T, req policy.Request, events ...*grapnel.Event) {
	t.Helper()
	set := policy.Load(req)
	for _, file := range set.Files {
		if len(file.Errors) > 0 {
			t.Fatal(file.Errors[0])
		}
	}
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		e.Fire(t.Context(), ev)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func content(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// An audit and a log get the selected events, or all events if none are selected, and the name of
// the blocking hook. The output is next to the policy file, or at the place that the program
// chooses.
//
// Proves: IC-35
func TestAuditAndLogging(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := written(t, filepath.Join(dir, "p.yaml"), `
version: 1
hooks:
  - {name: all, builtin: audit}
  - {name: blocked, builtin: {name: audit, file: logs/blocked.jsonl}, when: 'verdict.decision == "block"'}
  - {name: tags, on: [tool.before, session.end], builtin: {name: logging, file: logs/tags}}
  - {name: no-touch, on: tool.before, match: {command: touch}, block: no touching}
`)
	state := filepath.Join(dir, "state")
	named := sh("ls")
	named.Tool.Name, named.Time = "a\nb", time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	fire(t, policy.Request{Files: []policy.File{{Path: file, Must: true}}, State: state}, sh("touch secret"), named, &grapnel.Event{Kind: grapnel.SessionStart})

	all := content(t, filepath.Join(state, "audit.jsonl"))
	if n := strings.Count(all, "\n"); n != 3 {
		t.Errorf("the audit of everything has %d lines, want 3:\n%s", n, all)
	}
	blocked := content(t, filepath.Join(dir, "logs", "blocked.jsonl"))
	var entry struct {
		Hook, Event, Tool, Decision string
		By                          []struct{ Hook, Cause string }
	}
	if err := json.Unmarshal([]byte(blocked), &entry); err != nil {
		t.Fatalf("%v in %s", err, blocked)
	}
	if entry.Hook != file+"::blocked" || entry.Decision != "block" || len(entry.By) != 1 || entry.By[0].Hook != file+"::no-touch" || entry.By[0].Cause != "decision" {
		t.Errorf("the audit of what is blocked says %s", blocked)
	}
	if strings.Contains(all+blocked, "secret") {
		t.Errorf("the audit tells what was done:\n%s%s", all, blocked)
	}
	tags := content(t, filepath.Join(dir, "logs", "tags"))
	if n := strings.Count(tags, "\n"); n != 2 || !strings.Contains(tags, "Z pre:Bash\n") || !strings.Contains(tags, "2026-03-04T05:06:07Z pre:a b\n") {
		t.Errorf("the log is %q", tags)
	}
}

// Without a place for the output, the hook fails and the failure is recorded. No file is
// written.
func TestAuditWithoutAPlace(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks: [{name: a, builtin: audit}]\n"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := policy.Build(p, source("p.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := specs[0].Hook.Handle(t.Context(), sh("ls")); err == nil || !strings.Contains(err.Error(), "name a `file`") {
		t.Errorf("error %v", err)
	}
}

// Hooks of a project write only below the directory of its policy, for any path and any link.
func TestBuiltinsOfAProjectStayInIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "project", "grapnel.yaml")
	written(t, file, "")
	from := source(file)
	from.Scope = grapnel.ScopeProject
	build := func(action string) ([]grapnel.Spec, error) {
		p, errs := policy.Parse(file, []byte("version: 1\nhooks: [{name: a, builtin: "+action+"}]\n"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return policy.Build(p, from, noCommand)
	}
	for _, action := range []string{
		"audit", "logging", "{name: audit, file: ../a}", "{name: audit, file: /tmp/a}", "{name: logging, file: a/../../b}",
		"{name: session-summary, run: cat, into: ..}", "{name: session-summary, run: cat, into: " + root + "}",
	} {
		if _, err := build(action); err == nil {
			t.Errorf("a project may say %s", action)
		}
	}
	if err := os.Symlink(root, filepath.Join(root, "project", "up")); err != nil {
		if runtime.GOOS != "windows" {
			t.Fatal(err)
		}
		t.Skip(err) // on Windows, links need a privilege
	}
	for name, ok := range map[string]bool{"logs/a": true, "up/a": false, "~/a": true} {
		specs, err := build("{name: audit, file: '" + name + "'}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := specs[0].Hook.Handle(t.Context(), sh("ls")); (err == nil) != ok {
			t.Errorf("writing to %s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
		t.Errorf("beside the project there is now %v, %v", entries, err)
	}
}

const conversation = `{"sessionId":"s"}
{"id":"1","type":"user","content":"Write a note."}
{"id":"2","type":"gemini","content":"Where?"}
{"id":"3","type":"user","content":"In a.txt."}
`
