package policy_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
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
		if err := fixture.CheckSchema(t, tt.in); err == nil {
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

// Without a place for the output, the hook fails and the failure is recorded. No file is
// written.
func TestAuditWithoutAPlace(t *testing.T) {
	t.Parallel()
	p, errs := policy.Parse("p.yaml", []byte("version: 1\nhooks: [{name: a, builtin: audit}]\n"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	specs, err := policy.Build(p, fixture.Source("p.yaml"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := specs[0].Hook.Handle(t.Context(), fixture.Shell("ls")); err == nil || !strings.Contains(err.Error(), "name a `file`") {
		t.Errorf("error %v", err)
	}
}

// Hooks of a project write only below the directory of its policy, for any path and any link.
func TestBuiltinsOfAProjectStayInIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := filepath.Join(root, "project", "grapnel.yaml")
	fixture.File(t, file, "")
	from := fixture.Source(file)
	from.Scope = grapnel.ScopeProject
	build := func(action string) ([]grapnel.Spec, error) {
		p, errs := policy.Parse(file, []byte("version: 1\nhooks: [{name: a, builtin: "+action+"}]\n"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return policy.Build(p, from, fixture.NoCommand)
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
		if _, err := specs[0].Hook.Handle(t.Context(), fixture.Shell("ls")); (err == nil) != ok {
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
