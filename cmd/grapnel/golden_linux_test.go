//go:build system

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/internal/testhelp/pty"
)

// A view is a way to look at the output of a command.
type view struct {
	name  string
	width int // of the terminal; 0 = a pipe
	env   [2]string
}

var views = []view{
	{"60 columns", 60, [2]string{}},
	{"80 columns", 80, [2]string{}},
	{"120 columns", 120, [2]string{}},
	{"80 columns, NO_COLOR=1", 80, [2]string{"NO_COLOR", "1"}},
	{"80 columns, TERM=dumb", 80, [2]string{"TERM", "dumb"}},
	{"a pipe", 0, [2]string{}},
}

// TestGolden compares the output of commands for people with testdata/golden, at several widths of
// a terminal, without colors and in a pipe. ␛ is the character that begins a color.
func TestGolden(t *testing.T) {
	putHook(t)
	long := time.Date(2026, 11, 20, 9, 30, 0, 0, time.Local)
	for _, tt := range []struct {
		name, typed string
		args        []string
		fits        bool // no line is wider than the terminal
		starter     bool // the policy is the one of "grapnel init", and the output fits a screen
		records     time.Time
	}{
		{name: "hooks", args: []string{"hooks", "--source", "user", "--since", "36500d"}, fits: true, records: long},
		{name: "hooks-long", args: []string{"hooks", "--long", "--source", "user", "--since", "36500d"}, fits: true, records: long},
		{name: "hooks-pack", args: []string{"hooks", "--pack", "self-protection"}, fits: true},
		{name: "install", args: []string{"install", "--yes"}},
		{name: "install-asks", typed: "d\ny\nn\n", args: []string{"install"}},
		{name: "log", args: []string{"log"}, fits: true, records: long},
		{name: "log-show", args: []string{"log", "show", "019f8d2b1c"}, records: long},
		{name: "stats", args: []string{"stats", "--since", "36500d"}, fits: true, records: long},
		{name: "stats-would", args: []string{"stats", "--would", "--since", "36500d"}, fits: true, records: long},
		{name: "status", args: []string{"status"}, fits: true, records: time.Now().Add(-time.Hour)},
		{name: "starter-allow", typed: "n\n", args: []string{"allow"}, starter: true, records: time.Now().Add(-time.Hour)},
		{name: "starter-doctor", args: []string{"doctor", "--no-run"}, fits: true, starter: true, records: time.Now().Add(-time.Hour)},
		{name: "starter-hooks", args: []string{"hooks"}, fits: true, starter: true, records: time.Now().Add(-time.Hour)},
		{name: "starter-log", args: []string{"log", "--since", "36500d"}, fits: true, starter: true, records: long},
		{name: "starter-replay", args: []string{"replay", "--since", "36500d"}, starter: true, records: long},
	} {
		var got strings.Builder
		for _, v := range views {
			if tt.typed != "" && v.width == 0 {
				continue // there is no question without a terminal
			}
			policy := "version: 1\nhooks:\n  - {name: no-recursive-delete, on: tool.before, match: {command: rm -rf}, block: Name the files instead.}\n"
			if tt.starter {
				policy = string(starter)
			}
			text := goldenRun(t, v, tt.typed, tt.args, policy, tt.records)
			if n := strings.Count(text, "\n"); tt.starter && v.width >= 80 && n > 50 {
				t.Errorf("%s, %s: %d lines", tt.name, v.name, n)
			}
			fmt.Fprintf(&got, "== %s\n%s", v.name, text)
			if plain := v.env[0] != "" || v.width == 0; plain && strings.Contains(text, "␛") {
				t.Errorf("%s, %s: colors", tt.name, v.name)
			}
			for line := range strings.Lines(text) {
				line = ansi.Strip(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "␛", "\x1b"))
				if n := ansi.StringWidthWc(line); tt.fits && v.width > 0 && n > v.width {
					t.Errorf("%s, %s: a line has %d columns: %s", tt.name, v.name, n, line)
				}
			}
		}
		file := filepath.Join(goldenDir, tt.name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got.String() {
			t.Errorf("%s differs (%v): go test -tags system ./cmd/grapnel -run TestGolden -update\n%s", file, err, got.String())
		}
	}
}

