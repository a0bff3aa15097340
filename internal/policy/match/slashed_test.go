package match

import (
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

func TestSlashed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		`C:\Users\me\.ssh\id_rsa`:   "C:/Users/me/.ssh/id_rsa",
		`\\host\share\.env`:         "//host/share/.env",
		`%USERPROFILE%\.aws\config`: "%USERPROFILE%/.aws/config",
		`~\.netrc`:                  "~/.netrc",
		`a\ b`:                      `a\ b`,
		`/tmp/a\b`:                  `/tmp/a\b`,
		"":                          "",
		"C:":                        "C:",
		`C:relative\x`:              `C:relative\x`,
		`1:\x`:                      `1:\x`,
	} {
		if got := slashed(name); got != want {
			t.Errorf("slashed(%q) is %q, want %q", name, got, want)
		}
	}
}

// Paths with backslashes match the rules of every system, where a tool or a directory of Windows names
// them. In a POSIX shell a backslash is an escape.
func TestBackslashes(t *testing.T) {
	t.Parallel()
	const posix, drive = "/home/dev/project", `C:\\project`
	for _, c := range []struct {
		cwd, tool, input, rule string
		want                   bool
	}{
		{posix, "PowerShell", `{"command":"Get-Content .\\.env"}`, "**/.env", true},
		{posix, "PowerShell", `{"command":"Get-Content C:\\project\\.env"}`, "**/.env", true},
		{posix, "cmd", `{"command":"type config\\.env"}`, "**/.env", true},
		{posix, "cmd", `{"command":"echo x > deploy\\prod\\a.yaml"}`, "deploy/prod/**", true},
		{posix, "Bash", `{"command":"cmd /c \"type config\\.env\""}`, "**/.env", true},
		{posix, "Bash", `{"command":"cat deploy\\prod\\a.yaml"}`, "deploy/prod/**", false},
		{posix, "Bash", `{"command":"cat 'deploy\\prod\\a.yaml'"}`, "deploy/prod/**", false},
		{posix, "Bash", `{"command":"cat a\\ .env"}`, "**/.env", false},
		{posix, "Write", `{"file_path":"deploy\\prod\\a.yaml","content":"x"}`, "deploy/prod/**", true},
		{posix, "Read", `{"file_path":"C:\\project\\.env"}`, "**/.env", true},
		{drive, "Write", `{"file_path":"C:\\project\\deploy\\prod\\a.yaml","content":"x"}`, "deploy/prod/**", true},
		{drive, "Write", `{"file_path":"c:/project/deploy/prod/a.yaml","content":"x"}`, "deploy/prod/**", true},
		{drive, "Write", `{"file_path":"C:\\other\\deploy\\prod\\a.yaml","content":"x"}`, "deploy/prod/**", false},
		{drive, "Write", `{"file_path":"D:\\secret\\a.yaml","content":"x"}`, "D:/secret/**", true},
		{drive, "Write", `{"file_path":"C:\\other\\a.yaml","content":"x"}`, "C:/other/", true},
		{drive + `\\web`, "Edit", `{"file_path":"..\\deploy\\a.yaml","old_string":"x","new_string":"y"}`, "../deploy/**", true},
		{drive, "Bash", `{"command":"cat 'deploy\\prod\\a.yaml'"}`, "deploy/prod/**", true},
	} {
		ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(
			`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"` + c.cwd + `","tool_name":"` + c.tool + `","tool_input":` + c.input + `}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := matchesPath(t, ev, c.rule); got != c.want {
			t.Errorf("in %s, %s %s matches %s: %v, want %v", c.cwd, c.tool, c.input, c.rule, got, c.want)
		}
	}
}

func matchesPath(t *testing.T, ev *grapnel.Event, pattern string) bool {
	t.Helper()
	m, err := (&FactCache{}).Matcher(&policyfile.Match{Path: []string{pattern}}, nil, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	ok, err := m.Match(ev, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}
