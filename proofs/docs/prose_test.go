//go:build system

// These tests start no program. They read and parse every page and package, which the race detector
// makes ten times slower.

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unusual are phrases that readers with school English stumble over, and the words to use in
// their place.
var unusual = []struct{ phrase, instead string }{
	{`what (?:\w+ ){1,3}(?:(?:is|are|was|were) told|says|said|tells)|what (?:is|was) (?:told|said)`, "reply, message, output, verdict"},
	{`(?:that|those) of|that which`, "repeat the noun"},
	{`whoever|nobody|somebody|everybody`, "users, no caller, the operator, every client"},
	{`stands? (?:in|for|beside|between|at)|lies? (?:beside|in)|belongs? to`, "is in, is next to, is part of"},
	{`(?:is|are|was|were) (?-i:none)|is no (?:duration|number|URL|time)`, "does not exist, is not a duration, no X found"},
	{`shall|is to be|are to be`, "must, should, will"},
	{`anew|once more`, "again, rebuilt"},
	{`speaks? for|counts? as`, "supports, is treated as"},
	{`goes on|went on`, "continues, continued"},
}

// TestProse finds unusual phrases in pages, comments and messages.
func TestProse(t *testing.T) {
	t.Parallel()
	var patterns []*regexp.Regexp
	for _, u := range unusual {
		patterns = append(patterns, regexp.MustCompile(`(?i)\b(?:`+u.phrase+`)\b`))
	}
	check := func(file string, line int, text string) {
		for i, p := range patterns {
			if found := p.FindString(text); found != "" {
				t.Errorf("%s:%d: %q, write: %s", file, line, found, unusual[i].instead)
			}
		}
	}
	root := filepath.Join("..")
	texts := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && (slices.Contains([]string{"testdata", "node_modules", "bin"}, name) || len(name) > 2 && name[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md") && !strings.HasSuffix(name, ".zh-CN.md"):
			texts++
			checkPage(t, path, check)
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			texts++
			checkCode(t, path, check)
		}
		return nil
	})
	if err != nil || texts < 500 {
		t.Errorf("only %d files were read: %v", texts, err)
	}
}

var inlineCode = regexp.MustCompile("`[^`\n]*`")

// checkPage checks the paragraphs of a page, without code.
func checkPage(t *testing.T, path string, check func(file string, line int, text string)) {
	t.Helper()
	text := readPage(t, path)
	begin, fenced := 1, false
	var paragraph []string
	for i, line := range append(strings.Split(text, "\n"), "") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if strings.TrimSpace(line) == "" || fence || fenced {
			check(path, begin, inlineCode.ReplaceAllString(strings.Join(paragraph, " "), "x"))
			begin, paragraph = i+2, nil
			fenced = fenced != fence
			continue
		}
		paragraph = append(paragraph, strings.TrimSpace(line))
	}
}

// checkCode checks the comments of a Go file, and its strings of at least four words.
func checkCode(t *testing.T, path string, check func(file string, line int, text string)) {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return
	}
	for _, group := range file.Comments {
		check(path, set.Position(group.Pos()).Line, inlineCode.ReplaceAllString(strings.Join(strings.Fields(group.Text()), " "), "x"))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Count(text, " ") >= 3 {
				check(path, set.Position(lit.Pos()).Line, strings.Join(strings.Fields(text), " "))
			}
		}
		return true
	})
}
