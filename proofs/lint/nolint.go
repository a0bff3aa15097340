package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// linter returns one analyzer that runs all checks and reports the findings that no exception and no nolint
// comment covers.
func linter(checks []check) *analysis.Analyzer {
	type part struct {
		check string
		*analysis.Analyzer
	}
	var parts []part
	l := &analysis.Analyzer{Name: "lint", Doc: "run all checks of this repository"}
	for _, c := range checks {
		for _, a := range c.analyzers {
			a = collect(a)
			parts = append(parts, part{c.name, a})
			l.Requires = append(l.Requires, a)
		}
	}
	names := map[string]bool{}
	for _, c := range checks {
		names[c.name] = true
	}
	l.Run = func(pass *analysis.Pass) (any, error) {
		comments := nolints(pass)
		for _, p := range parts {
			for _, d := range pass.ResultOf[p.Analyzer].(findings) {
				at := pass.Fset.Position(d.Pos)
				code := line(pass, at)
				if generated(pass, d.Pos) || slices.ContainsFunc(exceptions, func(e exception) bool {
					return e.covers(p.check, filepath.ToSlash(at.Filename), d.Message, code)
				}) || suppressed(comments, p.check, at) {
					continue
				}
				label := p.check
				if p.Name != p.check {
					label += " " + p.Name
				}
				pass.Report(analysis.Diagnostic{Pos: d.Pos, End: d.End, Message: fmt.Sprintf("%s (%s)", d.Message, label)})
			}
		}
		for _, c := range comments {
			if problem := c.problem(names); problem != "" {
				pass.Reportf(c.pos, "%s (nolint)", problem)
			}
		}
		return nil, nil
	}
	return l
}

// line returns the line of code at a position.
func line(pass *analysis.Pass, at token.Position) string {
	text, err := pass.ReadFile(at.Filename)
	if err != nil {
		return ""
	}
	lines := bytes.SplitN(text, []byte("\n"), at.Line+1)
	return string(lines[min(at.Line, len(lines))-1])
}

func generated(pass *analysis.Pass, pos token.Pos) bool {
	for _, f := range pass.Files {
		if f.FileStart <= pos && pos <= f.FileEnd {
			return ast.IsGenerated(f)
		}
	}
	return false
}

// A nolint is a comment //nolint:check,check // reason. It covers its line and the statement or
// declaration that begins there. On a separate line it covers the statement of the next line.
type nolint struct {
	pos         token.Pos
	file        string
	first, last int             // lines
	used        map[string]bool // by check
	reason      string
}

// nolintComment matches the comment, the names of checks and the reason.
var nolintComment = regexp.MustCompile(`^//\s*nolint\b(?::([\w,]*))?\s*(?://\s*(.*))?`)

func nolints(pass *analysis.Pass) []*nolint {
	var all []*nolint
	for _, f := range pass.Files {
		code := map[int]bool{} // lines on which code begins
		last := map[int]int{}  // the last line of what begins on a line
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case nil, *ast.Comment, *ast.CommentGroup:
				return false
			}
			begin, end := pass.Fset.Position(n.Pos()).Line, pass.Fset.Position(n.End()).Line
			if _, ok := n.(*ast.File); ok {
				end = pass.Fset.Position(f.FileEnd).Line
			}
			code[begin] = true
			code[end] = true
			last[begin] = max(last[begin], end)
			return true
		})
		for _, group := range f.Comments {
			for _, c := range group.List {
				m := nolintComment.FindStringSubmatch(c.Text)
				if m == nil {
					continue
				}
				at := pass.Fset.Position(c.Pos())
				n := &nolint{pos: c.Pos(), file: at.Filename, first: at.Line, used: map[string]bool{}, reason: m[2]}
				if !code[at.Line] {
					n.first++
				}
				n.last = max(n.first, last[n.first])
				for name := range strings.SplitSeq(m[1], ",") {
					n.used[name] = false
				}
				all = append(all, n)
			}
		}
	}
	return all
}

func suppressed(comments []*nolint, check string, at token.Position) bool {
	found := false
	for _, n := range comments {
		if _, ok := n.used[check]; ok && n.file == at.Filename && n.first <= at.Line && at.Line <= n.last {
			n.used[check] = true
			found = true
		}
	}
	return found
}

func (n *nolint) problem(names map[string]bool) string {
	for name, used := range n.used {
		switch {
		case name == "":
			return "name the check: //nolint:CHECK // reason"
		case !names[name]:
			return fmt.Sprintf("no check has the name %q", name)
		case !used:
			return fmt.Sprintf("%s finds nothing here: remove the comment", name)
		}
	}
	if n.reason == "" {
		return "give the reason: //nolint:CHECK // reason"
	}
	return ""
}

// An exception covers findings whose file, message and line of code match all its patterns.
type exception struct {
	checks           []string
	file, text, code string
}

var exceptions = []exception{
	// A deferred Close is only for files that were read, or after an error. Written files are
	// closed explicitly, and errcheck still checks this.
	{checks: []string{"errcheck"}, code: `defer .*\.Close\(\)`},
	// net.Listen does not block, so it needs no context.
	{checks: []string{"noctx"}, text: `^net\.Listen must not be called`},
	// Tests may have long tables.
	{checks: []string{"funlen", "gocognit"}, file: `_test\.go$`},
	// Tests use their own directories, programs and servers. Open files and connections of a
	// test end with its process.
	{checks: []string{"bodyclose", "security", "noctx"}, file: `(_test\.go$|^proofs/|^cmd/internal/programs/|^internal/(documents|pty)/)`},
}

func (e exception) covers(check, file, text, code string) bool {
	match := func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
	return slices.Contains(e.checks, check) && match(e.file, file) && match(e.text, text) && match(e.code, code)
}
