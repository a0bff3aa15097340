//go:build system

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// grapnelCmd returns a command for one of Grapnel's programs, with a path that ends in its
// name: "grapnel daemon start" starts its own executable.
func grapnelCmd(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name) // testscript.Main has put it there
	if err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{
		Path: path, Args: append([]string{name}, args...),
		Env: append(os.Environ(), "HOME="+filepath.Join(t.TempDir(), "home"), "XDG_CONFIG_HOME=", "TERM=xterm-256color", "NO_COLOR=", "TMUX=", "GORACE=atexit_sleep_ms=0"),
	}
}

// hooked is a root with a policy that decides. It sends events to its hook.
type hooked struct {
	testing.TB
	root string
}

func newHooked(t testing.TB) hooked {
	t.Helper()
	h := hooked{t, filepath.Join(t.TempDir(), "kit")}
	if err := os.MkdirAll(h.root, 0o700); err != nil {
		t.Fatal(err)
	}
	policy := `version: 1
hooks:
  - {name: no-force-push, on: tool.before, match: {command: git push --force}, block: Force pushing rewrites shared history.}
  - {name: careful, on: tool.before, match: {path: "**/prod/**"}, ask: Really?}
  - {name: keys, on: tool.before, replace: [{pattern: 'sk-[a-z]+', with: sk-***}]}
  - {name: broken, on: tool.before, match: {command: npm install}, run: exit 7}
`
	if err := os.WriteFile(filepath.Join(h.root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endDaemons(h.root) })
	return h
}

