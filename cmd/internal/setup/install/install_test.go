package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/installation"
)

// A machine has a home directory, a project and a state directory.
type machine struct {
	t                    testing.TB
	home, project, state string
	system               string // replaces /
	program              string
	env                  map[string]string
	now                  time.Time
}

func newMachine(t testing.TB) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{
		t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), state: filepath.Join(dir, "state"),
		system:  filepath.Join(dir, "system"),
		program: filepath.Join(dir, "bin", hookProgram), env: map[string]string{},
		now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
	}
	for _, d := range []string{m.home, m.project} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.script(m.program, "exit 0")
	return m
}

// script creates a program.
func (m *machine) script(name, body string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	programs.Write(m.t, name, "#!/bin/sh\n"+body+"\n")
}

// request returns a request for the agents, with a version of Claude Code that supports all
// events.
func (m *machine) request(agents ...string) Request {
	m.now = m.now.Add(time.Hour)
	return Request{
		Agents: agents, Program: m.program, Home: m.home, state: m.state, System: m.system, Now: m.now, Version: "0.1.0",
		known:    slices.Concat(Agents(), ownRows),
		Env:      func(name string) string { return m.env[name] },
		Versions: map[string]string{"claude-code": "2.1.329"},
	}
}

func (m *machine) install(req Request) *Result {
	m.t.Helper()
	res, err := Install(context.Background(), req)
	if err != nil {
		m.t.Fatalf("Install: %v", err)
	}
	return res
}

func (m *machine) uninstall(req Request) *Result {
	m.t.Helper()
	res, err := Uninstall(context.Background(), req)
	if err != nil {
		m.t.Fatalf("Uninstall: %v", err)
	}
	return res
}

func (m *machine) records() []installation.Record {
	m.t.Helper()
	recs, err := installation.List(filepath.Join(m.state, "installs"))
	if err != nil {
		m.t.Fatal(err)
	}
	return recs
}

func (m *machine) write(name, text string) string {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
	return name
}

