//go:build system && unix

package tiers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A clone is a repository with the CI script and a file in each folder that the script knows.
type clone struct {
	dir, cache string
	commits    *int
}

func newClone(t *testing.T) clone {
	t.Helper()
	c := clone{t.TempDir(), t.TempDir(), new(int)}
	c.write(t, ".ci/run", read(t, ".ci/run"))
	for _, name := range []string{"engine.go", "dialect/gemini.go", "process/run.go", "cmd/internal/setup/verify/run.go", "docs/README.md", "packs/secrets.yaml", "cmd/grapnel/main.go", "internal/spool/log.go", "policy/parse.go", "proofs/bench/main.go", "cmd/internal/show/web/site.go", "backend/nats/nats.go", "proofs/browser/driver.mjs", "Makefile"} {
		c.write(t, name, "1\n")
	}
	c.git(t, "init", "-q")
	c.commit(t)
	return c
}

func (c clone) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(c.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (c clone) git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c clone) commit(t *testing.T) string {
	t.Helper()
	*c.commits++ // two commits with the same text and time would be one
	c.git(t, "add", "-A")
	c.git(t, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("change ", *c.commits))
	return c.git(t, "rev-parse", "HEAD")
}

// passed says that a commit passed the last run.
func (c clone) passed(t *testing.T, commit string) {
	t.Helper()
	dir := filepath.Join(c.cache, "grapnel-ci")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "passed"), []byte(commit+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// plan returns the tiers that the script would run.
func (c clone) plan(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", ".ci/run", "--plan")
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "XDG_CACHE_HOME="+c.cache)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

var (
	short = []string{"test", "test-system", "vectors", "lint"}
	every = slices.Concat(short, []string{"e2e", "readers", "browser", "machines", "chaos", "laws", "bench BENCHFLAGS=-n=1"})
)

// The script runs each long tier whose folders changed since the commit that passed last.
func TestTiersOfAChange(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	for file, want := range map[string][]string{
		"engine.go":                        {"e2e", "chaos", "laws"},
		"dialect/gemini.go":                {"e2e", "chaos", "laws"},
		"process/run.go":                   {"e2e", "chaos"},
		"cmd/internal/setup/verify/run.go": {"e2e"},
		"docs/README.md":                   {},
		"packs/secrets.yaml":               {"laws"},
		"cmd/grapnel/main.go":              {"readers"},
		"internal/spool/log.go":            {"machines", "chaos", "laws"},
		"policy/parse.go":                  {"chaos", "laws"},
		"proofs/bench/main.go":             {"bench BENCHFLAGS=-n=1"},
		"cmd/internal/show/web/site.go":    {"browser", "machines"},
		"backend/nats/nats.go":             {"machines"},
		"proofs/browser/driver.mjs":        {"browser"},
		"Makefile":                         every[len(short):],
	} {
		base := c.commit(t)
		c.passed(t, base)
		c.write(t, file, c.git(t, "rev-parse", "HEAD"))
		c.commit(t)
		got := c.plan(t)
		rest := slices.DeleteFunc(slices.Clone(got[len(short):]), func(tier string) bool {
			return strings.HasPrefix(tier, "e2e AGENTS=claude-code,gemini-cli,")
		})
		if !slices.Equal(got[:len(short)], short) || !slices.Equal(rest, want) {
			t.Errorf("%s changed: %q, want %q and %q", file, got, short, want)
		}
		if few := len(rest) < len(got)-len(short); few == slices.Contains(want, "e2e") {
			t.Errorf("%s changed: %q, want all agents or three of them", file, got)
		}
	}
}

// Each folder that decides whether a tier runs exists.
func TestFoldersExist(t *testing.T) {
	t.Parallel()
	tables := regexp.MustCompile(`(?m)^readonly everything='(.*)'$|^\t\[[a-z0-9]+\]="(.*)"$`).FindAllStringSubmatch(read(t, ".ci/run"), -1)
	if len(tables) < 8 {
		t.Fatalf("%d lists of folders in .ci/run, want the ones of all long tiers", len(tables))
	}
	for _, table := range tables {
		for folder := range strings.FieldsSeq(table[1] + table[2]) {
			if _, err := os.Stat(filepath.Join("..", "..", folder)); err != nil && !strings.HasPrefix(folder, ":(glob)") {
				t.Errorf(".ci/run names %s, which does not exist", folder)
			}
		}
	}
}

// The third agent changes from commit to commit.
func TestAgentInTurn(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	seen := map[string]bool{}
	for range 6 {
		c.passed(t, c.commit(t))
		seen[c.plan(t)[len(short)]] = true
	}
	if len(seen) != 6 {
		t.Errorf("six commits ran %v, want six different agents", seen)
	}
}

// Without a commit that passed before this one, every tier runs.
func TestAllTiers(t *testing.T) {
	t.Parallel()
	c := newClone(t)
	if got := c.plan(t); !slices.Equal(got, every) {
		t.Errorf("without a commit that passed: %q, want %q", got, every)
	}
	c.passed(t, strings.Repeat("0", 40))
	if got := c.plan(t); !slices.Equal(got, every) {
		t.Errorf("after an unknown commit: %q, want %q", got, every)
	}
	side := c.commit(t)
	c.passed(t, side)
	c.git(t, "checkout", "-q", "-b", "other", "HEAD~1")
	c.commit(t)
	if got := c.plan(t); !slices.Equal(got, every) {
		t.Errorf("after a commit of another branch: %q, want %q", got, every)
	}
}
