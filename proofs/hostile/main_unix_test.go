//go:build system && unix

package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

// built is the directory of the programs under test, and scratch the directory of the worlds.
// Background work may outlive its test, so scratch is removed last.
var built, scratch string

func TestMain(m *testing.M) {
	if os.Getenv(insideVar) != "" {
		enterMachine()
	}
	if os.Getenv(measureVar) != "" {
		os.Exit(measure())
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	built = dir
	if scratch, err = os.MkdirTemp("", "grapnel-hostile-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return m.Run()
}

// Limits for one answer. An agent gives a hook 60 seconds, so a guard that needs more CPU time is
// useless. Elapsed time has no limit here, because it depends more on the machine than on the
// program.
const (
	maxCPU    = time.Minute
	maxMemory = 400 << 20 // more than ten times the largest payload that is read
)

// A world is a directory that holds only a policy and Grapnel's state.
type world struct {
	dir  string // contains only root and must stay so
	root string
}

func newWorld(t *testing.T, policy string) world {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "world-") //nolint:usetesting // a drain may still write there when the test is over
	if err != nil {
		t.Fatal(err)
	}
	w := world{dir: dir, root: filepath.Join(dir, "root")}
	if err := os.Mkdir(w.root, 0o700); err != nil {
		t.Fatal(err)
	}
	if policy != "" {
		w.write(t, "grapnel.yaml", policy)
	}
	return w
}

func (w world) write(t *testing.T, name, text string) {
	t.Helper()
	file, before := filepath.Join(w.root, name), time.Now().Add(-time.Minute) // a policy counts some time after its last change
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, before, before)); err != nil {
		t.Fatal(err)
	}
}

// result is the result of one run.
type result struct {
	stdout, stderr string
	exit           int // -1 = ended by a signal
	cpu            time.Duration
}

func (r result) String() string {
	cut := func(s string) string {
		if len(s) > 600 {
			return s[:600] + "…"
		}
		return s
	}
	return fmt.Sprintf("exit %d, stdout %q, stderr %q", r.exit, cut(r.stdout), cut(r.stderr))
}

// hook returns a command that runs grapnel-hook.
func (w world) hook(t *testing.T, stdin io.Reader, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(built, "grapnel-hook"), append(args, "--root", w.root)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + w.root, "LANG=C.UTF-8"}
	cmd.Dir = "/"
	cmd.Stdin = stdin
	return cmd
}

// run runs a command and checks the conditions for every run.
func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{
		stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode(),
		cpu: cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(),
	}
	sound(t, r)
	return r
}

// measureVar names the environment variable that makes the test binary a small program. It runs
// another program and writes that program's memory use to the file in the variable. Linux adds
// the memory of the parent process at the start of a program, so the parent must be small.
const measureVar = "GRAPNEL_TEST_MEASURE"

func measure() int {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	memory := int64(-1)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		if memory = usage.Maxrss; runtime.GOOS == "linux" {
			memory <<= 10
		}
	}
	err = errors.Join(err, os.WriteFile(os.Getenv(measureVar), strconv.AppendInt(nil, memory, 10), 0o600))
	if code := cmd.ProcessState.ExitCode(); code != 0 || err == nil {
		return code
	}
	return 1
}

// measured is like run, and also checks the memory use.
func measured(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "memory")
	cmd.Args = append([]string{os.Args[0]}, cmd.Args...)
	cmd.Path, cmd.Env = os.Args[0], append(cmd.Env, measureVar+"="+file)
	r := run(t, cmd)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if memory, err := strconv.ParseInt(string(text), 10, 64); err != nil || memory <= 0 || memory > maxMemory {
		t.Errorf("it takes %d MB, %v: %v", memory>>20, err, r)
	}
	return r
}

// sound checks the conditions for every run.
func sound(t *testing.T, r result) {
	t.Helper()
	if r.exit != 0 && r.exit != 1 {
		t.Errorf("the exit code is neither 0 nor 1: %v", r)
	}
	for _, trace := range []string{"panic:", "goroutine ", "runtime error", "fatal error:", "internal error"} {
		if strings.Contains(r.stdout+r.stderr, trace) {
			t.Errorf("a crash can be seen: %v", r)
		}
	}
	if r.stdout != "" {
		line, more, ended := strings.Cut(r.stdout, "\n")
		if !ended || more != "" || !strings.HasPrefix(line, "{") || !json.Valid([]byte(line)) {
			t.Errorf("standard output is not one JSON object: %v", r)
		}
	}
	visible(t, "standard error", r.stderr)
	if r.cpu > maxCPU {
		t.Errorf("it needs %v of processor time: %v", r.cpu, r)
	}
}

// visible checks that a text contains no characters that control a terminal.
func visible(t *testing.T, what, text string) {
	t.Helper()
	for _, c := range text {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			t.Errorf("%s has the control character %U in it: %q", what, c, text)
			return
		}
	}
}

// texts lists all strings in decoded JSON.
func texts(value any) []string {
	var list []string
	switch value := value.(type) {
	case string:
		list = append(list, value)
	case []any:
		for _, v := range value {
			list = append(list, texts(v)...)
		}
	case map[string]any:
		for _, v := range value {
			list = append(list, texts(v)...)
		}
	}
	return list
}

// An effect is the agent's reaction to a reply.
type effect struct{ blocked, asked, allowed bool }

// heeds interprets a reply like the agent.
func heeds(t *testing.T, agent string, r result) effect {
	t.Helper()
	var reply struct {
		Continue *bool
		Decision string
		Specific struct {
			Decision string `json:"permissionDecision"`
		} `json:"hookSpecificOutput"`
	}
	if r.stdout != "" {
		if err := json.Unmarshal([]byte(r.stdout), &reply); err != nil {
			t.Errorf("%v: %v", err, r)
		}
	}
	decided := func(words ...string) bool {
		for _, word := range words {
			if reply.Decision == word || agent == "claude-code" && reply.Specific.Decision == word {
				return true
			}
		}
		return false
	}
	return effect{blocked: decided("block", "deny"), asked: decided("ask"), allowed: decided("allow", "approve")}
}
