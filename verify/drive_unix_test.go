//go:build unix

package verify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/verify/model"
)

// asksVar makes this test binary an agent that asks its model for this path.
const asksVar = "VERIFY_TEST_ASKS"

func TestMain(m *testing.M) {
	if url := os.Getenv(asksVar); url != "" {
		resp, err := http.Get(url)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_ = resp.Body.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scripted is an agent that is a shell script.
func scripted() *Agent {
	return &Agent{
		ID: "scripted", Binary: "scripted", Settings: ".scripted/settings.json", Deadline: time.Minute,
		Tools: Tools{
			Shell: func(command string) model.Call { return call("sh", "c", command) },
			Write: func(path, _ string) model.Call { return call("write", "f", path) },
		},
		files:  func(w *World) map[string]string { return map[string]string{w.SettingsFile(): "{}\n"} },
		env:    func(w *World) []string { return []string{"SCRIPTED_MODEL=" + w.Model.URL} },
		args:   func(_ *World, prompt string) []string { return []string{"-p", prompt} },
		answer: strings.TrimSpace,
	}
}

func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	// No process may start while the file is open: it would keep it open, and the
	// system runs no file that somebody may still write to.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// world makes a world for an agent whose program is script.
func world(t *testing.T, a *Agent, script string) *World {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	writeProgram(t, path, script)
	return worldOf(t, Program{Agent: a, Command: []string{path}, Version: "1.2.3"})
}

func worldOf(t *testing.T, p Program) *World {
	t.Helper()
	w, err := NewWorld(p, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Remove(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "of the developer")
	t.Setenv("XDG_CONFIG_HOME", "/of/the/developer")
	w := world(t, scripted(), "env; pwd\n")
	res, err := w.Run(t.Context(), "Go on.")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(res.Stdout, "\n")
	for _, want := range []string{
		"HOME=" + w.Home, "TMPDIR=" + w.Tmp, "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + w.Home + "/.config",
		"HTTPS_PROXY=" + w.Model.URL, "SCRIPTED_MODEL=" + w.Model.URL, w.Project,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, res.Stdout)
		}
	}
	if strings.Contains(res.Stdout, "of the developer") || strings.Contains(res.Stdout, "/of/the/developer") {
		t.Errorf("the developer's environment came through:\n%s", res.Stdout)
	}
}

func TestRunReportsWhatHappened(t *testing.T) {
	t.Parallel()
	a := scripted()
	a.stdin = func(_ *World, prompt string) string { return "read " + prompt[:2] + "\n" }
	a.shown = func(stdout string) string { return strings.ReplaceAll(stdout, "out", "OUT") }
	w := world(t, a, "cat; echo out; echo err >&2; mkdir -p sub .git; echo made >sub/file; echo no >.git/file; exit 3\n")
	if err := write(w.Path("before.txt"), "was here\n"); err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(t.Context(), "the prompt")
	if err != nil || res.Exit != 3 || res.Stdout != "read th\nout\n" || res.Stderr != "err\n" || res.Answer != "read th\nout" || res.Shown != "read th\nOUT\nerr\n" {
		t.Errorf("ran %+v, %v", res, err)
	}
	if len(res.Files) != 2 || res.Files["sub/file"] != "made\n" || res.Files["before.txt"] != "was here\n" {
		t.Errorf("files %q", res.Files)
	}
	for _, want := range []string{"-p", "the prompt", "exit 3", "out", "err"} {
		if !strings.Contains(w.Report(), want) {
			t.Errorf("the report does not say %q:\n%s", want, w.Report())
		}
	}
}

func TestRunThatCannotStart(t *testing.T) {
	t.Parallel()
	w := worldOf(t, Program{Agent: scripted(), Command: []string{"/nonexistent/agent"}})
	if _, err := w.Run(t.Context(), "Go on."); err == nil || !strings.Contains(err.Error(), "run scripted") {
		t.Errorf("error %v, want one that names the agent", err)
	}
	if _, err := w.Exec(t.Context(), "/nonexistent/program"); err == nil {
		t.Error("no error")
	}
}

// What no model is asked, and what is meant for somebody else, fails the run.
func TestUnknownRequestFailsTheRun(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/v1/models":                     "",
		"/v1/elsewhere":                  "GET /v1/elsewhere",
		"http://telemetry.invalid/count": "telemetry.invalid",
	} {
		a := scripted()
		a.args = func(*World, string) []string { return nil }
		a.env = func(w *World) []string {
			if strings.HasPrefix(path, "/") {
				return []string{asksVar + "=" + w.Model.URL + path}
			}
			return []string{asksVar + "=" + path}
		}
		w := worldOf(t, Program{Agent: a, Command: []string{self}})
		res, err := w.Run(t.Context(), "Go on.")
		if len(res.Requests) != 1 || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q; requests %v", path, err, want, res.Requests)
		}
	}
}

