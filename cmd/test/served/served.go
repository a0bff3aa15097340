// Package served runs "grapnel serve" as a person does, for programs that measure it or
// break it:
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
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/server"
)

// Compile compiles programs of cmd into a directory, with tags and otherwise as Go does by
// itself, which takes less time than [Build].
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

// Build compiles programs of cmd below a directory, as they are shipped, and returns where
// they lie: the Makefile alone says how. With tags they are built with these, too.
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

// Exe is the name of a program in a directory.
func Exe(bin, name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(bin, name)
}

// Env is a small environment for programs that work below a root, with more of it.
func Env(root string, more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + root, "LANG=C"}, more...)
}

// A Daemon is one run of "grapnel serve" with a root of its own. It has a project directory,
// in which the agents of its events work.
type Daemon struct {
	Root    string
	Version string

	cmd  *exec.Cmd
	said *tail
	done chan struct{} // closed when it has ended
	err  error         // how; once done is closed
}

// ready is how long a daemon may take until it answers. It is long, because on a busy
// machine a daemon that is well may take long.
const ready = 2 * time.Minute

// Start starts a daemon and waits until it answers. more is for its environment.
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
			return nil, fmt.Errorf("grapnel serve: %w: %s", d.err, d.Said())
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("grapnel serve does not answer within %v: %w: %s", ready, err, d.Said()), d.Kill())
		}
	}
}

// Launch starts a daemon and does not wait.
func Launch(ctx context.Context, bin, root string, more []string) (*Daemon, error) {
	if err := os.MkdirAll(Project(root), 0o700); err != nil {
		return nil, err
	}
	d := &Daemon{Root: root, said: &tail{}, done: make(chan struct{})}
	d.cmd = exec.CommandContext(context.WithoutCancel(ctx), Exe(bin, "grapnel"), "serve", "--root", root)
	d.cmd.Dir, d.cmd.Env, d.cmd.Stderr, d.cmd.Stdout = root, Env(root, more...), d.said, d.said
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.done)
	}()
	return d, nil
}

// Project is where the agents work.
func Project(root string) string { return filepath.Join(root, "project") }

// State is the state directory below a root.
func State(root string) string { return filepath.Join(root, "state") }

// Socket is where the daemon listens.
func (d *Daemon) Socket() string { return client.Socket(State(d.Root)) }

// PID is its process.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Done is closed when it has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Said is the end of what it has printed.
func (d *Daemon) Said() string { return d.said.String() }

// Stop tells it to end and waits for it. It has to end well.
func (d *Daemon) Stop() error {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(ready):
		return errors.Join(fmt.Errorf("grapnel serve does not end within %v: %s", ready, d.Said()), d.Kill())
	}
	if d.err != nil {
		return fmt.Errorf("grapnel serve ends with %w: %s", d.err, d.Said())
	}
	return nil
}

// Kill ends it at once and waits until it has.
func (d *Daemon) Kill() error {
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.done
	return nil
}

// Killed reports whether a daemon that has ended did so by SIGKILL.
func (d *Daemon) Killed() bool {
	<-d.done
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && signaled(status)
}

// A Health is what a daemon says of itself.
type Health struct {
	Version  string `json:"version"`
	PID      int    `json:"pid"`
	Answered int64  `json:"answered"` // events
	Well     bool   `json:"-"`        // all parts work, and no Record is lost

	Store server.StoreHealth `json:"store"`
}

// Health asks the daemon how it is. One that is not well says so, too.
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

// Get returns what the daemon has at a path.
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

// Event is what Claude Code tells before it runs a command, by the ID of the call.
func Event(root, session, id, command string) []byte {
	ev, _ := json.Marshal(map[string]any{ // of texts alone
		"session_id": session, "transcript_path": filepath.Join(root, "transcript.jsonl"), "cwd": Project(root), "permission_mode": "default",
		"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": id,
		"tool_input": map[string]any{"command": command, "description": "Install, test, commit", "timeout": 120000},
	})
	return append(ev, '\n')
}

// Question is what grapnel-hook asks about an event: with the ID of the firing, so that its
// Record is found.
func (d *Daemon) Question(firing string, event []byte) *client.Question {
	return &client.Question{
		Version: d.Version, Agent: "claude-code", Root: d.Root, Home: d.Root, Firing: firing, Payload: event, Budget: 30 * time.Second,
	}
}

// tail keeps the end of what is written.
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
