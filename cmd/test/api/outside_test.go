//go:build system && unix

package api

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The programs in outside/ build in a module of their own, in a directory outside of the
// repository. There, go vet finds nothing, the race detector finds nothing, and no goroutine is
// left when a program has closed what it opened.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("outside")); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "cmd", "test", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.sum", string(sums))
	write("go.mod", fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire (\n\t%s v0.0.0\n\tgo.uber.org/goleak v1.3.0\n)\n\nreplace %[1]s => %s\n",
		module, strconv.Quote(checkout)))

	gotool(t, dir, "vet", "./...")
	gotool(t, dir, "test", "-count=1", "./...")
	for _, program := range []string{"events", "agent", "policies", "flyto"} {
		gotool(t, dir, "run", "./"+program)
	}
}

// gotool runs the go command in the outside module. Modules come only from the cache, and so does what
// another clone has built.
func gotool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -trimpath", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

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