// goldenDir is absolute, because the commands run in another directory.
var goldenDir = func() string {
	dir, err := filepath.Abs("testdata/golden")
	if err != nil {
		panic(err)
	}
	return dir
}()

// shownHome replaces the home directory in outputs.
const shownHome = "/home/somebody"

// goldenRun runs a command in a new home directory with three agents, a policy, and Records if
// their time is not zero.
func goldenRun(t *testing.T, v view, typed string, args []string, policy string, records time.Time) string {
	t.Helper()
	home := "/tmp/h" + rand.Text()[:8] // as long as shownHome, because lines are broken by their length
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	root := filepath.Join(home, "r")
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		settled := time.Now().Add(-time.Minute)
		if err := os.Chtimes(name, settled, settled); err != nil {
			t.Fatal(err)
		}
	}
	put(".claude/settings.json", "{\n  \"model\": \"opus\"\n}\n", 0o600)
	put(".codex/config.toml", "", 0o600)
	put(".gemini/settings.json", "{\n  \"theme\": \"Default\",\n}\n", 0o600)
	put("bin/claude", "#!/bin/sh\necho '2.1.330 (Claude Code)'\n", 0o700)
	put("r/grapnel.yaml", policy, 0o600)
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(home, "bin"))
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	t.Setenv("COLUMNS", "")
	for _, name := range []string{"XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "CODEX_HOME"} {
		t.Setenv(name, "")
	}
	if v.env[0] != "" {
		t.Setenv(v.env[0], v.env[1])
	}
	t.Chdir(home)
	if !records.IsZero() {
		putLines(t, filepath.Join(root, "state"), strings.Split(strings.TrimSpace(goldenRecords(t, records, root)), "\n")...)
		var ignored bytes.Buffer
		if exit := run([]string{"install", "claude-code", "--yes", "--root", root}, strings.NewReader(""), &ignored, &ignored); exit != 0 {
			t.Fatalf("install: exit %d: %s", exit, &ignored)
		}
	}
	args = append(slices.Clone(args), "--root", root)
	var out bytes.Buffer
	if v.width == 0 {
		run(args, strings.NewReader(""), &out, &out)
	} else {
		person, program := newTerminal(t)
		if err := pty.Resize(program, v.width, 24); err != nil {
			t.Fatal(err)
		}
		quiet(t, program)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		shown := make(chan struct{})
		go func() {
			_, _ = io.Copy(&out, person) // ends with an error when the other end is closed
			close(shown)
		}()
		run(args, program, program, program)
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		<-shown
	}
	return fixed(out.String(), home)
}

