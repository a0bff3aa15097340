// Package tiers checks rules for the tests of all packages.
package tiers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testhelp/await"
)

// shortest is the shortest limit that a test may set. With less, it fails on a busy machine.
const shortest = time.Minute

// exempt lists the directories and files whose tests may measure time.
var exempt = []string{
	"proofs/bench",                 // measures durations
	"proofs/machines/rate_test.go", // compares rates of the same machine
}

// remedy tells the author of a test how to fix it.
const remedy = "use package internal/testhelp/await, testing/synctest or a count of the work; " +
	"a timeout that has to end needs the comment `// must fire: <why>`, and code that runs in a bubble of synctest only needs `// fake clock`"

// No test compares real time with a limit below a minute.
func TestClock(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch rel = filepath.ToSlash(rel); {
		case err != nil:
			return err
		case slices.Contains(exempt, rel) && !d.IsDir():
		case d.IsDir() && (slices.Contains(exempt, rel) || rel != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			files++
			for _, place := range problems(t, path, nil) {
				t.Errorf("%s depends on how busy the machine is: %s", place, remedy)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files with tests were found, %v", files, err)
	}
}

// The rule finds wrong lines, and no others.
func TestProblems(t *testing.T) {
	t.Parallel()
	for line, bad := range map[string]bool{
		"_ = time.Since(begin)":                                          true,
		"_ = time.Since(begin) // must fire: there is no reader":         false,
		"_ = time.Since(begin) // fake clock":                            false,
		"if time.Since(begin) > await.Limit { panic(1) }":                false,
		"<-time.After(59 * time.Second)":                                 true,
		"<-time.After(await.Limit)":                                      false,
		"<-time.After(d)":                                                true,
		"<-time.Tick(time.Hour)":                                         true,
		"end := time.Now().Add(20 * time.Second)":                        true,
		"end := time.Now().Add(-20 * time.Second)":                       false,
		"end := time.Now().Add(time.Hour)":                               false,
		"conn.SetDeadline(time.Now().Add(10 * time.Second))":             true,
		"context.WithTimeout(ctx, 500*time.Millisecond)":                 true,
		"context.WithTimeoutCause(ctx, (2+3)*time.Second, err)":          true,
		"context.WithTimeout(ctx, 2*time.Minute)":                        false,
		"const short = 5 * time.Second; context.WithTimeout(ctx, short)": true,
		"time.NewTimer(time.Second)":                                     true,
		"synctest.Test(t, func(t *testing.T) { <-time.After(1) })":       false,
		"await.Until(t, \"x\", func() bool { <-time.After(1) })":         true,
		"t.Run(\"x\", func(t *testing.T) { <-time.After(time.Hour) })":   false,
	} {
		text := "package x\nfunc f() {\n" + line + "\n}\n"
		if got := problems(t, "x_test.go", text); (len(got) > 0) != bad {
			t.Errorf("%s: %q, want a problem: %v", line, got, bad)
		}
	}
}

// problems lists the calls in a file whose result depends on the clock of the machine.
func problems(t *testing.T, name string, src any) (list []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[int]bool{} // lines
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// must fire: ") || c.Text == "// fake clock" {
				allowed[set.Position(c.Pos()).Line] = true
			}
		}
	}
	consts := map[string]time.Duration{"await.Limit": await.Limit, "time.Nanosecond": 1, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond, "time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return !strings.HasPrefix(n.Name.Name, "Benchmark") // measures time
		case *ast.ValueSpec:
			for i := range n.Values {
				if d, ok := length(n.Values[i], consts); ok {
					consts[n.Names[i].Name] = d
				}
			}
		case *ast.BinaryExpr:
			return named(n.X) != "await.Limit" && named(n.Y) != "await.Limit" // a limit that is long enough
		case *ast.CallExpr:
			if name := named(n.Fun); name == "synctest.Test" || name == "inBubble" {
				return false // the clock is fake
			}
			if at := set.Position(n.Pos()); !allowed[at.Line] && hasty(n, consts) {
				list = append(list, at.String())
			}
		}
		return true
	})
	return list
}

// hasty reports whether a call measures time, or sets a limit that is too short.
func hasty(call *ast.CallExpr, consts map[string]time.Duration) bool {
	limit := 0 // index of the argument
	switch name := named(call.Fun); name {
	case "time.Since", "time.Tick":
		return true
	case "time.After":
		d, known := length(call.Args[0], consts)
		return !known || d < shortest
	case "context.WithTimeout", "context.WithTimeoutCause":
		limit = 1
	case "time.Now().Add", "time.NewTimer":
	default:
		return false
	}
	d, known := length(call.Args[limit], consts)
	return known && d > 0 && d < shortest
}

// named returns the name of a function, constant or method in the source text; empty = another
// expression.
func named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return named(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return named(e.Fun) + "()"
	}
	return ""
}

// length returns the value of a constant duration.
func length(e ast.Expr, consts map[string]time.Duration) (d time.Duration, known bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		return time.Duration(n), err == nil
	case *ast.ParenExpr:
		return length(e.X, consts)
	case *ast.UnaryExpr:
		d, known = length(e.X, consts)
		return -d, known && e.Op == token.SUB
	case *ast.BinaryExpr:
		x, ok := length(e.X, consts)
		y, also := length(e.Y, consts)
		if ok = ok && also; ok && e.Op == token.QUO && y != 0 {
			return x / y, true
		}
		values := map[token.Token]time.Duration{token.ADD: x + y, token.SUB: x - y, token.MUL: x * y}
		d, known = values[e.Op]
		return d, known && ok
	default:
		d, known = consts[named(e)]
		return d, known
	}
}
