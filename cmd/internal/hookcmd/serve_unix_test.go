//go:build system && unix

package hookcmd

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// waits returns a policy whose hook at tool.before reports its start, and ends when the file go
// exists in root.
func waits(root string) string {
	return `version: 1
hooks:
  - name: waits
    on: tool.before
    match: {command: sleep}
    timeout: 50s
    run: touch ` + root + `/begun; while [ ! -e ` + root + `/go ]; do sleep 0.02; done; echo '{"decision":"block","reason":"waited"}'
  - {name: guard, on: tool.before, match: {command: rm -rf}, block: Use trash.}
`
}

const sleeps = `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_input":{"command":"sleep 1"}}`

func waitFor(t testing.TB, name string) {
	t.Helper()
	await.Until(t, "the file "+name+" exists", func() bool {
		_, err := os.Stat(name)
		return err == nil
	})
}

func touch(t testing.TB, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A slow event does not delay other events, and the end of the input does not end it.
func TestServedAtOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	touch(t, filepath.Join(root, "grapnel.yaml"))
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(waits(root)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "claude-code", "--root", root)
	s.write(`{"type":"event","id":"slow","event":%s}`, sleeps)
	if got := s.ask(removes); !strings.Contains(got.Stdout, "Use trash.") {
		t.Errorf("beside another: %+v, want a block", got)
	}
	waitFor(t, filepath.Join(root, "begun"))
	_ = s.in.Close()
	touch(t, filepath.Join(root, "go"))
	if m := s.read(); m.ID != "slow" || !strings.Contains(m.Reply.Stdout, "waited") {
		t.Errorf("%+v %+v, want what the hook said", m, m.Reply)
	}
	s.end()
}

// A canceled event ends at once.
func TestServedCancel(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(waits(root)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "claude-code", "--root", root)
	s.write(`{"type":"event","id":"slow","event":%s}`, sleeps)
	waitFor(t, filepath.Join(root, "begun"))
	s.write(`{"type":"cancel","id":"slow"}`)
	if m := s.read(); m.ID != "slow" || !strings.Contains(m.Reply.Stdout, "context canceled") {
		t.Errorf("%+v %+v, want the reply of a canceled event", m, m.Reply)
	}
	s.end()
}

// TestServeProcess is the process of grapnel-hook for the tests below.
func TestServeProcess(t *testing.T) {
	if args := os.Getenv("TEST_SERVE"); args != "" {
		os.Exit(Main(strings.Fields(args), os.Stdin, os.Stdout, os.Stderr))
	}
	t.Skip("is run by others")
}

// A first signal has the same effect as the end of the input; a second one cancels current
// events. A signal from a terminal to the whole group is ignored.
func TestServedSignal(t *testing.T) {
	t.Parallel()
	for name, twice := range map[string]bool{"once": false, "twice": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(waits(root)), 0o600); err != nil {
				t.Fatal(err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestServeProcess$")
			cmd.Env = append(os.Environ(), "TEST_SERVE=claude-code --serve --root "+root)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan() // the hello
			if _, err := in.Write([]byte(`{"type":"event","id":"slow","event":` + sleeps + "}\n")); err != nil {
				t.Fatal(err)
			}
			waitFor(t, filepath.Join(root, "begun"))
			for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
			if twice {
				time.Sleep(50 * time.Millisecond) // two pending signals would be merged into one
				_ = cmd.Process.Signal(syscall.SIGTERM)
			} else {
				touch(t, filepath.Join(root, "go"))
			}
			lines.Scan()
			m, err := dialect.ReadMessage(lines.Bytes())
			if err != nil || m.ID != "slow" || strings.Contains(m.Reply.Stdout, "waited") == twice {
				t.Errorf("%s %v", lines.Bytes(), err)
			}
			if lines.Scan() {
				t.Errorf("it goes on: %s", lines.Bytes())
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v: %s", err, &stderr)
			}
		})
	}
}

// A closed output also ends the process.
func TestServedUnread(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := rootWith(t, servedPolicy)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestServeProcess$")
	cmd.Env = append(os.Environ(), "TEST_SERVE=claude-code --serve --root "+root)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	for range 2 {
		_, _ = in.Write([]byte(`{"type":"event","id":"1","event":` + removes + "}\n"))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if got := recorded(t, root); len(got) == 0 {
		t.Errorf("what was asked left no Record")
	}
}
