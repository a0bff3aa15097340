package api

import (
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// publicPackages returns the directories of all packages that other modules can import, with
// slashes and relative to the root. Bridges are included, although they are modules of their own.
// Programs, and packages whose documentation says that they are not an API, are not.
func publicPackages(t *testing.T) []string {
	t.Helper()
	var dirs, others []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"internal", "cmd", "proofs", "testdata", "examples", "docs"}, d.Name())):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			dir := path.Dir(name)
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
			if file.Name.Name == "main" || strings.Contains(strings.Join(strings.Fields(file.Doc.Text()), " "), "is not an API") {
				others = append(others, dir)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return slices.Contains(others, dir) })
	if len(dirs) < 15 {
		t.Fatalf("only %d public packages found: %v", len(dirs), dirs)
	}
	slices.Sort(dirs)
	return dirs
}

// Each public package has an example whose output the tests compare.
func TestEveryPackageHasAnExample(t *testing.T) {
	t.Parallel()
	for _, dir := range publicPackages(t) {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, example := range doc.Examples(file) {
				found = found || example.Output != ""
			}
		}
		if !found {
			t.Errorf("package %s has no example with an output", dir)
		}
	}
}
