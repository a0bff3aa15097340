// Package api tests the API of the library: its names, and the list of what v1 promises.
package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the root of the repository.
const root = "../.."

// parse returns the files of a package, without its tests.
func parse(t *testing.T, dir string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("no Go files in %s", dir)
	}
	return fset, files
}

// topLevel calls visit with each exported name of a package. typ is the type of a constant, where
// the same declaration or an earlier one of its group names it.
func topLevel(files []*ast.File, visit func(name string, tok token.Token, typ string)) {
	for _, file := range files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					visit(d.Name.Name, token.FUNC, "")
				}
			case *ast.GenDecl:
				topLevelSpecs(d, visit)
			}
		}
	}
}

func topLevelSpecs(d *ast.GenDecl, visit func(name string, tok token.Token, typ string)) {
	typ := ""
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				visit(s.Name.Name, token.TYPE, "")
			}
		case *ast.ValueSpec:
			if id, ok := s.Type.(*ast.Ident); ok {
				typ = id.Name
			} else if len(s.Values) > 0 {
				typ = ""
			}
			for _, name := range s.Names {
				if name.IsExported() {
					visit(name.Name, d.Tok, typ)
				}
			}
		}
	}
}

const module = "github.com/grapnel-dev/grapnel"

// A program that uses package host also uses the root package. A name of both would mean two
// things in one file.
func TestHostRepeatsNoName(t *testing.T) {
	t.Parallel()
	// Every package may have New and Options. Tool, Model and Subagent are functions around the
	// action of that name, as [host.Stream] is; the types of the root package describe the action. A
	// host.Session fires the events of what a grapnel.Session describes: one thing, two uses.
	allowed := map[string]bool{"New": true, "Options": true, "Tool": true, "Model": true, "Subagent": true, "Session": true}
	names := map[string]bool{}
	_, files := parse(t, ".")
	topLevel(files, func(name string, _ token.Token, _ string) { names[name] = true })
	_, files = parse(t, "host")
	topLevel(files, func(name string, tok token.Token, _ string) {
		switch {
		case !names[name]:
		case !allowed[name]:
			t.Errorf("host.%s and grapnel.%s have the same name", name, name)
		case tok != token.FUNC && name != "Options" && name != "Session":
			t.Errorf("host.%s is not a function", name)
		}
	})
}

// A constant has the name of its type in front, as in OnErrorClosed: Go completes the values of a
// type from that prefix, and a bare word such as Closed would not say what it closes. Exceptions are
// the two sets that every hook uses, whose words are the vocabulary of Grapnel.
func TestConstantsNameTheirType(t *testing.T) {
	t.Parallel()
	bare := map[string]string{
		"Kind":     "grapnel.ToolBefore is the event tool.before",
		"Decision": "grapnel.Block is the decision block",
	}
	for _, dir := range []string{".", "host"} {
		found := 0
		_, files := parse(t, dir)
		topLevel(files, func(name string, tok token.Token, typ string) {
			if tok != token.CONST || typ == "" || bare[typ] != "" {
				return
			}
			found++
			if !strings.HasPrefix(name, typ) {
				t.Errorf("package %s: the constant %s of type %s must be %s%s", dir, name, typ, typ, name)
			}
		})
		if found == 0 {
			t.Errorf("package %s: no constant found", dir)
		}
	}
}
