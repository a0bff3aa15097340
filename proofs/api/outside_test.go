//go:build system && unix

package api

import (
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The programs use each public package of the library. The bridges are modules of their own, whose
// tests import the library as outside programs do.
func TestOutsideModuleUsesEveryPackage(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	sources, err := filepath.Glob(filepath.Join("outside", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		for _, imp := range imports(t, name) {
			used[imp] = true
		}
	}
	for _, dir := range publicPackages(t) {
		name := path.Join(module, strings.TrimPrefix(dir, "."))
		if !used[name] && !strings.HasPrefix(dir, "bridge/") {
			t.Errorf("no program in outside/ uses %s: %q", name, slices.Sorted(maps.Keys(used)))
		}
	}
}

func imports(t *testing.T, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, imported)
	}
	return all
}

// The documentation of the engine fits on one screen of names and is read in one sitting.
func TestDocIsShort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		most int
	}{{[]string{"doc", "."}, 90}, {[]string{"doc", "-all", "."}, 900}} {
		cmd := exec.CommandContext(t.Context(), "go", tt.args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(out), "\n"); n > tt.most {
			t.Errorf("go %s has %d lines, at most %d", strings.Join(tt.args, " "), n, tt.most)
		}
	}
}
