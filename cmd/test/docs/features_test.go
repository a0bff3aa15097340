package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/conformance"
)

// A promise is one line of conformance/promises.txt.
type promise struct {
	id, what string
	not      string // the reason why no test shows it; empty = a test shows it
}

// system is a part of conformance/promises.txt.
type system struct {
	name     string
	promises []promise
}

func readPromises(t *testing.T) []system {
	t.Helper()
	var list []system
	for line := range strings.Lines(readPage(t, filepath.Join("..", "conformance", "promises.txt"))) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, what, _ := strings.Cut(line, " ")
		if !promiseID.MatchString(id) {
			list = append(list, system{name: line})
			continue
		}
		what, not, _ := strings.Cut(what, " | ")
		last := &list[len(list)-1]
		last.promises = append(last.promises, promise{id, what, not})
	}
	return list
}

var promiseID = regexp.MustCompile(`\b(?:IC|MC|OC|GC|FL)-\d\d\b`)

// shownByTests finds the tests that name promises, in their doc comment or in a comment inside.
func shownByTests(t *testing.T) map[string][]string {
	t.Helper()
	shown := map[string][]string{}
	note := func(test string, text string) {
		for _, id := range promiseID.FindAllString(text, -1) {
			if !slices.Contains(shown[id], test) {
				shown[id] = append(shown[id], test)
			}
		}
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Example") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			test := f.Name.Name
			if dir != "." {
				test = dir + "." + test
			}
			note(test, f.Doc.Text())
			for _, c := range file.Comments {
				if c.Pos() > f.Pos() && c.End() < f.End() {
					note(test, c.Text())
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// shownByVectors counts the passing conformance cases of each promise. `make vectors` runs the
// cases. A known gap does not count.
func shownByVectors(t *testing.T) map[string][]string {
	t.Helper()
	cases, err := conformance.Load(filepath.Join("..", "conformance", "vectors"))
	if err != nil {
		t.Fatal(err)
	}
	gaps, err := conformance.LoadGaps(filepath.Join("..", "conformance", "gaps.json"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]string{}
	for _, c := range cases {
		if slices.ContainsFunc(gaps, func(g conformance.Gap) bool { return g.Covers(&c) }) {
			continue
		}
		for _, id := range c.Promises {
			shown[id] = append(shown[id], c.ID)
		}
	}
	return shown
}

const featuresHead = `# Promises of other hook systems, and their tests

Five systems had hooks before Grapnel. This page lists the promises of each system, and how we test that Grapnel keeps them: with conformance vectors, which
"make vectors" runs, and with tests of the named packages. "go test -tags system ./cmd/test/docs -update" writes this page. That test fails if a promise has no test.

If Grapnel's default behavior differs, the promise holds with the preset of its system: see [coming from another system](../docs/coming-from/ironclaw.md).
`
