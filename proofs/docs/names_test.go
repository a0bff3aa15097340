//go:build system

// These tests start no program. They read and parse every page and package, which the race detector
// makes ten times slower.

package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walk calls visit for every file of the repository, with its name relative to the root.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin"):
			return fs.SkipDir
		case !d.IsDir():
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	backticked = regexp.MustCompile("`([^`\n]+)`")
	sourcePath = regexp.MustCompile(`^[a-z0-9_-]+(?:/[A-Za-z0-9_.*-]+)*(?:\.go|/)?$`)
	identifier = regexp.MustCompile(`^(?:[a-z0-9]+/)*([a-z0-9]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
)

// Every path and every qualified identifier between backticks on a page exists. A path is
// relative to the root or to the page; it begins with an existing directory or ends with .go.
// Other paths are examples of users' files.
func TestMarkdownNames(t *testing.T) {
	t.Parallel()
	there := declarations(t)
	packages := map[string]bool{}
	for name := range there {
		pkg, _, _ := strings.Cut(name, ".")
		packages[pkg] = true
	}
	paths, names := 0, 0
	check := func(page, word string) {
		word = strings.ReplaceAll(word, "NAME", "*")
		bridge := strings.Contains(page, "bridges/") // names packages of its framework
		if id := identifier.FindStringSubmatch(word); id != nil && packages[id[1]] && !bridge {
			names++
			full := id[1] + "." + id[2]
			if id[3] != "" && there[full] {
				full += "." + id[3]
			}
			if !there[full] {
				t.Errorf("%s names %s, and there is no %s", page, word, full)
			}
			return
		}
		top, _, deep := strings.Cut(word, "/")
		if !sourcePath.MatchString(word) || !strings.HasSuffix(word, ".go") && !(deep && isDir(filepath.Join("..", top))) {
			return
		}
		paths++
		for _, dir := range []string{"..", filepath.Join("..", filepath.Dir(page))} {
			if found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(word))); err == nil && found != nil {
				return
			}
		}
		t.Errorf("%s names %s, which does not exist", page, word)
	}
	walk(t, func(page string) {
		if filepath.Ext(page) != ".md" {
			return
		}
		for _, match := range backticked.FindAllStringSubmatch(readPage(t, filepath.Join("..", page)), -1) {
			for word := range strings.FieldsSeq(match[1]) {
				check(page, word)
			}
		}
	})
	if paths < 60 || names < 300 {
		t.Errorf("only %d paths and %d identifiers found", paths, names)
	}
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// declarations returns the names that the packages of the repository declare: pkg.Name, and
// pkg.Type.Name for methods and fields. It treats packages of the same name as one.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	walk(t, func(name string) {
		if filepath.Ext(name) != ".go" {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		declare(there, pkg, file)
		if dir := filepath.Base(filepath.Dir(name)); dir != pkg { // pages name programs, and tests of systems/flyto, by their directories
			declare(there, dir, file)
		}
	})
	return there
}

// declare adds the names that a file exports: pkg.Name, and pkg.Type.Name for methods and fields.
func declare(there map[string]bool, pkg string, file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				name = fmt.Sprint(of, ".", name)
			}
			there[pkg+"."+name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						there[pkg+"."+name.Name] = true
					}
				case *ast.TypeSpec:
					there[pkg+"."+s.Name.Name] = true
					if str, ok := s.Type.(*ast.StructType); ok {
						for _, field := range str.Fields.List {
							for _, name := range field.Names {
								there[pkg+"."+s.Name.Name+"."+name.Name] = true
							}
						}
					}
				}
			}
		}
	}
}

// Every package has a sentence that says what it is for: AGENTS.md sends readers to these sentences.
func TestPackagesHaveASentence(t *testing.T) {
	t.Parallel()
	has := map[string]bool{}
	walk(t, func(name string) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		has[path.Dir(name)] = has[path.Dir(name)] || file.Doc.Text() != ""
	})
	for dir, ok := range has {
		if !ok {
			t.Errorf("no file of %s has a package comment", dir)
		}
	}
	if len(has) < 100 {
		t.Errorf("only %d packages found", len(has))
	}
}
