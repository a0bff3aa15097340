package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/conformance"
)

// A promise is one line of testdata/promises.txt.
type promise struct {
	id, what string
	not      string // why no test shows it; empty = one does
}

// system is a part of testdata/promises.txt.
type system struct {
	name     string
	promises []promise
}

func readPromises(t *testing.T) []system {
	t.Helper()
	var list []system
	for line := range strings.Lines(readPage(t, filepath.Join("testdata", "promises.txt"))) {
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

// shownByTests finds the tests that name promises: in their own comment, or in one
// inside them.
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

// shownByVectors counts the conformance cases of each promise that pass: `make
// vectors` runs them, and a known gap shows nothing.
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

// docs/features.md says which test shows what five systems promise. A promise that
// nothing shows fails, and so does an excuse for one that something shows.
func TestFeatures(t *testing.T) {
	t.Parallel()
	tests, vectors := shownByTests(t), shownByVectors(t)
	var b strings.Builder
	b.WriteString(featuresHead)
	known := map[string]bool{}
	for _, s := range readPromises(t) {
		fmt.Fprintf(&b, "\n## %s\n\n| | what | shown by |\n|---|---|---|\n", s.name)
		for _, p := range s.promises {
			known[p.id] = true
			var by []string
			if n := len(vectors[p.id]); n == 1 {
				by = append(by, "1 vector: "+vectors[p.id][0])
			} else if n > 1 {
				by = append(by, fmt.Sprintf("%d vectors: %s, ...", n, slices.Min(vectors[p.id])))
			}
			slices.SortFunc(tests[p.id], func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			for _, test := range tests[p.id][:min(3, len(tests[p.id]))] {
				by = append(by, "`"+test+"`")
			}
			switch {
			case len(by) == 0 && p.not == "":
				t.Errorf("%s (%s): nothing shows it", p.id, p.what)
			case len(by) > 0 && strings.HasPrefix(p.not, "later"):
				t.Errorf("%s is said to come later, and %s shows it", p.id, by[0])
			case len(by) == 0:
				by = []string{p.not}
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", p.id, p.what, strings.Join(by, "; "))
		}
	}
	for id, by := range tests {
		if !known[id] {
			t.Errorf("%s names %s, which is no promise", by[0], id)
		}
	}
	if *update {
		if err := os.WriteFile("features.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readPage(t, "features.md"); got != b.String() {
		t.Error("features.md is not what the tests say: run go test ./docs -update")
	}
}

const featuresHead = `# What is promised, and what shows it

Five systems had hooks before Grapnel. What each of them promises has a number here, and behind it stands what shows that Grapnel keeps it: conformance
vectors, which "make vectors" runs, and tests of the named packages. "go test ./docs -update" writes this page; a promise that nothing shows fails there.

Where Grapnel's own way differs, the promise holds under the preset of its system: see [coming from another system](coming-from/ironclaw.md).
`
