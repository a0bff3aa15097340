// Package npm installs pinned versions of packages into a cache, for the end-to-end tests. It
// does not run install scripts.
package npm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// CacheVar names the environment variable with the cache directory.
const CacheVar = "GRAPNEL_E2E_CACHE"

// CacheDir returns the cache directory: $GRAPNEL_E2E_CACHE, or grapnel-e2e in the user's cache
// directory. It has one directory per agent and version, some 3.5 GB in total.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheVar); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory for packages: %w (set %s)", err, CacheVar)
	}
	return filepath.Join(dir, "grapnel-e2e"), nil
}

// nodeProgram matches Node.js in a package from npm. Some packages need a newer Node.js than the
// machine has.
const nodeProgram = "node_modules/node-*/bin/node"

// NodePrefix returns the install directory of a version of Node.js.
func NodePrefix(cache, version string) string { return filepath.Join(cache, "node-"+version) }

// Node returns the npm package of a version of Node.js.
func Node(cache, version string) Wanted {
	return Wanted{
		Prefix: NodePrefix(cache, version), Specs: []string{"node-" + Platform() + "@" + version},
		Check: func(_ context.Context, prefix string) error {
			_, err := One(prefix, nodeProgram)
			return err
		},
	}
}

// FindNode returns the path of an installed version of Node.js.
func FindNode(cache, version string) (string, error) {
	return One(NodePrefix(cache, version), nodeProgram)
}

// A Wanted is an installation of packages by npm.
type Wanted struct {
	Prefix string   // directory of the complete installation
	Specs  []string // arguments of npm install
	Flags  []string
	Check  func(ctx context.Context, prefix string) error // returns an error if the installation does not work
}

// Install installs the packages if Prefix does not exist, and runs Check. It needs npm and a
// registry only for a missing installation. Several processes may call it at once.
func (w Wanted) Install(ctx context.Context, npm string) (err error) {
	if err := os.MkdirAll(filepath.Dir(w.Prefix), 0o755); err != nil {
		return err
	}
	// Two npm processes in one directory damage it.
	unlock, err := lockedfile.MutexAt(w.Prefix + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()

	if _, err := os.Stat(w.Prefix); err == nil {
		if err := w.Check(ctx, w.Prefix); err != nil {
			return fmt.Errorf("%w (remove %s to install it again)", err, w.Prefix)
		}
		return nil
	}

	npm, err = LookPath(npm)
	if err != nil {
		return err
	}
	// The final directory is always complete: an interrupted install leaves its files in the
	// partial directory.
	partial := w.Prefix + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return err
	}
	args := append([]string{"install", "--prefix", partial, "--ignore-scripts", "--no-audit", "--no-fund"}, w.Flags...)
	args = append(args, w.Specs...)
	cmd := exec.CommandContext(ctx, npm, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
		return fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	if err := w.Check(ctx, partial); err != nil {
		return fmt.Errorf("npm succeeded, but %w", err)
	}
	return os.Rename(partial, w.Prefix)
}

// One returns the only file below prefix that matches glob. It returns an error unless exactly
// one file matches.
func One(prefix, glob string) (string, error) {
	found, err := filepath.Glob(filepath.Join(prefix, filepath.FromSlash(glob)))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("want one file %s below %s, found %d", glob, prefix, len(found))
	}
	return found[0], nil
}

// Platform returns npm's name of this system and architecture.
func Platform() string {
	words := map[string]string{"windows": "win32", "amd64": "x64"}
	return cmp.Or(words[runtime.GOOS], runtime.GOOS) + "-" + cmp.Or(words[runtime.GOARCH], runtime.GOARCH)
}

// LookPath finds a program that is installed with Node.js.
func LookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w (the agents come from npm and Gemini CLI runs on Node.js 20 or newer: install Node.js)", err)
	}
	return filepath.Abs(path)
}
