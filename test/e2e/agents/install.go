package agents

import (
	"context"
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
// and version, some 3.5 GB together.
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

// Install makes sure that the agents which are to run are in the cache in their
// exact versions, and that they start. It needs npm and a registry only for what is
// missing, and may run in several processes at once.
func Install(ctx context.Context, agents ...*Agent) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	for _, a := range agents {
		if a.Package == "" || a.NotRun() != "" {
			continue
		}
		if err := a.install(ctx, cache, "npm"); err != nil {
			return fmt.Errorf("install %s %s: %w", a, a.Version, err)
		}
	}
	return nil
}

func (a *Agent) prefix(cache string) string {
	return filepath.Join(cache, a.ID+"-"+a.Version)
}

func (a *Agent) install(ctx context.Context, cache, npm string) error {
	if a.node != "" && a.node != "any" {
		node := wanted{
			prefix: nodePrefix(cache, a.node), spec: "node-" + platform() + "@" + a.node,
			check: func(_ context.Context, prefix string) error {
				_, err := one(prefix, nodeProgram)
				return err
			},
		}
		if err := node.install(ctx, npm); err != nil {
			return err
		}
	}
	return wanted{
		prefix: a.prefix(cache), spec: a.Package + "@" + a.Version, flags: a.npmFlags,
		check: func(ctx context.Context, prefix string) error {
			p, err := a.below(cache, prefix)
			if err != nil {
				return err
			}
			version, err := p.AskVersion(ctx)
			if err == nil && version != a.Version {
				err = fmt.Errorf("%s says %q, want version %s", strings.Join(p.Command, " "), version, a.Version)
			}
			return err
		},
	}.install(ctx, npm)
}

// Some agents want a newer Node.js than people have. npm has that, too.
const nodeProgram = "node_modules/node-*/bin/node"

func nodePrefix(cache, version string) string { return filepath.Join(cache, "node-"+version) }

// A wanted is something that npm installs.
type wanted struct {
	prefix string // where it stands when it is complete
	spec   string
	flags  []string
	check  func(ctx context.Context, prefix string) error // what is there works
}

func (w wanted) install(ctx context.Context, npm string) (err error) {
	if err := os.MkdirAll(filepath.Dir(w.prefix), 0o755); err != nil {
		return err
	}
	// Two npm processes in one directory spoil it.
	unlock, err := lockedfile.MutexAt(w.prefix + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()

	if _, err := os.Stat(w.prefix); err == nil {
		if err := w.check(ctx, w.prefix); err != nil {
			return fmt.Errorf("%w (remove %s to install it anew)", err, w.prefix)
		}
		return nil
	}

	npm, err = lookPath(npm)
	if err != nil {
		return err
	}
	// A directory of the final name is always complete: an install that was
	// interrupted leaves its parts under another one.
	partial := w.prefix + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return err
	}
	args := append([]string{"install", "--prefix", partial, "--ignore-scripts", "--no-audit", "--no-fund"}, w.flags...)
	args = append(args, w.spec)
	cmd := exec.CommandContext(ctx, npm, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		return fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	if err := w.check(ctx, partial); err != nil {
		return fmt.Errorf("npm succeeded, but %w", err)
	}
	return os.Rename(partial, w.prefix)
}