// A hanging agent is ended with everything it started, also when it ignores the
// request to end and its children hold its output.
func TestDeadlineEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	w := world(t, scripted(), `trap '' TERM
sh -c 'trap "" TERM; echo $$ >child; while :; do sleep 1; done' &
while :; do sleep 1; done
`)
	w.Deadline = 300 * time.Millisecond
	res, err := w.Run(t.Context(), "Go on.")
	if err == nil || !strings.Contains(err.Error(), "still running after 300ms") {
		t.Errorf("error %v, want the deadline", err)
	}
	wantGone(t, res.Files["child"])
}

// A program that left the group of its run lives as long as the world, a daemon that
// would serve the next run as long as this one.
func TestNothingOutlivesTheWorld(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /proc here")
	}
	a := scripted()
	a.daemon = "--the-daemon"
	w := world(t, a, `for arg in --the-daemon --other; do
	setsid sh -c 'trap "" TERM; echo $$ >"$1"; while :; do sleep 0.1; done' sh "$arg" </dev/null >/dev/null 2>&1 &
	while [ ! -s ./"$arg" ]; do sleep 0.01; done
done
`)
	res, err := w.Run(t.Context(), "Go on.")
	if err != nil {
		t.Fatal(err)
	}
	wantGone(t, res.Files["--the-daemon"])
	if pid, err := strconv.Atoi(strings.TrimSpace(res.Files["--other"])); err != nil || !running(pid) {
		t.Errorf("the other process was ended with the run: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	wantGone(t, res.Files["--other"])
}

// wantGone waits until no process has the number that stands in a file.
func wantGone(t *testing.T, content string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(content))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for running(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running reports whether a process is there and not just waiting to be reaped
// by an init that takes its time.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestWorldIsRemoved(t *testing.T) {
	t.Parallel()
	w, err := NewWorld(Program{Agent: scripted()}, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Root) > 40 {
		t.Errorf("the path %s is too long for sockets below it", w.Root)
	}
	if err := w.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.Root); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", w.Root, err)
	}
}

func TestWorldInAGivenDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	w, err := NewWorld(Program{Agent: scripted()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "home", ".scripted", "settings.json")); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := NewWorld(Program{Agent: scripted()}, dir); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("error %v, want that it is not empty", err)
	}
}

func TestAskVersion(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"2.1.329 (Claude Code)":            "2.1.329",
		"codex-cli 0.169.0":                "0.169.0",
		"GitHub Copilot CLI 1.0.102.\nrun": "1.0.102",
		"OpenClaw 2026.9.6 (abc1234)":      "2026.9.6",
		"crush version v0.86.0":            "0.86.0",
		"1.2.3-beta.1":                     "1.2.3-beta.1",
		"no idea":                          "",
	} {
		path := filepath.Join(t.TempDir(), "agent")
		writeProgram(t, path, fmt.Sprintf("[ \"$*\" = --version ] && printf '%%s\\n' '%s'\n", said))
		got, err := Program{Agent: scripted(), Command: []string{path}}.AskVersion(t.Context())
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: version %q and error %v, want %q", said, got, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if _, err := Find(scripted()); err == nil || !strings.Contains(err.Error(), "scripted is not installed") {
		t.Errorf("error %v, want that it is not installed", err)
	}
	path := filepath.Join(dir, "scripted")
	writeProgram(t, path, "")
	if p, err := Find(scripted()); err != nil || !slices.Equal(p.Command, []string{path}) {
		t.Errorf("found %+v, %v, want %s", p, err, path)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, a := range All {
		if got, err := Lookup(a.ID); err != nil || got.ID != a.ID || got.Variant != "" {
			t.Errorf("Lookup(%s) = %v, %v", a.ID, got, err)
		}
	}
	if _, err := Lookup("cursor"); err == nil || !strings.Contains(err.Error(), "claude-code, gemini-cli, codex, qwen-code") {
		t.Errorf("error %v, want one that lists who can be run", err)
	}
}

// Every driver has what each of them has to have, and furnishes a world.
func TestDrivers(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, a := range All {
		names[a.String()] = true
		w := worldOf(t, Program{Agent: a, Command: []string{"/nonexistent/agent"}, Version: "1.2.3", Cache: filepath.Join(t.TempDir(), "cache")})
		if a.prepare != nil {
			for range 2 { // there is more than one run in a world
				if err := a.prepare(t.Context(), w); err != nil {
					t.Errorf("%s: %v", a, err)
				}
			}
		}
		if b, err := os.ReadFile(w.SettingsFile()); err == nil && !json.Valid(b) {
			t.Errorf("%s: settings %s", a, b)
		}
		for name, made := range map[string]model.Call{
			"shell": w.Shell("echo 'it'"), "write": w.Write("a/../b.txt", "two\n"), "read": w.Read("a/../b.txt"),
			"edit": a.Tools.Edit(w.Path("a/../b.txt"), "two", "three"),
		} {
			text, err := json.Marshal(made)
			want := map[string]string{"shell": "echo", "edit": "three"}[name]
			if err != nil || made.Tool == "" || !strings.Contains(string(text), want) || name != "shell" && !strings.Contains(string(text), w.Project+"/a/../b.txt") {
				t.Errorf("%s, %s: %s, %v", a, name, text, err)
			}
		}
		if a.Binary == "" || a.Deadline == 0 || !strings.HasPrefix(a.Settings, ".") {
			t.Errorf("%s: %+v lacks something", a, a)
		}
		given := strings.Join(a.args(w, "the prompt"), " ")
		if a.stdin != nil {
			given += a.stdin(w, "the prompt")
		}
		if !strings.Contains(given, "the prompt") {
			t.Errorf("%s is not told the prompt: %s", a, given)
		}
		w.Flags, w.Cautious = []string{"--more"}, true
		if cautious := a.args(w, "the prompt"); !slices.Contains(cautious, "--more") {
			t.Errorf("%s is not told the flags: %q", a, cautious)
		}
	}
	if len(names) != len(All) {
		t.Errorf("%d names for %d agents", len(names), len(All))
	}
}