func (m *machine) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// tree returns everything below the directories: names, modes and contents.
func tree(t testing.TB, dirs ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			all[name] = info.Mode().String()
			if e.Type().IsRegular() {
				data, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				all[name] += " " + string(data)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

const claudeSettings = "{\n  \"permissions\": {\"deny\": [\"Read(./.env)\"]},\n  \"model\": \"opus\"\n}\n"

func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	claude := m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
	if err := os.Chmod(claude, 0o640); err != nil {
		t.Fatal(err)
	}
	gemini := filepath.Join(m.home, ".gemini", "settings.json")
	m.env["PATH"] = "/usr/bin:/bin"
	before := tree(t, m.home, m.project)

	req := m.request("claude", "gemini-cli", "claude-code")
	req.FailClosed = true
	req.Events = map[string][]string{"gemini": {"BeforeModel"}, "claude-code": {"MessageDisplay"}}
	res := m.install(req)
	if !res.Applied || len(res.Files) != 2 {
		t.Fatalf("Result = %+v, want two files", res)
	}
	c, g := res.Files[0], res.Files[1]
	if c.File != claude || !c.Changed || c.Created || c.Agent != "claude-code" || c.Scope != User || m.read(c.Backup) != claudeSettings {
		t.Errorf("Claude Code: %+v", c)
	}
	if g.File != gemini || !g.Changed || !g.Created || g.Backup != "" || len(g.Notes) != 2 {
		t.Errorf("Gemini CLI: %+v", g)
	}
	if want := filepath.Join(m.state, "backups", "claude-code-20261120T130000.000Z-"); !strings.HasPrefix(c.Backup, want) {
		t.Errorf("backup %s, want %s*", c.Backup, want)
	}
	for _, ev := range []string{"PreToolUse", "MessageDisplay", "SessionEnd"} {
		if !slices.Contains(c.Events, ev) {
			t.Errorf("%s is not among %v", ev, c.Events)
		}
	}
	for _, ev := range []string{"WorktreeCreate", "FileChanged", "InstructionsLoaded"} {
		if slices.Contains(c.Events, ev) {
			t.Errorf("%s is among %v", ev, c.Events)
		}
	}
	if want := []string{"SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "Notification", "AfterTool", "AfterAgent", "SessionEnd"}; !slices.Equal(g.Events, want) {
		t.Errorf("events of Gemini CLI: %v, want %v", g.Events, want)
	}
	if !strings.Contains(m.read(claude), fmt.Sprintf("%q", m.program+" --id "+c.ID)) {
		t.Errorf("no command with the token in\n%s", m.read(claude))
	}
	if !strings.Contains(m.read(gemini), m.program+" gemini-cli BeforeTool --id "+g.ID) {
		t.Errorf("no command with the token in\n%s", m.read(gemini))
	}
	if runtime.GOOS != "windows" {
		for name, want := range map[string]fs.FileMode{
			claude: 0o640, gemini: 0o600, filepath.Dir(gemini): 0o700 | fs.ModeDir, c.Backup: 0o600,
			m.state: 0o700 | fs.ModeDir, filepath.Join(m.state, "backups"): 0o700 | fs.ModeDir,
		} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
	}

	rec, err := installation.Read(filepath.Join(m.state, "installs"), g.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := installation.Record{
		ID: g.ID, Agent: "gemini-cli", Scope: "user", Settings: gemini, Program: m.program,
		Policy: filepath.Join(m.home, ".config", "grapnel", "grapnel.yaml"), State: m.state, Path: "/usr/bin:/bin",
		Events: g.Events, TimeoutMS: 60000, EventTimeoutsMS: map[string]int64{"BeforeTool": 3600000}, FailClosed: true, Version: "0.1.0", Time: m.now,
		Made: installation.Made{File: true, Dirs: []string{filepath.Dir(gemini)}, Hooks: true, Events: g.Events},
	}
	if diff := cmp.Diff(want, rec); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if rec, err = installation.Read(filepath.Join(m.state, "installs"), c.ID); err != nil {
		t.Fatal(err)
	}
	if rec.Timeout("SessionEnd") != 3*time.Second || rec.Timeout("Stop") != time.Minute {
		t.Errorf("timeouts %v and %v, want 3s and 1m", rec.Timeout("SessionEnd"), rec.Timeout("Stop"))
	}

	// Again: the same token, and no file is written, not even the record.
	installed := tree(t, m.home, m.project, m.state)
	again := req
	again.Now = req.Now.Add(time.Hour)
	res = m.install(again)
	if res.Applied || res.Changed() || res.Files[0].ID != c.ID {
		t.Errorf("installing twice: %+v", res)
	}
	if diff := cmp.Diff(installed, tree(t, m.home, m.project, m.state)); diff != "" {
		t.Errorf("installing twice writes (-before +after):\n%s", diff)
	}

	// Another policy changes only the record.
	again.Policy = "/elsewhere.yaml"
	if res = m.install(again); res.Changed() || m.records()[0].Policy != "/elsewhere.yaml" {
		t.Errorf("another policy: %+v, %+v", res, m.records())
	}

	// Another program: the token stays, and the entries change in place.
	again.Program = filepath.Join(filepath.Dir(m.program), "new place", hookProgram)
	m.script(again.Program, "exit 0")
	again.Events = nil
	res = m.install(again)
	if !res.Changed() || res.Files[0].ID != c.ID || strings.Contains(m.read(claude), m.program+" ") {
		t.Errorf("another program: %+v", res)
	}

	res = m.uninstall(m.request("claude", "gemini"))
	if !res.Applied || !res.Files[1].Removed || res.Files[0].Removed {
		t.Errorf("uninstall: %+v", res)
	}
	if diff := cmp.Diff(before, tree(t, m.home, m.project)); diff != "" {
		t.Errorf("installing and uninstalling left (-before +after):\n%s", diff)
	}
	if recs := m.records(); len(recs) != 0 {
		t.Errorf("records left: %+v", recs)
	}

	res = m.uninstall(m.request("claude", "gemini"))
	if res.Applied || res.Changed() || !strings.Contains(strings.Join(res.Files[0].Notes, ""), "Grapnel has no entries in") {
		t.Errorf("uninstalling twice: %+v", res)
	}
}

func TestResultIsJSON(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	data, err := json.Marshal(m.uninstall(m.request("claude")))
	if err != nil {
		t.Fatal(err)
	}
	file, _ := json.Marshal(filepath.Join(m.home, ".claude", "settings.json"))
	want := `{"applied":false,"files":[{"agent":"claude-code","scope":"user","file":` + string(file) +
		`,"changed":false,"created":false,"removed":false,"id":"","events":[],"diff":"","backup":"","notes":["Grapnel has no entries in ` +
		strings.Trim(string(file), `"`) + `"]}],"skipped":[],"notes":[]}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
	parent := filepath.Dir(m.home)
	before := tree(t, parent)
	req := m.request("claude", "gemini")
	req.DryRun = true
	req.Confirm = func(*Result, []FileResult) (bool, error) { t.Error("a dry run asks"); return true, nil }
	res := m.install(req)
	if res.Applied || !res.Changed() || !strings.Contains(res.Files[0].Diff, "+  \"hooks\": {") || !strings.Contains(res.Files[1].Diff, "--- /dev/null\n") {
		t.Errorf("dry run: %+v", res)
	}
	if diff := cmp.Diff(before, tree(t, parent)); diff != "" {
		t.Errorf("a dry run writes (-before +after):\n%s", diff)
	}

	req.DryRun, req.Confirm = false, nil
	m.install(req)
	before = tree(t, parent)
	req.DryRun = true
	if res := m.uninstall(req); res.Applied || !res.Changed() || !res.Files[1].Removed {
		t.Errorf("dry run: %+v", res)
	}
	if diff := cmp.Diff(before, tree(t, parent)); diff != "" {
		t.Errorf("a dry run writes (-before +after):\n%s", diff)
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
	var shown string
	req := m.request("claude")
	req.Confirm = func(r *Result, _ []FileResult) (bool, error) { shown = r.Files[0].Diff; return false, nil }
	if res := m.install(req); res.Applied || m.read(file) != claudeSettings || len(m.records()) != 0 || shown == "" {
		t.Errorf("declined: %+v, shown %q", res, shown)
	}
	req.Confirm = func(*Result, []FileResult) (bool, error) { return false, fs.ErrPermission }
	if _, err := Install(t.Context(), req); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a question that fails: %v", err)
	}
	req.Confirm = func(r *Result, _ []FileResult) (bool, error) { shown = r.Files[0].Diff; return true, nil }
	res := m.install(req)
	if !res.Applied || shown != Unified(file, []byte(claudeSettings), []byte(m.read(file))) {
		t.Errorf("what was shown is not what was written:\n%s", shown)
	}
	req.Confirm = func(*Result, []FileResult) (bool, error) { t.Error("asked although nothing changes"); return true, nil }
	m.install(req)
}

// Each agent is asked about by itself, with its own files. An agent that does not change is not
// asked about, and it stays untouched if all others are declined.
func TestConfirmEachAgent(t *testing.T) {
	t.Parallel()
	for name, accepted := range map[string][]string{"none": nil, "one": {"codex"}} {
		m := newMachine(t)
		m.install(m.request("gemini"))
		before := tree(t, m.home)
		req := m.request("claude", "gemini", "codex")
		var asked []string
		req.Confirm = func(plan *Result, files []FileResult) (bool, error) {
			if len(plan.Files) != 3 || len(files) != 1 || plan.Applied {
				t.Errorf("asked with the plan %+v and the files %+v", plan, files)
			}
			asked = append(asked, files[0].Agent)
			return slices.Contains(accepted, files[0].Agent), nil
		}
		res := m.install(req)
		if !slices.Equal(asked, []string{"claude-code", "codex"}) || res.Applied != (accepted != nil) {
			t.Errorf("%s: asked about %v; applied %v", name, asked, res.Applied)
		}
		for _, files := range res.Agents() {
			f := files[0]
			if len(files) != 1 || f.Declined != (f.Changed && !slices.Contains(accepted, f.Agent)) {
				t.Errorf("%s: %+v", name, files)
			}
		}
		if diff := cmp.Diff(before, tree(t, m.home)); accepted == nil && diff != "" {
			t.Errorf("all was declined (-before +after):\n%s", diff)
		}
		if recs := m.records(); len(recs) != 1+len(accepted) {
			t.Errorf("%s: records: %+v", name, recs)
		}
	}
}

// If the file has changed since the plan, no change is lost and no record is left.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(file string) error{
		"written": func(file string) error { return os.WriteFile(file, []byte("{\"a\": 1}"), 0o644) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			file := m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
			req := m.request("claude")
			var disturbed map[string]string
			req.Confirm = func(*Result, []FileResult) (bool, error) {
				err := disturb(file)
				disturbed = tree(t, m.home)
				return true, err
			}
			res, err := Install(t.Context(), req)
			if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), file) || res == nil || res.Applied {
				t.Errorf("Install = %+v, %v, want ErrChanged", res, err)
			}
			if diff := cmp.Diff(disturbed, tree(t, m.home)); diff != "" {
				t.Errorf("the file of somebody else was touched:\n%s", diff)
			}
			if recs := m.records(); len(recs) != 0 {
				t.Errorf("records left: %+v", recs)
			}
		})
	}
}

// A failed update restores the old record.
func TestFailedUpdateKeepsRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install(m.request("claude"))
	old := m.records()
	req := m.request("claude")
	req.Timeout = time.Second
	req.Confirm = func(r *Result, _ []FileResult) (bool, error) {
		return true, os.WriteFile(r.Files[0].File, []byte("{}"), 0o600)
	}
	if _, err := Install(t.Context(), req); !errors.Is(err, ErrChanged) {
		t.Fatalf("Install: %v, want ErrChanged", err)
	}
	if diff := cmp.Diff(old, m.records()); diff != "" {
		t.Errorf("records (-before +after):\n%s", diff)
	}
}

// If one file cannot be edited, all other files stay unchanged.
func TestRefusalComesFirst(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
	file := m.write(filepath.Join(m.home, ".gemini", "settings.json"), "{\n  oops\n}")
	before := tree(t, m.home)
	_, err := Install(t.Context(), m.request("claude", "gemini"))
	var fe *FileError
	if !errors.As(err, &fe) || fe.File != file || fe.Line != 2 {
		t.Errorf("Install: %v, want a FileError in line 2 of %s", err, file)
	}
	if diff := cmp.Diff(before, tree(t, m.home)); diff != "" {
		t.Errorf("files were touched:\n%s", diff)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tests := map[string]struct {
		change    func(*Request)
		uninstall bool
		want      string
		usage     bool
	}{
		"unknown agent":        {func(r *Request) { r.Agents = []string{"emacs"} }, false, `unknown agent "emacs", use one of claude-code, gemini-cli`, true},
		"unknown scope":        {func(r *Request) { r.Scope = "team" }, false, `unknown scope "team", use user, project or managed`, true},
		"no project":           {func(r *Request) { r.Scope = Project }, false, "scope project needs the directory of the project", true},
		"events of nobody":     {func(r *Request) { r.Events = map[string][]string{"emacs": nil} }, false, `unknown agent "emacs"`, true},
		"unknown event":        {func(r *Request) { r.Events = map[string][]string{"claude": {"X"}} }, false, `no event "X"`, true},
		"event that harms":     {func(r *Request) { r.Events = map[string][]string{"claude": {"WorktreeCreate"}} }, false, "WorktreeCreate is not installed", true},
		"no program":           {func(r *Request) { r.Program = "" }, false, "no path for grapnel-hook", true},
		"absent program":       {func(r *Request) { r.Program = "/nonexistent/grapnel-hook" }, false, "cannot install /nonexistent/grapnel-hook", false},
		"program not runnable": {func(r *Request) { r.Program = m.write(filepath.Join(m.project, "x", hookProgram), "") }, false, "it is not executable", false},
		"negative timeout":     {func(r *Request) { r.Timeout = -1 }, false, "timeout must be more than 0", true},
		"nobody here":          {func(r *Request) { r.Agents = nil }, false, "found none of the agents claude-code, gemini-cli, ", false},
		"relative folder": {func(r *Request) {
			r.Env = func(string) string { return "x" }
		}, false, "$CLAUDE_CONFIG_DIR must be an absolute path", false},
		"uninstall nobody": {func(r *Request) { r.Agents = nil }, true, "name the agents to uninstall from", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := Request{
				Agents: []string{"claude"}, Program: m.program, Home: m.home, state: t.TempDir(), System: m.system,
				Env: func(string) string { return "" }, Versions: map[string]string{"claude-code": "2.1.329"},
			}
			tt.change(&req)
			do := Install
			if tt.uninstall {
				do = Uninstall
			}
			res, err := do(t.Context(), req)
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrUsage) != tt.usage {
				t.Errorf("= %+v, %v (usage %v), want an error with %q (usage %v)", res, err, errors.Is(err, ErrUsage), tt.want, tt.usage)
			}
		})
	}
}

func TestDetection(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.Mkdir(filepath.Join(m.home, ".gemini"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := func(req Request) string {
		req.DryRun = true
		var names []string
		for _, f := range m.install(req).Files {
			names = append(names, f.Agent)
		}
		return strings.Join(names, " ")
	}
	if got := names(m.request()); got != "gemini-cli" {
		t.Errorf("found %q, want the agent with a directory", got)
	}
	bin := filepath.Join(m.home, "bin")
	m.write(filepath.Join(bin, "claude"), "not a program")
	m.env["PATH"] = "relative" + string(filepath.ListSeparator) + bin
	if got := names(m.request()); runtime.GOOS != "windows" && got != "gemini-cli" {
		t.Errorf("found %q, a file that cannot be run is no agent", got)
	}
	if runtime.GOOS != "windows" {
		m.script(filepath.Join(bin, "claude"), "exit 0")
		if got := names(m.request()); got != "claude-code gemini-cli" {
			t.Errorf("found %q, want also the agent on PATH", got)
		}
	}
}

func TestSettingsPaths(t *testing.T) {
	t.Parallel()
	claude, gemini := agentNamed(t, "claude"), agentNamed(t, "gemini")
	tests := map[string]struct {
		agent Agent
		scope Scope
		moved string
		want  string
	}{
		"Claude Code":          {claude, User, "", "/h/.claude/settings.json"},
		"Claude Code, moved":   {claude, User, "/m", "/m/settings.json"},
		"Claude Code, project": {claude, Project, "/m", "/p/.claude/settings.json"},
		"Gemini CLI":           {gemini, User, "", "/h/.gemini/settings.json"},
		"Gemini CLI, moved":    {gemini, User, "/m", "/m/.gemini/settings.json"},
		"Gemini CLI, project":  {gemini, Project, "/m", "/p/.gemini/settings.json"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" {
				t.Skip("paths of this test are not absolute there")
			}
			env := func(key string) string { return map[string]string{tt.agent.Setup.MovedBy: tt.moved}[key] }
			got, err := tt.agent.Settings(tt.scope, map[Scope]string{User: "/h", Project: "/p"}[tt.scope], env)
			if err != nil || got != tt.want {
				t.Errorf("Settings = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	root := filepath.Join(filepath.Dir(m.home), "the root")
	req := m.request("claude", "gemini")
	req.Root, req.state = root, ""
	res := m.install(req)
	for _, f := range res.Files {
		text := m.read(f.File)
		if !strings.Contains(text, " --root '"+root+"'") || strings.Contains(text, "--id") {
			t.Errorf("%s holds no --root:\n%s", f.File, text)
		}
	}
	recs, err := installation.List(filepath.Join(root, "state", "installs"))
	if err != nil || len(recs) != 2 || recs[0].Root != root || recs[0].Policy != filepath.Join(root, "grapnel.yaml") || recs[0].State != filepath.Join(root, "state") {
		t.Errorf("records %+v, %v", recs, err)
	}
	// The entries can also be removed without the --root of the installation.
	out := m.uninstall(m.request("gemini"))
	if !out.Files[0].Changed || !strings.Contains(strings.Join(out.Files[0].Notes, "\n"), "installed with --root "+root) {
		t.Errorf("uninstall without --root: %+v", out)
	}
	if got := m.read(out.Files[0].File); got != "{}\n" {
		t.Errorf("without memory the file became %q", got)
	}
	m.uninstall(req)
	if _, err := os.Stat(filepath.Join(m.home, ".claude")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory made for the installation is still there: %v", err)
	}
}

func TestProjectScope(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install(m.request("claude"))
	req := m.request("claude")
	req.Scope, req.ProjectDir = Project, m.project
	local := m.write(filepath.Join(m.project, ".claude", "settings.local.json"), `{"disableAllHooks": true}`)
	res := m.install(req)
	file := filepath.Join(m.project, ".claude", "settings.json")
	if f := res.Files[0]; f.File != file || f.Scope != Project || !f.Created {
		t.Errorf("%+v", f)
	}
	notes := strings.Join(res.Files[0].Notes, "\n")
	for _, want := range []string{"do not commit the entries", "is also installed in " + filepath.Join(m.home, ".claude", "settings.json"), local + ":1: disableAllHooks is true"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in the notes\n%s", want, notes)
		}
	}
	recs := m.records()
	if len(recs) != 2 || recs[1].Project != m.project || recs[0].ID == recs[1].ID {
		t.Errorf("records %+v", recs)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 == 0 {
		t.Errorf("a file of the project has mode %v, %v", info.Mode(), err)
	}
	// In the user scope, the project's copy causes a note only if it has no record here.
	user := m.request("claude")
	user.ProjectDir = m.project
	if notes := strings.Join(m.install(user).Files[0].Notes, "\n"); strings.Contains(notes, "copy of Grapnel's entry") {
		t.Errorf("our own installation is called a copy:\n%s", notes)
	}
	m.write(local, m.read(file))
	if notes := strings.Join(m.install(user).Files[0].Notes, "\n"); !strings.Contains(notes, local+" contains a copy of Grapnel's entry") {
		t.Errorf("the copy is not named:\n%s", notes)
	}
	m.write(local, "{")
	if notes := strings.Join(m.install(user).Files[0].Notes, "\n"); !strings.Contains(notes, "does not read this file: "+local) {
		t.Errorf("the broken file is not named:\n%s", notes)
	}

	all := m.request()
	all.All = true
	res = m.uninstall(all)
	if len(res.Files) != 2 || len(m.records()) != 0 {
		t.Errorf("uninstall --all: %+v", res)
	}
	if left := tree(t, m.home); len(left) != 1 {
		t.Errorf("left in the home directory: %v", left)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left in the project: %v", err)
	}
}

func TestMovedSettings(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	first := m.install(m.request("claude")).Files[0]
	m.env["CLAUDE_CONFIG_DIR"] = filepath.Join(m.home, "work")
	second := m.install(m.request("claude")).Files[0]
	if first.File == second.File || first.ID == second.ID || len(m.records()) != 2 {
		t.Fatalf("two settings of one agent: %+v, %+v", first, second)
	}
	m.uninstall(m.request("claude"))
	res := m.uninstall(m.request("claude"))
	if !strings.Contains(strings.Join(res.Files[0].Notes, "\n"), "is also installed in "+first.File) {
		t.Errorf("the other installation is not named: %+v", res)
	}
	if recs := m.records(); len(recs) != 1 || recs[0].ID != first.ID {
		t.Errorf("records %+v", recs)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	tests := map[string]struct {
		version       string
		has, not      []string
		asked         []string
		note, notNote string
	}{
		"current": {version: "2.1.329", has: []string{"PostToolBatch", "PreModelSwitch"}, notNote: "version"},
		"node 20": {version: "2.1.197", has: []string{"PostToolBatch"}, not: []string{"DirectoryAdded", "PreModelSwitch"}, note: "2.1.197 does not know PreModelSwitch, PostModelSwitch, DirectoryAdded: after an update"},
		"first":   {version: "2.1.118", has: []string{"PostToolBatch"}},
		"before":  {version: "2.1.117", has: []string{"TaskCreated", "PreToolUse"}, not: []string{"PostToolBatch", "PreModelSwitch"}},
		"old":     {version: "2.0.60", has: []string{"SubagentStart"}, not: []string{"TaskCreated", "PostCompact"}},
		"asked":   {version: "2.0.60", asked: []string{"FileChanged"}, not: []string{"FileChanged"}, note: "FileChanged"},
		"closed":  {version: "2.1.240", has: []string{"PreToolUse"}, note: "2.1.240 cannot fail closed, version 2.1.295 can"},
		"unknown": {version: "", has: []string{"PermissionDenied"}, not: []string{"PostToolBatch"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := Request{
				Agents: []string{"claude"}, Program: m.program, Home: m.home, state: t.TempDir(), System: m.system, Env: func(string) string { return "" },
				Versions: map[string]string{"claude-code": tt.version}, Events: map[string][]string{"claude-code": tt.asked}, FailClosed: true, DryRun: true,
			}
			res, err := Install(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			f := res.Files[0]
			for _, ev := range tt.has {
				if !slices.Contains(f.Events, ev) {
					t.Errorf("%s is missing in %v", ev, f.Events)
				}
			}
			for _, ev := range tt.not {
				if slices.Contains(f.Events, ev) {
					t.Errorf("%s is in %v", ev, f.Events)
				}
			}
			notes := strings.Join(f.Notes, "\n")
			if !strings.Contains(notes, tt.note) || tt.notNote != "" && strings.Contains(notes, tt.notNote) {
				t.Errorf("notes %q, want %q and not %q", notes, tt.note, tt.notNote)
			}
		})
	}
}

// An installation keeps its events while the version of the agent is unknown, and changes them when
// another version is found.
func TestVersionChanges(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, tt := range []struct {
		version, recorded string
		batch, directory  bool
	}{
		{"", "", false, false},
		{"2.1.197", "2.1.197", true, false},
		{"", "2.1.197", true, false},
		{"2.1.332", "2.1.332", true, true},
		{"", "2.1.332", true, true},
		{"2.1.197", "2.1.197", true, false},
	} {
		req := m.request("claude")
		req.Versions = map[string]string{"claude-code": tt.version}
		m.install(req)
		rec := m.records()[0]
		if rec.AgentVersion != tt.recorded || slices.Contains(rec.Events, "PostToolBatch") != tt.batch || slices.Contains(rec.Events, "DirectoryAdded") != tt.directory {
			t.Errorf("after an installation for version %q: %q %v, want %+v", tt.version, rec.AgentVersion, rec.Events, tt)
		}
	}
	m.uninstall(m.request("claude"))
}

// The agent waits long where a person may be asked.
func TestAskTimeout(t *testing.T) {
	t.Parallel()
	for agent, long := range map[string]string{"claude-code": "PreToolUse PermissionRequest PreModelSwitch", "codex": "PreToolUse PermissionRequest", "gemini-cli": "BeforeTool"} {
		a, err := Lookup(agent)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range a.Events {
			want := time.Minute
			if slices.Contains(strings.Fields(long), ev.Native) {
				want = time.Hour
			}
			if ev.Wait > 0 {
				want = ev.Wait
			}
			if got := a.wait(ev.Native, time.Minute, nil); got != want {
				t.Errorf("%s waits %v at %s, want %v", agent, got, ev.Native, want)
			}
		}
	}
}

// An agent waits as long as a person may take to approve a call, if its settings have timeouts.
func TestApproveTimeout(t *testing.T) {
	t.Parallel()
	approve := map[grapnel.Kind]time.Duration{grapnel.ToolBefore: 2 * time.Hour, grapnel.PromptBefore: 10 * time.Minute}
	for at, want := range map[[2]string]time.Duration{
		{"claude-code", "PreToolUse"}:       2*time.Hour + replyMargin,
		{"claude-code", "UserPromptSubmit"}: 10*time.Minute + replyMargin,
		{"claude-code", "PostToolUse"}:      time.Minute,
		{"gemini-cli", "BeforeTool"}:        2*time.Hour + replyMargin,
		{"openclaw", "before_tool_call"}:    15 * time.Second,
		{"opencode", "tool.execute.before"}: time.Minute,
		{"cline", "PreToolUse"}:             time.Minute,
	} {
		a, err := Lookup(at[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := a.wait(at[1], time.Minute, approve); got != want {
			t.Errorf("%s waits %v at %s, want %v", at[0], got, at[1], want)
		}
	}
}

// Concurrent installers wait for each other: at the end the settings contain one installation,
// and the record matches it.
func TestConcurrentInstallers(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
	var wg sync.WaitGroup
	for i := range 8 {
		req := m.request("claude", "gemini")
		req.Timeout = time.Duration(i+1) * time.Second
		wg.Go(func() {
			if _, err := Install(context.Background(), req); err != nil {
				t.Errorf("Install: %v", err)
			}
		})
	}
	wg.Wait()
	recs := m.records()
	if len(recs) != 2 {
		t.Fatalf("%d records, want 2", len(recs))
	}
	for _, r := range recs {
		a := agentNamed(t, r.Agent)
		in, err := a.Inspect(r.Settings, []byte(m.read(r.Settings)))
		if err != nil || len(in.Entries) != len(r.Events) {
			t.Fatalf("%v: %d entries, want %d", err, len(in.Entries), len(r.Events))
		}
		for _, e := range in.Entries {
			if e.ID != r.ID {
				t.Errorf("entry %+v, want token %s", e, r.ID)
			}
		}
	}
	m.uninstall(m.request("claude", "gemini"))
	if got := m.read(file); got != claudeSettings {
		t.Errorf("after all of them the file is\n%s", got)
	}
}

func TestLockIsHeld(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	unlock, err := lock(t.Context(), m.state, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("tired of waiting"))
	if _, err := Install(ctx, m.request("claude")); err == nil || !strings.Contains(err.Error(), "another grapnel holds "+filepath.Join(m.state, "install.lock")+": tired of waiting") {
		t.Errorf("Install while another holds the lock: %v", err)
	}
	unlock()
	m.install(m.request("claude"))
}

// An unreadable record is reported and does not prevent an installation.
func TestBrokenRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	old := m.install(m.request("claude")).Files[0]
	name := filepath.Join(m.state, "installs", old.ID+".json")
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := m.install(m.request("claude"))
	if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], old.ID) || res.Files[0].ID == old.ID || bytes.Contains([]byte(m.read(old.File)), []byte(old.ID)) {
		t.Errorf("%+v", res)
	}
	if recs := m.records(); len(recs) != 1 { // fails if the unreadable one still exists
		t.Errorf("records %+v", recs)
	}
	m.uninstall(m.request("claude"))
	if got := m.read(old.File); got != "{}\n" { // no record shows that Grapnel created it
		t.Errorf("after all the file is %q", got)
	}
}

// Invalid settings of another agent do not prevent an uninstallation.
func TestUninstallAllPassesBrokenFiles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	file := m.install(m.request("claude")).Files[0].File
	broken := m.write(filepath.Join(m.home, ".gemini", "settings.json"), "{ oops")
	if err := os.Chmod(broken, 0o444); err != nil {
		t.Fatal(err)
	}
	req := m.request()
	req.All = true
	m.uninstall(req)
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", file, err)
	}
	// But an unreadable file that names Grapnel is reported.
	m.write(filepath.Join(m.home, ".claude", "settings.json"), "{ grapnel-hook")
	if _, err := Uninstall(t.Context(), req); err == nil || !strings.Contains(err.Error(), "not valid JSON") {
		t.Errorf("Uninstall: %v", err)
	}
	// Such a file does not prevent the uninstallation from the other files.
	codex := m.install(m.request("codex")).Files[0].File
	res, err := Uninstall(t.Context(), req)
	if err == nil || !strings.Contains(err.Error(), "Claude Code is unchanged") || res == nil || !res.Applied {
		t.Errorf("Uninstall: %+v, %v", res, err)
	}
	if _, err := os.Stat(codex); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", codex, err)
	}
}
