// Pictures makes the pictures of the README from real runs:
//
//	make pictures
//
// It builds both programs, sends events of three agents through grapnel-hook, runs grapnel in
// tmux, and writes the screen as SVG. It needs tmux. Times differ in each run, so no test
// compares the pictures.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	width, height = 100, 26
	limit         = time.Minute // for one screen to appear
)

const policy = `version: 1
hooks:
  - name: no-force-push
    on: tool.before
    match: {command: git push --force}
    block: Force pushing rewrites shared history. Push a new branch instead.
  - name: ask-before-secrets
    on: tool.before
    match: {command: cat, text: .env}
    ask: The file .env contains passwords. Continue?
  - name: format
    on: tool.after
    match: {writes: "**/*.go"}
    run: "true"
`

const forcePush = `cd app && sudo bash -c "git -C . push -f origin main"`

// An object is a JSON object.
type object map[string]any

// events are what the agents do, in this order.
var events = []struct {
	agent, session string
	event          object
}{
	{"claude-code", "8f2c51d0", object{"hook_event_name": "UserPromptSubmit", "prompt": "Speed up the search page"}},
	{"claude-code", "8f2c51d0", object{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": object{"command": "go test ./search"}}},
	{"codex", "c41e0a77", object{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": object{"command": "git status"}}},
	{"claude-code", "8f2c51d0", object{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": object{"command": "cat .env"}}},
	{"codex", "c41e0a77", object{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": object{"command": "npm test"}}},
	{"claude-code", "8f2c51d0", object{"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": object{"file_path": "/home/dev/shop/search/index.go"}, "tool_response": object{}}},
	{"gemini-cli", "51b7f2aa", object{"hook_event_name": "BeforeTool", "tool_name": "run_shell_command", "tool_input": object{"command": forcePush}}},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures DIR")
		os.Exit(64)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "pictures: error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, to string) (err error) {
	dir, err := os.MkdirTemp("", "grapnel-pictures-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := studio{ctx: ctx, dir: dir, root: filepath.Join(dir, "root")}
	if err := s.setUp(); err != nil {
		return err
	}
	for name, shot := range map[string]shot{
		"explain.svg": {[]string{"sh", "-c", s.grapnel() + " explain --root " + s.root + " --command '" + forcePush + "'; sleep 60"}, "", "reply exit 0"},
		"watch.svg":   {[]string{s.grapnel(), "watch", "--root", s.root, "--since", "1h"}, "\r", "Force pushing"},
	} {
		screen, err := s.shoot(name, shot)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		screen = strings.ReplaceAll(screen, s.root+"/", "")
		if err := os.WriteFile(filepath.Join(to, name), []byte(svg(screen)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A studio is a directory with programs, a policy and Records.
type studio struct {
	ctx       context.Context
	dir, root string
}

func (s *studio) grapnel() string { return filepath.Join(s.dir, "grapnel") }

func (s *studio) setUp() error {
	build := exec.CommandContext(s.ctx, "go", "build", "-o", s.dir+string(filepath.Separator), "./cmd/grapnel", "./cmd/grapnel-hook")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs (run it at the top of the repository): %w\n%s", err, out)
	}
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	for _, e := range events {
		e.event["session_id"], e.event["cwd"] = e.session, "/home/dev/shop"
		text, err := json.Marshal(e.event)
		if err != nil {
			return err
		}
		hook := exec.CommandContext(s.ctx, filepath.Join(s.dir, "grapnel-hook"), e.agent, "--root", s.root)
		hook.Stdin = strings.NewReader(string(text))
		if out, err := hook.CombinedOutput(); err != nil {
			return fmt.Errorf("grapnel-hook %s: %w\n%s", e.agent, err, out)
		}
	}
	return nil
}

// A shot is a command to run, keys to type once it has written something, and a text that the
// screen then contains.
type shot struct {
	argv []string
	keys string
	want string
}

// shoot returns the screen with its colors. Each shot has a tmux server of its own name: one
// that ends may still hold its socket.
func (s *studio) shoot(name string, shot shot) (string, error) {
	socket := filepath.Join(s.dir, name+".tmux")
	tmux := func(args ...string) (string, error) {
		cmd := exec.CommandContext(s.ctx, "tmux", append([]string{"-f", "/dev/null", "-u", "-S", socket}, args...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TMUX=", "HOME="+s.dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := tmux(append([]string{"new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height)}, shot.argv...)...); err != nil {
		return "", fmt.Errorf("cannot start tmux: %w\n%s", err, out)
	}
	defer func() { _, _ = tmux("kill-server") }()
	typed := false
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		screen, err := tmux("capture-pane", "-e", "-p")
		if err != nil {
			return "", fmt.Errorf("cannot read the screen: %w\n%s", err, screen)
		}
		switch {
		case strings.TrimSpace(screen) == "":
		case !typed && shot.keys != "":
			typed = true
			if _, err := tmux("send-keys", "-l", shot.keys); err != nil {
				return "", err
			}
		case strings.Contains(sequence.ReplaceAllString(screen, ""), shot.want):
			return screen, nil
		}
	}
	return "", fmt.Errorf("the screen does not show %q within %v", shot.want, limit)
}
