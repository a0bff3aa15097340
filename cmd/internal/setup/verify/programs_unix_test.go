//go:build system && unix

package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

func TestAskVersion(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"2.1.329 (Claude Code)":            "2.1.329",
		"codex-cli 0.169.0":                "0.169.0",
		"GitHub Copilot CLI 1.0.102.\nrun": "1.0.102",
		"OpenClaw 2026.9.6 (abc1234)":      "2026.9.6",
		"crush version v0.86.0":            "0.86.0",
		"1.2.3-beta.1":                     "1.2.3-beta.1",
		"no idea":                          "",
	} {
		path := filepath.Join(t.TempDir(), "agent")
		programs.Write(t, path, fmt.Sprintf("#!/bin/sh\n[ \"$*\" = --version ] && printf '%%s\\n' '%s'\n", output))
		got, err := Program{Agent: scripted(), Command: []string{path}}.AskVersion(t.Context())
		if got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: version %q and error %v, want %q", output, got, err, want)
		}
	}
}

// An agent that hangs is killed with all processes that it started, even if it ignores the
// request to end and its children keep its output open.
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

// A program that leaves the process group of its run lives until the end of the world, like a
// daemon that serves several runs.
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

// Files that an agent would download or unpack exist before it starts.
func TestPrepared(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	w := worldOf(t, Program{Agent: CopilotCLI, Cache: cache})
	if to, err := os.Readlink(filepath.Join(w.Home, ".cache", "copilot")); err != nil || to != cache {
		t.Errorf("the cache leads to %s, %v", to, err)
	}

	path := filepath.Join(t.TempDir(), "agent")
	programs.Write(t, path, "#!/bin/sh\necho 1.18.99\n")
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

// A request that no model gets, or that is for another host, fails the run.
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
