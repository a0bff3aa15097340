//go:build unix

package verify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// asksVar makes this test binary an agent that sends a request with this path to its model.
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

// scripted returns an agent that is a shell script.
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

// world makes a world for an agent whose program is script.
func world(t *testing.T, a *Agent, script string) *World {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	programs.Write(t, path, "#!/bin/sh\n"+script)
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

// wantGone waits until no process has the ID in the file.
func wantGone(t *testing.T, content string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(content))
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, fmt.Sprintf("process %d ends", pid), func() bool { return !running(pid) })
}

// running reports whether a process exists and is not only waiting for a slow init to reap it.
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

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if _, err := Find(scripted()); err == nil || !strings.Contains(err.Error(), "scripted is not installed") {
		t.Errorf("error %v, want that it is not installed", err)
	}
	path := filepath.Join(dir, "scripted")
	programs.Write(t, path, "#!/bin/sh\n")
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

// Every driver has the required parts and can prepare a world.
func TestDrivers(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, a := range All {
		names[a.String()] = true
		w := worldOf(t, Program{Agent: a, Command: []string{"/nonexistent/agent"}, Version: "1.2.3", Cache: filepath.Join(t.TempDir(), "cache")})
		if a.prepare != nil {
			for range 2 { // a world can have several runs
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
		"droid":             {agent: Droid, stdout: `{"type":"result","subtype":"success","result":"all done"}` + "\n", want: "all done"},
		"droid, halted":     {agent: Droid},
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
