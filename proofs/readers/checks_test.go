//go:build e2e

package readers

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
	"github.com/grapnel-dev/grapnel/cmd/proofs/readers/tools"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// action.yml is valid by the JSON Schema that editors and checkers use for GitHub actions.
// proofs/action runs its steps.
func TestActionIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(text string) (string, int) {
		b := newBench(t, map[string]string{"action.yml": text})
		out, stderr, exit := b.run(t, tools.Node(t), tools.ActionValidator.Path(t), filepath.Join(b.dir, "action.yml"))
		return out + stderr, exit
	}
	if out, exit := ask(string(text)); exit != 0 {
		t.Errorf("exit %d\n%s", exit, out)
	}
	for _, change := range [][2]string{{"using: composite", "using: compost"}, {"      shell: bash\n", ""}, {"description: Check", "descripton: Check"}, {"icon: anchor", "icon: anchovy"}} {
		if !strings.Contains(string(text), change[0]) {
			t.Errorf("action.yml has no %q", change[0])
		}
		if _, exit := ask(strings.Replace(string(text), change[0], change[1], 1)); exit == 0 {
			t.Errorf("the validator takes %q instead of %q", change[1], change[0])
		}
	}
}

// pre-commit reads the manifest, and gives the right files to its hooks. The test uses a program
// that is already built, because a build by pre-commit takes minutes.
func TestPreCommit(t *testing.T) {
	t.Parallel()
	precommit := tools.PreCommit.Path(t)
	manifest := filepath.Join("..", "..", ".pre-commit-hooks.yaml")
	if out, err := exec.CommandContext(t.Context(), precommit, "validate-manifest", manifest).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := yaml.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	config := "repos:\n  - repo: local\n    hooks:\n"
	for _, hook := range tree.Items {
		config += "      - " + strings.NewReplacer(`"language":"golang"`, `"language":"system"`, `,"additional_dependencies":["./cmd/grapnel"]`, "").Replace(string(hook.JSON())) + "\n"
	}
	const (
		good  = "version: 1\nhooks:\n  - name: no-force-push\n    on: tool.before\n    match: {command: git push --force}\n    block: Push a new branch.\n"
		tests = "version: 1\ntests:\n  - command: git push --force\n    want: block\n"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		fails string // the hook that fails, with its message; "" = no failure
	}{
		"good":         {map[string]string{"grapnel.yaml": good, "a b/grapnel.yaml": good, "a b/grapnel_test.yaml": tests, "other.yaml": "a:   b\n"}, ""},
		"mistake":      {map[string]string{"sub/grapnel.yaml": strings.Replace(good, "tool.before", "tool.befor", 1)}, "grapnel-check: sub/grapnel.yaml:4:9: error"},
		"not laid out": {map[string]string{"grapnel.yaml": "version:   1\nhooks: []\n"}, "grapnel-fmt: files were modified by this hook"},
		"failing test": {map[string]string{"grapnel.yaml": good, "grapnel_test.yaml": strings.Replace(tests, "block", "allow", 1)}, "grapnel-test: FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.files)
			if err := os.WriteFile(filepath.Join(b.dir, ".pre-commit-config.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
				if _, stderr, exit := b.run(t, "git", args...); exit != 0 {
					t.Fatal(stderr)
				}
			}
			cmd := exec.CommandContext(t.Context(), precommit, "run", "--all-files", "--color=never")
			cmd.Dir = b.dir
			cmd.Env = append(os.Environ(), "PRE_COMMIT_HOME="+filepath.Join(b.dir, ".git", "home"), "HOME="+b.dir, "PATH="+filepath.Dir(offline.Program(t, "grapnel"))+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			hook, message, _ := strings.Cut(tt.fails, ": ")
			failed := regexp.MustCompile(`(?m)^- hook id: (.*)$`).FindStringSubmatch(string(out)) // only the first
			if (err != nil) != (tt.fails != "") || (failed != nil) != (tt.fails != "") || failed != nil && failed[1] != hook || !strings.Contains(string(out), message) {
				t.Errorf("%v, want %q\n%s", err, tt.fails, out)
			}
		})
	}
}
