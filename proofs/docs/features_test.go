package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A promise is one line of systems/NAME/promises.txt.
type promise struct {
	id, what string
	status   string // works, differs or not visible
	reason   string // why it does not work as promised; empty if it works
}

// A system has a directory below systems/ and a page below docs/systems/.
type system struct {
	name     string
	promises []promise
}

const (
	works      = "works"
	differs    = "differs"
	notVisible = "not visible"
)

func readPromises(t *testing.T) []system {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "systems", "*", "promises.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no promises: %v", err)
	}
	var list []system
	for _, file := range files {
		s := system{name: filepath.Base(filepath.Dir(file))}
		for line := range strings.Lines(readPage(t, file)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			id, what, _ := strings.Cut(line, " ")
			if !promiseID.MatchString(id) {
				t.Errorf("%s: %q does not begin with the ID of a promise", file, line)
			}
			what, exception, excepted := strings.Cut(what, " | ")
			p := promise{id: id, what: what, status: works}
			if excepted {
				p.status, p.reason, _ = strings.Cut(exception, ": ")
				if p.status != differs && p.status != notVisible || p.reason == "" {
					t.Errorf("%s: %s: %q is neither %q nor %q with a reason", file, id, exception, differs+": ", notVisible+": ")
				}
			}
			s.promises = append(s.promises, p)
		}
		list = append(list, s)
	}
	return list
}

var (
	promiseID = regexp.MustCompile(`\b(?:IC|MC|OC|GC|FL)-\d\d\b`)
	proves    = regexp.MustCompile(`(?m)^Proves: (.*)$`)
	pageShows = regexp.MustCompile(`(?m)^<!-- proves: (.*) -->$`)
)

// provingTests finds the tests that declare promises: "Proves: IC-01, IC-02" on a line of their
// doc comment, or <!-- proves: IC-01 --> on a page whose commands TestPages runs.
func provingTests(t *testing.T) map[string][]string {
	t.Helper()
	shown := map[string][]string{}
	note := func(test string, lines [][]string) {
		for _, line := range lines {
			ids := promiseID.FindAllString(line[1], -1)
			if strings.Join(ids, ", ") != strings.TrimSpace(line[1]) {
				t.Errorf("%s: %q is not a list of promises, separated by commas", test, line[1])
			}
			for _, id := range ids {
				if !slices.Contains(shown[id], test) {
					shown[id] = append(shown[id], test)
				}
			}
		}
	}
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != ".." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), "..")
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && testName.MatchString(f.Name.Name) {
				note(strings.TrimPrefix(strings.TrimPrefix(dir+".", "/")+f.Name.Name, "."), proves.FindAllStringSubmatch(f.Doc.Text(), -1))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		text := readPage(t, page)
		if declared := pageShows.FindAllStringSubmatch(text, -1); declared != nil {
			if !strings.Contains(text, "\n```console\n") {
				t.Errorf("%s declares promises and runs no command", page)
			}
			note("TestPages/"+strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(page), "../"), ".md"), declared)
		}
	}
	return shown
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Example)`)
