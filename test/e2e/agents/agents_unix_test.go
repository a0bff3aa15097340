//go:build unix

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/test/e2e/model"
)

// scripted is an agent that is a shell script.
func scripted() *Agent {
	return &Agent{
		ID: "scripted", Package: "@example/scripted", Version: "1.2.3",
		Settings: ".scripted/settings.json", Quiet: "{}\n",
		npmFlags: []string{"--omit=optional"},
		program:  "node_modules/@example/scripted-*/agent",
		env:      func(w *World) []string { return []string{"SCRIPTED_MODEL=" + w.Model.URL} },
		args:     func(w *World, prompt string) []string { return []string{"-p", prompt} },
		shell:    func(command string) model.Call { return model.Call{Tool: "sh", Input: map[string]any{"c": command}} },
		write: func(path, content string) model.Call {
			return model.Call{Tool: "write", Input: map[string]any{"f": path}}
		},
		answer: strings.TrimSpace,
	}
}

// put installs script as the agent a, in a cache of its own.
func put(t *testing.T, a *Agent, script string) (cache string) {
	t.Helper()
	cache = t.TempDir()
	writeProgram(t, filepath.Join(a.prefix(cache), "node_modules/@example/scripted-x64/agent"), script)
	return cache
}

func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// No process may start while the file is open: it would keep it open, and the
	// system runs no file that somebody may still write to.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}

// npm is a stand-in for npm that installs a scripted agent of some version, and
// keeps its arguments.
func npm(t *testing.T, version string) (path, log string) {
	t.Helper()
	dir := t.TempDir()
	path, log = filepath.Join(dir, "npm"), filepath.Join(dir, "log")
	writeProgram(t, path, fmt.Sprintf(`echo "$@" >>%s
mkdir -p "$3/node_modules/@example/scripted-x64"
printf '#!/bin/sh\necho %s "(Scripted)"\n' >"$3/node_modules/@example/scripted-x64/agent"
chmod +x "$3/node_modules/@example/scripted-x64/agent"
`, log, version))
	return path, log
}

func TestInstallOnce(t *testing.T) {
	t.Parallel()
	a, cache := scripted(), filepath.Join(t.TempDir(), "new", "cache")
	npm, log := npm(t, "1.2.3")
	var wg sync.WaitGroup
	for range 4 { // as several test processes would
		wg.Go(func() {
			if err := a.install(t.Context(), cache, npm); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("install --prefix %s.partial --ignore-scripts --no-audit --no-fund --omit=optional @example/scripted@1.2.3\n", a.prefix(cache))
	if string(calls) != want {
		t.Errorf("npm was called with\n%swant once with\n%s", calls, want)
	}
	if _, err := a.command(a.prefix(cache)); err != nil {
		t.Error(err)
	}
}

func TestInstallFails(t *testing.T) {
	t.Parallel()
	failing := filepath.Join(t.TempDir(), "npm")
	writeProgram(t, failing, "echo no registry today >&2; exit 1\n")
	empty := filepath.Join(t.TempDir(), "npm")
	writeProgram(t, empty, "exit 0\n")
	other, _ := npm(t, "1.2.4")

	for name, tc := range map[string]struct {
		npm  string
		want []string
	}{
		"no npm":            {npm: "no-such-npm", want: []string{"no-such-npm", "install Node.js"}},
		"npm fails":         {npm: failing, want: []string{"exit status 1", "no registry today", "@example/scripted@1.2.3"}},
		"nothing installed": {npm: empty, want: []string{"npm succeeded", "scripted", "found 0"}},
		"another version":   {npm: other, want: []string{`says "1.2.4"`, "want version 1.2.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, cache := scripted(), t.TempDir()
			err := a.install(t.Context(), cache, tc.npm)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if _, err := os.Stat(a.prefix(cache)); err == nil {
				t.Error("a failed install looks complete")
			}
			// The next attempt starts afresh.
			good, _ := npm(t, "1.2.3")
			if err := a.install(t.Context(), cache, good); err != nil {
				t.Errorf("after the failure: %v", err)
			}
		})
	}
}

func TestInstalledButBroken(t *testing.T) {
	t.Parallel()
	a := scripted()
	cache := put(t, a, "echo 9.9.9\n")
	err := a.install(t.Context(), cache, "no-such-npm")
	if err == nil || !strings.Contains(err.Error(), "9.9.9") || !strings.Contains(err.Error(), "remove "+a.prefix(cache)) {
		t.Errorf("error %v, want one that names the version found and the way out", err)
	}
}

// world makes a world and the command line of its scripted agent.
func world(t *testing.T, script string) (*World, []string) {
	t.Helper()
	a := scripted()
	w := NewWorld(t, a)
	argv, err := a.command(a.prefix(put(t, a, script)), a.args(w, "the prompt")...)
	if err != nil {
		t.Fatal(err)
	}
	return w, argv
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "of the developer")
	t.Setenv("XDG_CONFIG_HOME", "/of/the/developer")
	w, argv := world(t, "env; pwd\n")
	r := w.run(t.Context(), Deadline, argv)
	if r.err != nil {
		t.Fatal(r.err)
	}
	lines := strings.Split(r.output.Stdout, "\n")
	for _, want := range []string{
		"HOME=" + w.Home, "TMPDIR=" + w.Tmp, "PATH=" + os.Getenv("PATH"),
		"HTTPS_PROXY=" + w.Model.URL, "SCRIPTED_MODEL=" + w.Model.URL, w.Project,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, r.output.Stdout)
		}
	}
	if strings.Contains(r.output.Stdout, "of the developer") || strings.Contains(r.output.Stdout, "/of/the/developer") {
		t.Errorf("the developer's environment came through:\n%s", r.output.Stdout)
	}
}