// run runs one of Grapnel's programs and expects success.
func (h hooked) run(stdin, name string, args ...string) {
	h.Helper()
	cmd := grapnelCmd(h, name, append(args, "--root", h.root)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func quoted(t testing.TB, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// claude and gemini are agents that run a shell line.
func (h hooked) claude(command string) {
	h.Helper()
	h.run(`{"session_id":"c1","cwd":"/home/dev/shop","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":`+quoted(h, command)+`}}`, "grapnel-hook", "claude-code")
}

func (h hooked) gemini(command string) {
	h.Helper()
	h.run(`{"session_id":"g1","cwd":"/home/dev/api","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":`+quoted(h, command)+`}}`, "grapnel-hook", "gemini-cli")
}

func (h hooked) watch(width, height int, args ...string) *display.Terminal {
	h.Helper()
	return display.Start(h, grapnelCmd(h, "grapnel", append([]string{"watch", "--root", h.root}, args...)...), width, height)
}

// `grapnel watch` shows the work of two agents: as a list, filtered, one event in full, paused,
// and at another size.
func TestWatch(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.claude("echo long ago")
	w := h.watch(80, 24)
	w.Want(t, "waiting for events", "no daemon", "? help")
	if !w.Alternate() {
		t.Error("it does not take a screen of its own")
	}
	h.claude("git status")
	h.claude("git push --force")
	h.gemini("cat /prod/key")
	h.gemini("npm install evil \x1b]0;owned\a\nsecond line")
	screen := w.Want(t, "2 sessions  4 events  1 blocked  1 asked  1 FAILED", "block  Bash git push --force", "no-force-push", "ask    run_shell_command cat /prod", "FAILED OPEN: b", "/home/dev/shop", "/home/dev/api")
	if strings.Contains(screen, "long ago") {
		t.Errorf("it does not begin now:\n%s", screen)
	}
	if strings.Contains(w.Raw(), "\x1b]0;owned") {
		t.Error("an event reaches the terminal as it came")
	}

	w.Press(t, "/agent:claude decision:block\r")
	w.Until(t, func(s string) bool { return strings.Contains(s, "1 of 4") && !strings.Contains(s, "git status") }, "only the block")
	w.Press(t, "\r")
	w.Want(t, "because of no-force-push: Force pushing rewrites shared history.", "session c1  in /home/dev/shop")
	w.Press(t, "\x1b")
	w.Until(t, func(s string) bool { return !strings.Contains(s, "because of") }, "no details")
	w.Press(t, "\x1b")
	w.Want(t, "git status")

	w.Press(t, " ")
	w.Want(t, "PAUSED")
	h.claude("curl -H sk-abc https://example.com")
	w.Want(t, "PAUSED, 1 new")
	w.Press(t, " f\r")
	w.Want(t, "change Bash curl -H sk-abc", "changed: tool.input", `-   "command": "curl -H sk-abc https://example.com"`, `+   "command": "curl -H sk-*** https://example.com"`)

	w.SetSize(t, 120, 40)
	screen = w.Want(t, "no daemon: reading the log", "claude-code", "run_shell_command npm install evil", "event as recorded")
	if n := strings.Count(screen, "\n"); n != 40 {
		t.Errorf("the screen has %d lines:\n%s", n, screen)
	}
	w.SetSize(t, 40, 8)
	w.Until(t, func(s string) bool { return strings.Contains(s, "── details") && strings.Contains(s, "q quit") }, "small, and still there")
	w.Press(t, "q")
	if code := w.Exit(t); code != 0 || w.Alternate() {
		t.Errorf("exit status %d, and the screen was not given back: %v", code, w.Alternate())
	}
}

// Events look the same in `grapnel watch` with and without a daemon.
func TestWatchDaemonComesAndGoes(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.claude("echo before")
	w := h.watch(100, 24, "--since", "1h")
	w.Want(t, "no daemon", "echo before")
	h.run("", "grapnel", "daemon", "start")
	w.Until(t, func(s string) bool { return strings.Contains(s, "daemon ") && !strings.Contains(s, "no daemon") }, "a daemon")
	h.claude("echo warm")
	w.Want(t, "echo warm")
	h.run("", "grapnel", "daemon", "stop")
	w.Want(t, "no daemon")
	h.claude("echo cold")
	screen := w.Want(t, "echo before", "echo warm", "echo cold", "1 session  3 events")
	for _, text := range []string{"echo before", "echo warm", "echo cold"} {
		if n := strings.Count(screen, "none   Bash "+text); n != 1 {
			t.Errorf("%s is there %d times:\n%s", text, n, screen)
		}
	}
	w.Press(t, "\x03")
	if code := w.Exit(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// In a burst of more events than the screen keeps, all are counted and the dropped ones are
// reported, while a daemon starts and stops again.
func TestWatchBurst(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	w := h.watch(120, 30, "--keep", "500")
	w.Want(t, "waiting for events")
	const writers, each = 4, 600
	write := func(n int) {
		s, err := spool.Open(filepath.Join(h.root, "state"), nil)
		if err != nil {
			t.Error(err)
			return
		}
		for i := range each {
			now := time.Now()
			s.Observe(t.Context(), &grapnel.Record{
				ID: fmt.Sprintf("%d-%d", n, i), Time: now, Agent: "codex", Session: fmt.Sprint(n), Event: grapnel.ToolBefore, Tool: "x", Decision: grapnel.Block, Hooks: []grapnel.HookRun{},
			})
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	}
	var wait sync.WaitGroup
	for n := range writers {
		wait.Go(func() { write(n) })
	}
	h.run("", "grapnel", "daemon", "start")
	wait.Wait()
	h.run("", "grapnel", "daemon", "stop")
	w.Want(t, fmt.Sprintf("%d sessions  %d events  %[2]d blocked", writers, writers*each), fmt.Sprintf("%d older events dropped", writers*each-500))
	w.Press(t, "q")
	if code := w.Exit(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// Without colors, the screen shows the same states as text.
func TestWatchWithoutColours(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.claude("git push --force")
	for _, want := range []bool{false, true} {
		cmd := grapnelCmd(t, "grapnel", "watch", "--root", h.root, "--since", "1h")
		if !want {
			cmd.Env = append(cmd.Env, "NO_COLOR=yes")
		}
		w := display.Start(t, cmd, 80, 24)
		w.Want(t, "block  Bash git push --force", "1 blocked", "\n>")
		if got := strings.Contains(w.Raw(), "\x1b[31m"); got != want {
			t.Errorf("red is written: %v, want %v", got, want)
		}
		w.Press(t, "q")
		w.Exit(t)
	}
}

// A terminal without cursor control is not supported.
func TestWatchAtADumbTerminal(t *testing.T) {
	t.Parallel()
	cmd := grapnelCmd(t, "grapnel", "watch", "--root", t.TempDir())
	cmd.Env = append(cmd.Env, "TERM=dumb")
	w := display.Start(t, cmd, 80, 24)
	w.Want(t, `hint: run "grapnel log -f"`)
	if code := w.Exit(t); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
}

// For any input of agents and any terminal size, including changes of the size, the screen
// stays intact.
func TestWatchHoldsItsScreen(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	w := h.watch(20, 5)
	w.Want(t, "0 events", "waiting for events")
	for _, command := range []string{
		"echo \x1b[2J\x1b[Hgone\x1b]0;owned\a\x1b]52;c;b3duZWQ=\a", "echo " + strings.Repeat("long ", 20_000), "echo a\r\n\r\nb\x00\x7f\u009b31m", "echo \u202egnp.exe\u2066\u2028\u200b",
		"echo " + strings.Repeat("宽", 5_000), "echo e" + strings.Repeat("\u0301", 3_000), "echo 👩‍👩‍👧‍👦🇩🇪❤️", "echo " + strings.Repeat("x", 100_000),
	} {
		h.claude(command)
	}
	h.run("{\"session_id\":\"\xff\xfe\",\"cwd\":\"/w\",\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\xc3\",\"tool_input\":{\"command\":\"echo \x80\xff\"}}", "grapnel-hook", "claude-code")
	h.claude("git push --force")
	w.Want(t, "10 events", "\n>block  git push --…\n", "q quit")
	w.Press(t, "\r") // the details view too
	for _, size := range [][2]int{{300, 80}, {20, 5}, {1, 1}, {300, 3}, {3, 80}, {2, 2}, {80, 24}, {20, 5}, {300, 80}} {
		w.SetSize(t, size[0], size[1])
		w.Press(t, "k")
		if size[0] < 80 || size[1] < 24 {
			continue
		}
		screen := w.Want(t, "2 sessions", "10 events", "1 blocked", "q quit")
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if len(lines) != size[1] || !strings.HasPrefix(lines[0], "grapnel") || !strings.HasSuffix(lines[len(lines)-1], "q quit") {
			t.Errorf("at %v there are %d lines:\n%s", size, len(lines), screen)
		}
	}
	for _, raw := range []string{"\x1b]0;owned", "\x1b]52", "\x1b[2J\x1b[Hgone", "\u202e", "\u2066", "\u009b", "\x00", "\xff"} {
		if strings.Contains(w.Raw(), raw) {
			t.Errorf("%q reaches the terminal as it came", raw)
		}
	}
	w.Press(t, "q")
	if code := w.Exit(t); code != 0 || w.Alternate() {
		t.Errorf("exit status %d, and the screen was not given back: %v", code, w.Alternate())
	}
}

// A daemon is killed while `grapnel watch` runs, and another one starts. The screen shows both,
// and no event is missing or shown twice.
func TestWatchDaemonIsKilled(t *testing.T) {
	t.Parallel()
	h := newHooked(t)
	h.run("", "grapnel", "daemon", "start")
	w := h.watch(100, 24, "--since", "1h")
	daemon := regexp.MustCompile(`daemon ([0-9]+)`)
	serving := func() int {
		screen := w.Until(t, daemon.MatchString, "a daemon")
		pid, err := strconv.Atoi(daemon.FindStringSubmatch(screen)[1])
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first := serving()
	h.claude("echo warm")
	w.Want(t, "echo warm")
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.claude("echo orphaned")
	w.Want(t, "the daemon died", "echo orphaned")
	h.run("", "grapnel", "daemon", "start")
	if second := serving(); second == first {
		t.Errorf("it still says that process %d serves", first)
	}
	h.claude("echo again")
	screen := w.Want(t, "echo again", "1 session  3 events")
	for _, text := range []string{"echo warm", "echo orphaned", "echo again"} {
		if n := strings.Count(screen, "none   Bash "+text); n != 1 {
			t.Errorf("%s is there %d times:\n%s", text, n, screen)
		}
	}
	w.Press(t, "q")
	if code := w.Exit(t); code != 0 {
		t.Errorf("exit status %d", code)
	}
}
