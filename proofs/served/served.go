// Package served runs "grapnel serve" like a user does, for programs that measure it or break it:
//
//	bin, err := served.Build(ctx, dir, "", "grapnel")
//	d, err := served.Start(ctx, bin, root, nil)
//	answer, err := client.Ask(d.Socket(), d.Shell("toolu_1", "ls"))
//	err = d.Stop()
package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/index"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// Compile compiles programs of cmd into a directory with the default flags of Go and the given
// tags. It is faster than [Build].
func Compile(ctx context.Context, bin, tags string, programs ...string) error {
	args := []string{"build", "-tags", tags, "-o", bin + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "github.com/grapnel-dev/grapnel/cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// Build compiles programs of cmd below a directory with the release flags, by calling the
// Makefile that defines them. It returns the directory of the programs. tags are additional build
// tags.
func Build(ctx context.Context, dir, tags string, programs ...string) (bin string, err error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/grapnel-dev/grapnel").Output()
	if err != nil {
		return "", fmt.Errorf("find the Makefile: %w", err)
	}
	for i, p := range programs {
		programs[i] = "./cmd/" + p
	}
	bin = filepath.Join(dir, "bin")
	cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", strings.TrimSpace(string(root)), "build",
		"BIN="+bin+string(filepath.Separator), "PROGRAMS="+strings.Join(programs, " "))
	if tags != "" {
		cmd.Env = append(os.Environ(), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -tags="+tags))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return bin, nil
}

// Exe returns the path of a program in a directory.
func Exe(bin, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(bin, name)
}

// Env returns a small environment for programs that work below a root, followed by more.
func Env(root string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + root, "LANG=C"}, more...)
}

// A Daemon is one run of "grapnel serve" with its own root. The root has a project directory, in
// which the agents of its events work.
type Daemon struct {
	Root    string
	Version string

	cmd    *exec.Cmd
	output *tail
	done   chan struct{} // closed when the process has ended
	err    error         // result of the process; valid after done is closed
}

// ready is the longest time until a daemon answers. It is long, because a healthy daemon can be
// slow on a busy machine.
const ready = 2 * time.Minute

// Start starts a daemon and waits until it answers. It adds more to the environment.
func Start(ctx context.Context, bin, root string, more []string) (*Daemon, error) {
	d, err := Launch(ctx, bin, root, more)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(ready); ; {
		health, err := d.Health(ctx)
		if err == nil && health.PID == d.cmd.Process.Pid {
			d.Version = health.Version
			return d, nil
		}
		select {
		case <-d.done:
			return nil, fmt.Errorf("grapnel serve: %w: %s", d.err, d.Output())
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("grapnel serve did not answer within %v: %w: %s", ready, err, d.Output()), d.Kill())
		}
	}
}

// Launch starts a daemon and does not wait until it answers.
func Launch(ctx context.Context, bin, root string, more []string) (*Daemon, error) {
	if err := os.MkdirAll(Project(root), 0o700); err != nil {
		return nil, err
	}
	d := &Daemon{Root: root, output: &tail{}, done: make(chan struct{})}
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), Exe(bin, "grapnel"), "serve", "--root", root)
	d.cmd.Dir, d.cmd.Env, d.cmd.Stderr, d.cmd.Stdout = root, Env(root, more...), d.output, d.output
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	return d, nil
}

// Project returns the directory below a root in which the agents work.
func Project(root string) string { return filepath.Join(root, "project") }

// Log returns the log of the daemon of a root.
func Log(root string) index.Log {
	return index.Log{State: State(root), Index: filepath.Join(State(root), "index")}
}

// Journal returns the directory of that log.
func Journal(root string) string { return filepath.Join(Log(root).State, spool.JournalDir) }

// State returns the state directory below a root.
func State(root string) string { return filepath.Join(root, "state") }

// Socket returns the path of the daemon's socket.
func (d *Daemon) Socket() string { return client.Socket(State(d.Root)) }

// PID returns the process ID of the daemon.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Output returns the last part of the daemon's output.
func (d *Daemon) Output() string { return d.output.String() }

// Stop sends SIGTERM and waits for the end of the process. It returns an error if the daemon
// fails.
func (d *Daemon) Stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(ready):
		return errors.Join(fmt.Errorf("grapnel serve did not stop within %v: %s", ready, d.Output()), d.Kill())
	}
	if d.err != nil {
		return fmt.Errorf("grapnel serve stopped with %w: %s", d.err, d.Output())
	}
	return nil
}

// Kill kills the daemon and waits for the end of the process.
func (d *Daemon) Kill() error {
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.done
	return nil
}

// Killed waits for the end of the process and reports whether SIGKILL ended it.
func (d *Daemon) Killed() bool {
	<-d.done
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && signaled(status)
}

// A Health is the daemon's health report.
type Health struct {
	Version  string `json:"version"`
	PID      int    `json:"pid"`
	Answered int64  `json:"answered"` // events
	Well     bool   `json:"-"`        // all parts work, and no Record is lost

	Store server.StoreHealth `json:"store"`
}

// Health requests the health report. A daemon with a problem also sends one; then Well is false.
func (d *Daemon) Health(ctx context.Context) (h Health, err error) {
	status, text, err := d.get(ctx, "/v1/health")
	if h.Well = status == http.StatusOK; err == nil && !h.Well && status != http.StatusServiceUnavailable {
		err = fmt.Errorf("GET /v1/health: %d", status)
	}
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(text, &h)
}

// Get returns the body of the daemon's reply to a GET request for a path.
func (d *Daemon) Get(ctx context.Context, path string) ([]byte, error) {
	status, text, err := d.get(ctx, path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: %d", path, status)
	}
	return text, err
}

func (d *Daemon) get(ctx context.Context, path string) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket())
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://grapnel"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, text, err
}

// Event returns the PreToolUse payload of Claude Code for a command. id is the ID of the call.
func Event(root, session, id, command string) []byte {
	ev, _ := json.Marshal(map[string]any{ // strings always encode
		"session_id": session, "transcript_path": filepath.Join(root, "transcript.jsonl"), "cwd": Project(root), "permission_mode": "default",
		"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": id,
		"tool_input": map[string]any{"command": command, "description": "Install, test, commit", "timeout": 120000},
	})
	return append(ev, '\n')
}

// Question returns the request that grapnel-hook would send for an event. firing becomes the ID
// of the Record.
func (d *Daemon) Question(firing string, event []byte) *client.Question {
	return &client.Question{
		Version: d.Version, Agent: "claude-code", Root: d.Root, Home: d.Root, Firing: firing, Payload: event, Budget: 30 * time.Second,
	}
}

// tail is a writer that keeps the end of the text.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(t.text, p...); len(t.text) > 16<<10 {
		t.text = append([]byte(nil), t.text[len(t.text)-8<<10:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