func TestRunReportsWhatHappened(t *testing.T) {
	t.Parallel()
	w, argv := world(t, "cat; echo out; echo err >&2; mkdir sub; echo made >sub/file; exit 3\n")
	w.WriteFile(t, "before.txt", "was here\n")
	r := w.run(t.Context(), Deadline, argv)
	if r.err != nil || r.output != (Output{Exit: 3, Stdout: "out\n", Stderr: "err\n"}) {
		t.Errorf("ran %+v", r)
	}
	files, err := w.files()
	if err != nil || len(files) != 2 || files["sub/file"] != "made\n" || files["before.txt"] != "was here\n" {
		t.Errorf("files %q, %v", files, err)
	}
	w.runs = append(w.runs, r)
	for _, want := range []string{"-p", "the prompt", "exit 3", "out", "err"} {
		if !strings.Contains(w.report(), want) {
			t.Errorf("the report does not say %q:\n%s", want, w.report())
		}
	}
}

func TestRunThatCannotStart(t *testing.T) {
	t.Parallel()
	w, _ := world(t, "")
	if r := w.run(t.Context(), Deadline, []string{filepath.Join(w.Root, "absent")}); r.err == nil {
		t.Errorf("ran %+v, want an error", r)
	}
}

// A hanging agent is ended with everything it started, also when it ignores the
// request to end and its children hold its output.
func TestDeadlineEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	w, argv := world(t, `trap '' TERM
sh -c 'trap "" TERM; echo $$ >child; while :; do sleep 1; done' &
while :; do sleep 1; done
`)
	r := w.run(t.Context(), 300*time.Millisecond, argv)
	if r.err == nil || !strings.Contains(r.err.Error(), "still running after 300ms") {
		t.Errorf("error %v, want the deadline", r.err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(w.ReadFile(t, "child")))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for running(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("child %d outlives the run", pid)
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
	var root string
	t.Run("inner", func(t *testing.T) {
		w := NewWorld(t, scripted())
		root = w.Root
		if got := w.ReadFile(t, w.SettingsFile()); got != "{}\n" {
			t.Errorf("settings %q", got)
		}
		if len(root) > 40 {
			t.Errorf("the path %s is too long for sockets below it", root)
		}
	})
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", root, err)
	}
}
