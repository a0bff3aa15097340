package tiers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// AGENTS.md has a rule for each tier, and the Makefile has its target.
func TestTargets(t *testing.T) {
	t.Parallel()
	makefile, agents := read(t, "Makefile"), read(t, "AGENTS.md")
	for _, tier := range []string{"quick", "test", "test-system", "e2e", "readers", "browser", "machines", "chaos", "slow"} {
		if !strings.Contains(makefile, "\n"+tier+":") {
			t.Errorf("the Makefile has no target %s", tier)
		}
		row := regexp.MustCompile("(?m)^\\| [^|]*`make " + tier + "`[^|]* \\| ") // several tiers can share one
		if !row.MatchString(agents) || !strings.Contains(agents, "\n    make "+tier+" ") {
			t.Errorf("AGENTS.md does not explain make %s in its list and in its table of tiers", tier)
		}
	}
	if contributing := read(t, "CONTRIBUTING.md"); !strings.Contains(contributing, "make chaos") {
		t.Error("CONTRIBUTING.md does not name make chaos")
	}
}

// faults are the words behind "// chaos:".
const faults = "clients clock daemons size"

// Each comment "// chaos: FAULT" is above a test, so that "make chaos" runs it, and each fault has
// a test.
func TestChaos(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	tag := regexp.MustCompile(`(?m)^// chaos: (.*)\n(.*)`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range tag.FindAllStringSubmatch(string(data), -1) {
			found[m[1]]++
			if !strings.HasPrefix(m[2], "func Test") {
				t.Errorf("%s: below %q is %q, want a test", path, "// chaos: "+m[1], m[2])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for fault := range strings.FieldsSeq(faults) {
		if found[fault] == 0 {
			t.Errorf("no test has the comment %q", "// chaos: "+fault)
		}
		delete(found, fault)
	}
	for fault := range found {
		t.Errorf("%q is none of the faults %s", fault, faults)
	}
}

// What "make test" runs without the race detector has nothing that could race.
func TestPure(t *testing.T) {
	t.Parallel()
	list := regexp.MustCompile(`(?m)^PURE = (.*)$`).FindStringSubmatch(read(t, "Makefile"))
	if list == nil {
		t.Fatal("the Makefile has no PURE")
	}
	for dir := range strings.FieldsSeq(list[1]) {
		root := filepath.Join("..", "..", filepath.FromSlash(strings.TrimSuffix(dir, "/...")))
		files := 0
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			files++
			if strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, imp := range file.Imports {
				if strings.HasPrefix(imp.Path.Value, `"sync`) {
					t.Errorf("%s imports %s, so it belongs under the race detector", path, imp.Path.Value)
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if _, starts := n.(*ast.GoStmt); starts {
					t.Errorf("%s starts a goroutine, so it belongs under the race detector", path)
				}
				return true
			})
			return nil
		})
		if err != nil || files == 0 {
			t.Errorf("%s: %d files, %v", dir, files, err)
		}
	}
}