// What an agent would fetch or unpack is there before it starts.
func TestPrepared(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	w := worldOf(t, Program{Agent: CopilotCLI, Cache: cache})
	if to, err := os.Readlink(filepath.Join(w.Home, ".cache", "copilot")); err != nil || to != cache {
		t.Errorf("the cache leads to %s, %v", to, err)
	}

	path := filepath.Join(t.TempDir(), "agent")
	writeProgram(t, path, "echo 1.18.99\n")
	w = worldOf(t, Program{Agent: OpenCode, Command: []string{path}})
	if err := write(w.Path(".opencode/plugins/x.js"), ""); err != nil {
		t.Fatal(err)
	}
	if err := OpenCode.prepare(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{opencodeDir(w), w.Path(".opencode")} {
		lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
		if err != nil || !strings.Contains(string(lock), `"@opencode-ai/plugin": "1.18.99"`) {
			t.Errorf("lock file %s, %v", lock, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil || !info.IsDir() {
			t.Errorf("%v", err)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		agent        *Agent
		stdout, want string
	}{
		"claude": {
			agent:  ClaudeCode,
			stdout: `{"type":"system","subtype":"init"}` + "\n" + `{"type":"result","subtype":"success","result":"all done"}` + "\n",
			want:   "all done",
		},
		"claude, nothing after the result counts": {
			agent:  ClaudeCode,
			stdout: `{"type":"result","result":"all done"}` + "\n" + `{"type":"system","result":"no"}` + "\nnoise\n",
			want:   "all done",
		},
		"claude, no result": {agent: ClaudeCode, stdout: "error\n"},
		"gemini":            {agent: GeminiCLI, stdout: "{\n \"session_id\": \"s\",\n \"response\": \"all done\"\n}\n", want: "all done"},
		"gemini, nothing":   {agent: GeminiCLI},
		"codex, the last": {
			agent: Codex,
			stdout: `{"type":"item.completed","item":{"type":"agent_message","text":"soon"}}` + "\n" +
				`{"type":"item.completed","item":{"type":"command_execution","text":"no"}}` + "\n" +
				`{"type":"item.completed","item":{"type":"agent_message","text":"all done"}}` + "\n" + `{"type":"turn.completed"}` + "\n",
			want: "all done",
		},
		"codex, nothing": {agent: Codex, stdout: `{"type":"turn.started"}` + "\n"},
		"qwen":           {agent: QwenCode, stdout: `{"type":"user"}` + "\n" + `{"type":"result","result":"all done"}` + "\n", want: "all done"},
		"copilot": {
			agent: CopilotCLI,
			stdout: `{"type":"assistant.message","data":{"content":"all done"}}` + "\n" +
				`{"type":"assistant.message","data":{"content":""}}` + "\n" + `{"type":"result","exitCode":0}` + "\n",
			want: "all done",
		},
		"opencode":          {agent: OpenCode, stdout: "all done\n", want: "all done"},
		"openclaw":          {agent: OpenClaw, stdout: "{\n \"payloads\": [{\"text\": \"soon\"}, {\"text\": \"all done\"}],\n \"meta\": {}\n}\n", want: "all done"},
		"openclaw, notice":  {agent: OpenClaw, stdout: "a notice\n{\"payloads\": [{\"text\": \"all done\"}]}\n", want: "all done"},
		"openclaw, blocked": {agent: OpenClaw, stdout: "{\"payloads\": []}\n"},
		"cline":             {agent: Cline, stdout: `{"type":"agent_event","text":"no"}` + "\n" + `{"type":"run_result","finishReason":"completed","text":"all done"}` + "\n", want: "all done"},
		"cline, aborted":    {agent: Cline, stdout: `{"type":"run_result","finishReason":"aborted","text":""}` + "\n"},
		"crush":             {agent: Crush, stdout: "all done\n", want: "all done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.agent.answer(tc.stdout); got != tc.want {
				t.Errorf("answer(%q) = %q, want %q", tc.stdout, got, tc.want)
			}
		})
	}
}
