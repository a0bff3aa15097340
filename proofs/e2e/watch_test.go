//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// A looked is a screen that shows "grapnel watch" to a user.
type looked interface {
	// Want waits until the screen contains all texts at the same time, and returns the screen.
	Want(t testing.TB, texts ...string) string
	// Press types a text.
	Press(t testing.TB, text string)
}

// look runs a program in tmux, which many users use, or without tmux on a terminal of package
// pty.
func look(t *testing.T, width, height int, argv ...string) looked {
	t.Helper()
	env := append(os.Environ(), "HOME="+t.TempDir(), "TERM=xterm-256color", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "NO_COLOR=", "TMUX=")
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Logf("there is no tmux here (%v): the screen is one of the tests", err)
		return display.Start(t, &exec.Cmd{Path: argv[0], Args: argv, Env: env}, width, height)
	}
	dir, err := os.MkdirTemp("/tmp", "tmux") //nolint:usetesting // a socket path must be short, and t.TempDir is long
	if err != nil {
		t.Fatal(err)
	}
	s := &tmuxScreen{tmux, filepath.Join(dir, "socket"), env}
	t.Cleanup(func() {
		_, _ = s.run("kill-server")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	args := append([]string{"-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height)}, argv...)
	if out, err := s.run(args...); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	return s
}

// A tmuxScreen is a separate tmux server with one window.
type tmuxScreen struct {
	program, socket string
	env             []string
}

func (s *tmuxScreen) run(args ...string) (string, error) {
	cmd := exec.Command(s.program, append([]string{"-u", "-S", s.socket}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Press sends the keys of a text.
func (s *tmuxScreen) Press(t testing.TB, text string) {
	t.Helper()
	for _, r := range text {
		if out, err := s.run("send-keys", "-H", fmt.Sprintf("%x", r)); err != nil {
			t.Fatalf("tmux: %v\n%s", err, out)
		}
	}
}

// Want captures the screen until it contains all texts.
func (s *tmuxScreen) Want(t testing.TB, texts ...string) string {
	t.Helper()
	for deadline := time.Now().Add(await.Limit); ; time.Sleep(20 * time.Millisecond) {
		screen, err := s.run("capture-pane", "-p")
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" && err == nil {
			return screen
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q is not seen (%v) in\n%s", missing, err, screen)
		}
	}
}

// Two agents work at the same time in different projects. One screen shows the actions of each,
// the blocks with their hooks, and one agent alone.
func TestWatchTwoAgents(t *testing.T) {
	t.Parallel()
	kit := filepath.Join(t.TempDir(), "kit")
	var both []guarded
	for _, a := range []*agents.Agent{agents.ClaudeCode, agents.GeminiCLI} {
		g := guarded{agents.NewWorld(t, a), kit, filepath.Dir(offline.Program(t, "grapnel"))}
		g.WriteFile(t, filepath.Join(kit, "grapnel.yaml"), noTouching)
		g.grapnel(t, "install", a.ID, "--yes")
		both = append(both, g)
	}
	screen := look(t, 120, 40, offline.Program(t, "grapnel"), "watch", "--root", kit)
	screen.Want(t, "waiting for events", "no daemon")

	// Both take a slot together, and the first does not end before the second has begun.
	defer agents.Slot()()
	defer agents.Slot()()
	meanwhile := both[1].Path("begun.txt")
	together := []string{fmt.Sprintf("for i in $(seq 300); do test -e %s && break; sleep 0.1; done", meanwhile), "touch " + meanwhile}
	var wait sync.WaitGroup
	for i, g := range both {
		wait.Go(func() {
			_, err := g.World.World.Run(t.Context(), "Do as planned.",
				model.Do(g.Shell("touch forbidden.txt")),
				model.Do(g.Shell(together[i])),
				model.Do(g.Write("free-"+g.Agent.ID+".txt", "free\n")),
				model.Answer("all done"),
			)
			if err != nil {
				t.Errorf("%s: %v", g.Agent, err)
			}
		})
	}
	wait.Wait()
	seen := screen.Want(t,
		"2 sessions", "2 blocked",
		"block  Bash touch forbidden.txt", "block  run_shell_command touch forbidden.txt",
		"Write free-claude-code.txt", "write_file free-gemini-cli.txt",
	)
	t.Logf("seen is\n%s", seen)
	for _, g := range both {
		sessions, _, _ := strings.Cut(seen, "── events")
		if !strings.Contains(sessions, "\n "+g.Agent.ID) || !strings.Contains(sessions, "1 blocked") {
			t.Errorf("the session of %s is not listed:\n%s", g.Agent, seen)
		}
	}
	var order []string // agents in the order of their events
	for _, r := range both[0].records(t) {
		if len(order) == 0 || order[len(order)-1] != r.Agent {
			order = append(order, r.Agent)
		}
	}
	if len(order) < 3 {
		t.Errorf("the agents worked one after the other: %v", order)
	}

	screen.Press(t, "/agent:gemini decision:block\r\r")
	seen = screen.Want(t, "1 of ", "because of ", "that file belongs to somebody else", `"hook_event_name": "BeforeTool"`)
	t.Logf("of one seen is\n%s", seen)
	if strings.Contains(seen, "block  Bash touch") {
		t.Errorf("the other agent's block is still there:\n%s", seen)
	}
	screen.Press(t, "q")
}
