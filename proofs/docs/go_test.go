//go:build system

// These tests start no program. They read and parse every page and package, which the race detector
// makes ten times slower.

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
)

// goPages lists the pages whose code is from examples, with the files of these examples and the
// minimum number of Go blocks on the page.
var goPages = map[string]struct {
	files []string
	least int
}{
	"go.md":             {[]string{"../*_test.go", "../process/*_test.go", "../local/example_test.go", "../local/server/example_test.go", "../proofs/docs/*_test.go"}, 8},
	"build-an-agent.md": {[]string{"../host/example_test.go"}, 8},
	"testing-hooks.md":  {[]string{"../hooktest/example_test.go", "../hooktest/light_test.go"}, 7},
	"../README.md":      {[]string{"../*_test.go"}, 1},
	"agent-hooks.md":    {[]string{"../bridge/agenthooks/example_test.go"}, 1},
}

// examples returns the functions that go test runs as examples, without indentation. In the files
// of package hooktest, tests are examples too.
func examples(t *testing.T, patterns []string) []string {
	t.Helper()
	var list []string
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range parsed.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if ok && (strings.HasPrefix(f.Name.Name, "Example") || strings.HasPrefix(f.Name.Name, "Test") && strings.HasPrefix(pattern, "../hooktest/")) {
					list = append(list, unindented(string(text[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])))
				}
			}
		}
	}
	return list
}

// The code on the pages for Go programs compiles and runs: all paragraphs of a block are in the
// same example.
func TestGoPagesAreMadeOfExamples(t *testing.T) {
	t.Parallel()
	for page, about := range goPages {
		madeOf(t, page, examples(t, about.files), about.least)
	}
}

func madeOf(t *testing.T, page string, all []string, least int) {
	t.Helper()
	found := 0
	for _, b := range blocks(readPage(t, page)) {
		if b.lang != "go" {
			continue
		}
		found++
		best, missing := -1, ""
		for _, example := range all {
			parts, lacks := 0, ""
			for part := range strings.SplitSeq(unindented(strings.TrimSpace(b.text)), "\n\n") {
				if strings.Contains(example, part) {
					parts++
				} else {
					lacks = part
				}
			}
			if parts > best || lacks == "" {
				best, missing = parts, lacks
			}
			if missing == "" {
				break
			}
		}
		if missing != "" {
			t.Errorf("%s:%d: no example has this:\n%s", page, b.line, missing)
		}
	}
	if found < least {
		t.Errorf("%s: only %d blocks of Go found", page, found)
	}
}

var goName = regexp.MustCompile("`(engine|h|session|preset|Spec|Record|HookRun|Reason|Verdict)\\.([A-Z]\\w*)(?:\\.(\\w+))?")

// The functions that the pages for Go programs name exist.
func TestGoPageNamesExist(t *testing.T) {
	t.Parallel()
	there := declarations(t)
	holder := map[string]string{"engine": "grapnel.Engine", "preset": "grapnel.Preset", "h": "host.Host", "session": "host.Session"}
	found := 0
	text := ""
	for _, page := range []string{"go.md", "testing-hooks.md", "build-an-agent.md", "systems/flyto.md", "systems/ironclaw.md", "systems/openclaw.md"} {
		text += readPage(t, page)
	}
	for _, name := range goName.FindAllStringSubmatch(text, -1) {
		found++
		in := name[1]
		if h, ok := holder[in]; ok {
			in = h
		} else {
			in = "grapnel." + in
		}
		full := in + "." + name[2]
		if name[3] != "" && there[full] {
			full += "." + name[3]
		}
		if !there[full] {
			t.Errorf("a page names %s, and there is no %s", strings.Trim(name[0], "`"), full)
		}
	}
	if found < 40 {
		t.Errorf("only %d names found", found)
	}
}

// The page about building an agent lists each event, with the function to call.
func TestBuildPageHasTheEvents(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(readPage(t, "build-an-agent.md"), "\n## Every event\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, c := range grapnel.Contracts() {
		if n := strings.Count(table, "`"+string(c.Kind)+"`"); n != 1 {
			t.Errorf("build-an-agent.md has %s in %d rows of its table, want one", c.Kind, n)
		}
	}
}
