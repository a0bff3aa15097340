//go:build system

// Package action tests the parts of this repository that run in other projects' checks: the
// GitHub Action in action.yml and the hooks for pre-commit.
package action

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

var root = filepath.Join("..", "..")

func read(t *testing.T, name string) *yaml.Node {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := yaml.Parse(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tree
}

func text(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Text
}

// Scripts in action.yml contain no expressions. A value that another user can choose comes in as
// an environment variable, so that it cannot inject code.
func TestScriptsHoldNoExpressions(t *testing.T) {
	t.Parallel()
	tree := read(t, "action.yml")
	used := map[string]bool{}
	for _, step := range tree.Get("runs").Get("steps").Items {
		if script := text(step.Get("run")); strings.Contains(script, "${{") {
			t.Errorf("the script of %s holds an expression:\n%s", text(step.Get("name")), script)
		}
		for _, m := range regexp.MustCompile(`inputs\.([a-z]+)`).FindAllStringSubmatch(string(step.JSON()), -1) {
			used[m[1]] = true
		}
	}
	for _, input := range tree.Get("inputs").Pairs {
		if !used[input.Key.Text] || text(input.Value.Get("description")) == "" {
			t.Errorf("the input %s is not used, or nothing describes it", input.Key.Text)
		}
	}
}