// quiet switches the echo of a terminal off, which may come at any time.
func quiet(t *testing.T, terminal *os.File) {
	t.Helper()
	settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err == nil {
		settings.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(int(terminal.Fd()), unix.TCSETS, settings)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fixed replaces the parts of an output that differ from run to run.
func fixed(text, home string) string {
	text = strings.NewReplacer("\r\n", "\n", "\x1b", "␛", home, shownHome).Replace(text)
	for pattern, by := range map[string]string{
		`[^ "'=]*/grapnel-hook`:           "/usr/local/bin/grapnel-hook",
		`\d{8}T\d{6}\.\d{3}Z-[0-9a-f]+`:   "TIME",
		`replaying [^␛\n]*␛\[K`:           "",
		`, now \S+ \(p95 \S+\)`:           ", now TIME",
		`shop, \d{4}-[-0-9: ]+`:           "shop, 2026-11-20 09:33:00",
		`since \d{4}-\d\d-\d\d \d\d:\d\d`: "since 2026-11-01 00:00",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, by)
	}
	return text
}

// goldenRecords returns the lines of a log that begins at a time.
func goldenRecords(t *testing.T, at time.Time, root string) string {
	t.Helper()
	source := filepath.Join(root, "grapnel.yaml")
	hook := func(name string, decision grapnel.Decision, change func(*grapnel.HookRun)) grapnel.HookRun {
		h := grapnel.HookRun{Name: name, Source: source, Line: 3, Decision: decision, MS: 0.25}
		if change != nil {
			change(&h)
		}
		return h
	}
	observed := func(h *grapnel.HookRun) { h.Observed = true }
	call := func(id, session, tool, input string, decision grapnel.Decision, hooks ...grapnel.HookRun) spool.Entry {
		at = at.Add(90 * time.Second)
		e := spool.Entry{Record: grapnel.Record{
			ID: id, Time: at.UTC(), CallDigest: strings.Repeat("ab", 32), Agent: "claude-code", Session: session, Event: grapnel.ToolBefore, Tool: tool, Decision: decision, Hooks: hooks, MS: 1.5,
		}}
		e.Input = &grapnel.Event{
			Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: session, CWD: "/home/me/shop"},
			Native: json.RawMessage(fmt.Sprintf(`{"session_id":%q,"cwd":"/home/me/shop","hook_event_name":"PreToolUse","tool_name":%q,"tool_input":%s}`, session, tool, input)),
		}
		for i := range hooks {
			if hooks[i].Observed {
				e.Would = max(e.Would, hooks[i].Decision)
			}
		}
		return e
	}
	read := call("019f8d2a00004e55a0c1b2d3e4f5", "s1", "Read", `{"file_path":"/home/me/shop/README.md"}`, grapnel.None)
	blocked := call("019f8d2b1c7a4e55a0c1b2d3e4f5", "s1", "Bash", `{"command":"cd build && rm -rf node_modules dist coverage .cache/some-very-long-directory-name/and-another-one"}`,
		grapnel.Block, hook("no-recursive-delete", grapnel.Block, nil), hook("no-delete-outside-of-the-project", grapnel.Ask, nil))
	blocked.Reasons = []grapnel.Reason{{Hook: source + "::no-recursive-delete", Text: "Name the files instead.", Cause: grapnel.CauseDecision}}
	blocked.Host, blocked.User = "laptop", "me"
	changed := call("019f8d2c00004e55a0c1b2d3e4f5", "s1", "Bash", `{"command":"npm test"}`, grapnel.None,
		hook("add-timeout", grapnel.None, func(h *grapnel.HookRun) { h.Changed = []grapnel.Field{"tool.command"} }))
	changed.Changed = []grapnel.Field{"tool.command"}
	late := spool.Entry{Late: true, Record: grapnel.Record{
		ID: blocked.ID, Time: at.UTC(), Agent: "claude-code", Session: "s1", Event: grapnel.ToolBefore,
		Hooks: []grapnel.HookRun{hook("write-audit", grapnel.None, func(h *grapnel.HookRun) { h.Async, h.MS = true, 2011 })},
	}}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for _, e := range []spool.Entry{
		read, blocked, changed, late,
		call("019f8d2c10004e55a0c1b2d3e4f5", "s2", "Bash", `{"command":"npm install left-pad"}`, grapnel.None, hook("use-pnpm", grapnel.Block, observed)),
		call("019f8d2c10004e55b0c1b2d3e4f5", "s2", "WebFetch", `{"url":"https://example.com/日本語"}`, grapnel.None, hook("ask-before-fetching", grapnel.Ask, observed)),
		call("019f8d2c20004e55a0c1b2d3e4f5", "s2", "Bash", `{"command":"make deploy"}`, grapnel.None,
			hook("check-branch", grapnel.None, func(h *grapnel.HookRun) {
				h.Error, h.Cause, h.FailOpen = "took longer than 10s", grapnel.CauseTimeout, true
			})),
	} {
		if err := lines.Encode(&e); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
