//go:build system && unix

package docs

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/recipes.txt
var recipeTests string

// Each recipe has at most eight lines, is a good policy, and does what it says in the formats of agents.
func TestRecipes(t *testing.T) {
	t.Parallel()
	tests := map[string]string{}
	for _, part := range strings.Split(recipeTests, "\n## ")[1:] {
		title, lines, _ := strings.Cut(part, "\n")
		tests[title] = strings.TrimSpace(lines)
	}
	recipes := regexp.MustCompile("(?m)^### (.+)\n\n```yaml\n((?s:.*?))```").FindAllStringSubmatch(readPage(t, "recipes.md"), -1)
	if said := fmt.Sprintf("[%d recipes](docs/recipes.md)", len(recipes)); len(recipes) < 30 || !strings.Contains(readPage(t, filepath.Join("..", "README.md")), said) {
		t.Errorf("%d recipes; README.md does not say %q", len(recipes), said)
	}
	for _, m := range recipes {
		title, policy := m[1], m[2]
		cases, ok := tests[title]
		delete(tests, title)
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if !ok {
				t.Fatal("the recipe has no tests")
			}
			if n := strings.Count(policy, "\n"); n > 8 {
				t.Errorf("%d lines", n)
			}
			agents := "agents: [claude-code, codex]"
			if first, rest, _ := strings.Cut(cases, "\n"); strings.HasPrefix(first, "agents:") {
				agents, cases = first, strings.TrimSpace(rest)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "grapnel.yaml"), policy)
			write(t, filepath.Join(dir, "grapnel_test.yaml"), "version: 1\n"+agents+"\ntests:\n  "+cases+"\n")
			write(t, filepath.Join(dir, "rules.md"), "Rules of this project\n")
			for _, args := range [][]string{{"check", filepath.Join(dir, "grapnel.yaml"), "--root", dir}, {"test", dir, "--fail-on-empty", "--fail-on-skipped"}} {
				cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "grapnel"), args...)
				cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GOCACHE=" + filepath.Join(dir, "cache"), "GOFLAGS=-mod=mod"}
				if out, err := cmd.CombinedOutput(); err != nil || slices.Contains(args, "check") && !strings.Contains(string(out), ": good, ") {
					t.Errorf("%s: %v\n%s", args[0], err, out)
				}
			}
		})
	}
	for title := range tests {
		t.Errorf("no recipe %q", title)
	}
}

// write writes a file that other users can read, and its directories.
func write(t *testing.T, name, text string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644), os.Chmod(name, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}
