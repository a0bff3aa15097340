package agents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// CacheVar names the environment variable that says where agents are installed.
const CacheVar = "GRAPNEL_E2E_CACHE"

// CacheDir returns the directory the agents are installed below: $GRAPNEL_E2E_CACHE,
// or grapnel-e2e in the user's cache directory. It has one directory per agent
// and version, some 500 MB together.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVar); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory for agents: %w (set %s)", err, CacheVar)
	}
	return filepath.Join(dir, "grapnel-e2e"), nil
}

// Install makes sure that the agents are in the cache in their exact versions,
// and that they start. It needs npm and a registry only for what is missing, and
// may run in several processes at once.
func Install(ctx context.Context, agents ...*Agent) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	for _, a := range agents {
		if err := a.install(ctx, cache, "npm"); err != nil {
			return fmt.Errorf("install %s %s: %w", a.ID, a.Version, err)
		}
	}
	return nil
}

func (a *Agent) prefix(cache string) string {
	return filepath.Join(cache, a.ID+"-"+a.Version)
}

func (a *Agent) install(ctx context.Context, cache, npm string) (err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	prefix := a.prefix(cache)
	// Two npm processes in one directory spoil it.
	unlock, err := lockedfile.MutexAt(prefix + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()

	if _, err := os.Stat(prefix); err == nil {
		if err := a.verify(ctx, prefix); err != nil {
			return fmt.Errorf("%w (remove %s to install it anew)", err, prefix)
		}
		return nil
	}

	npm, err = lookPath(npm)
	if err != nil {
		return err
	}
	// A directory of the final name is always complete: an install that was
	// interrupted leaves its parts under another one.
	partial := prefix + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return err
	}
	args := append([]string{"install", "--prefix", partial, "--ignore-scripts", "--no-audit", "--no-fund"}, a.npmFlags...)
	args = append(args, a.Package+"@"+a.Version)
	cmd := exec.CommandContext(ctx, npm, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, lastLines(string(out), 20))
	}
	if err := a.verify(ctx, partial); err != nil {
		return fmt.Errorf("npm succeeded, but %w", err)
	}
	return os.Rename(partial, prefix)
}

// verify starts the agent below prefix and asks for its version.
func (a *Agent) verify(ctx context.Context, prefix string) (err error) {
	argv, err := a.command(prefix, "--version")
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "grapnel-e2e-home")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "GEMINI_CLI_NO_RELAUNCH=true"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, lastLines(string(out), 20))
	}
	if version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " "); version != a.Version {
		return fmt.Errorf("%s says %q, want version %s", strings.Join(argv, " "), version, a.Version)
	}
	return nil
}

// lookPath finds a program that people install together with Node.js.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w (the agents come from npm and Gemini CLI runs on Node.js 20 or newer: install Node.js)", err)
	}
	return filepath.Abs(path)
}

// lastLines returns at most the last n lines of s, the ends of long lines cut off:
// some agents print a page of JSON on each.
func lastLines(s string, n int) string {
	const width = 400
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if len(line) > width {
			lines[i] = strings.ToValidUTF8(line[:width], "") + "..."
		}
	}
	return strings.Join(lines, "\n")
}
