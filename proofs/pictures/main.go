// Pictures makes the pictures of the README from real runs:
//
//	make pictures
//
// It builds both programs and the demo, runs them in tmux, and writes the screen as SVG. It needs
// tmux. Times differ in each run, so no test compares the pictures.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const limit = time.Minute // for one screen to appear

const policy = `version: 1
hooks:
  - name: no-force-push
    on: tool.before
    match: {command: git push --force}
    block: Force pushing rewrites shared history. Push a new branch instead.
`

const forcePush = `cd app && sudo bash -c "git -C . push -f origin main"`

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
		"explain.svg": {s.grapnel() + " explain --root " + s.root + " --command '" + forcePush + "'", "reply exit 0", 100, 26},
		"demo.svg":    {filepath.Join(s.dir, "demo") + " " + s.dir, "a page per task", 80, 50},
	} {
		screen, err := s.shoot(name, shot)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		screen = strings.ReplaceAll(screen, s.root+"/", "")
		if err := os.WriteFile(filepath.Join(to, name), []byte(svg(screen, shot.width)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A studio is a directory with programs and a policy.
type studio struct {
	ctx       context.Context
	dir, root string
}

func (s *studio) grapnel() string { return filepath.Join(s.dir, "grapnel") }

func (s *studio) setUp() error {
	build := exec.CommandContext(s.ctx, "go", "build", "-o", s.dir+string(filepath.Separator), "./cmd/grapnel", "./cmd/grapnel-hook", "./proofs/demo")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs (run it at the top of the repository): %w\n%s", err, out)
	}
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
		return err
	}
	return nil
}

// A shot is a command for a shell, a text that the screen then contains, and the size of the
// screen in characters.
type shot struct {
	command, want string
	width, height int
}

// shoot returns the screen with its colors. Each shot has a tmux server with its own name: one
// that ends may still hold its socket.
func (s *studio) shoot(name string, shot shot) (string, error) {
	socket := filepath.Join(s.dir, name+".tmux")
	tmux := func(args ...string) (string, error) {
		cmd := exec.CommandContext(s.ctx, "tmux", append([]string{"-f", "/dev/null", "-u", "-S", socket}, args...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TMUX=", "HOME="+s.dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := tmux("new-session", "-d", "-x", fmt.Sprint(shot.width), "-y", fmt.Sprint(shot.height), shot.command+"; sleep 60"); err != nil {
		return "", fmt.Errorf("cannot start tmux: %w\n%s", err, out)
	}
	defer func() { _, _ = tmux("kill-server") }()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		screen, err := tmux("capture-pane", "-e", "-p")
		if err != nil {
			return "", fmt.Errorf("cannot read the screen: %w\n%s", err, screen)
		}
		if strings.Contains(sequence.ReplaceAllString(screen, ""), shot.want) {
			return screen, nil
		}
	}
	return "", fmt.Errorf("the screen does not show %q within %v", shot.want, limit)
}
