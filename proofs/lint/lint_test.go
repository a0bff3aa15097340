package main

import (
	"go/ast"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// calls reports each call.
var calls = &analysis.Analyzer{
	Name: "calls",
	Doc:  "report calls",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, f := range pass.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					pass.Reportf(call.Pos(), "a call")
				}
				return true
			})
		}
		return nil, nil
	},
}

func TestNolint(t *testing.T) {
	t.Parallel()
	checks := []check{{"calls", []*analysis.Analyzer{calls}}, {"other", nil}}
	analysistest.Run(t, analysistest.TestData(), linter(checks), "nolint")
}

func TestNolintProblems(t *testing.T) {
	t.Parallel()
	names := map[string]bool{"vet": true}
	for _, tt := range []struct {
		n    nolint
		want string
	}{
		{nolint{used: map[string]bool{"vet": true}, reason: "why"}, ""},
		{nolint{used: map[string]bool{"vet": true}}, "give the reason: //nolint:CHECK // reason"},
		{nolint{used: map[string]bool{"": false}, reason: "why"}, "name the check: //nolint:CHECK // reason"},
	} {
		if got := tt.n.problem(names); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.n, got, tt.want)
		}
	}
}

func TestOwnAnalyzers(t *testing.T) {
	t.Parallel()
	style := []check{{"style", []*analysis.Analyzer{comments, builtins, contexts, unconvert}}}
	analysistest.Run(t, analysistest.TestData(), linter(style), "style")
	analysistest.Run(t, analysistest.TestData(), linter([]check{{"security", []*analysis.Analyzer{modes}}}), "security")
}

// The suite has no two checks with one name, and its analyzers fit together.
func TestSuite(t *testing.T) {
	t.Parallel()
	if err := analysis.Validate([]*analysis.Analyzer{linter(suite())}); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"", module, "example.com/other"} {
		if err := analysis.Validate(factAnalyzers(path)); err != nil {
			t.Error(err)
		}
	}
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		check, file, text, code string
		want                    bool
	}{
		{"errcheck", "a.go", "unchecked error", "\tdefer f.Close()", true},
		{"errcheck", "a.go", "unchecked error", "\tf.Close()", false},
		{"noctx", "a.go", "net.Listen must not be called", "", true},
		{"noctx", "a.go", "net.Dial must not be called", "", false},
		{"noctx", "proofs/bench/main.go", "net.Dial must not be called", "", true},
		{"funlen", "a_test.go", "too long", "", true},
		{"vet", "a_test.go", "too long", "", false},
	} {
		got := false
		for _, e := range exceptions {
			got = got || e.covers(tt.check, tt.file, tt.text, tt.code)
		}
		if got != tt.want {
			t.Errorf("%+v: covered: %v", tt, got)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "a.go")
	const bad = "package a\n\nimport (\n\t\"" + module + "\"\n\t\"os\"\n\t\"pgregory.net/rapid\"\n)\n\n\nvar _ = os.Args\n"
	const good = "package a\n\nimport (\n\t\"os\"\n\n\t\"pgregory.net/rapid\"\n\n\t\"" + module + "\"\n)\n\nvar _ = os.Args\n"
	if err := os.WriteFile(name, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != good {
		t.Errorf("got %q, %v\nwant %q", got, err, good)
	}
}
