package main

import (
	"flag"
	"fmt"
	"go/token"
	"reflect"
	"slices"
	"strings"

	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/ldez/usetesting"
	"github.com/moricho/tparallel"
	"github.com/nishanths/exhaustive/passes/enumerated"
	"github.com/nishanths/exhaustive/passes/exhaustive"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"github.com/sonatard/noctx"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"github.com/ultraware/funlen"
	"github.com/uudashr/gocognit"
	"go-simpler.org/sloglint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/analysis/passes/modernize"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/analysis/facts/deprecated"
	"honnef.co/go/tools/analysis/facts/nilness"
	"honnef.co/go/tools/analysis/facts/purity"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/staticcheck/sa5012"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

const module = "github.com/grapnel-dev/grapnel"

// A check is a group of analyzers. Its name is in diagnostics and in nolint comments.
type check struct {
	name      string
	analyzers []*analysis.Analyzer
}

func suite() []check {
	one := func(name string, a *analysis.Analyzer, flags ...string) check {
		for i := 0; i < len(flags); i += 2 {
			set(&a.Flags, flags[i], flags[i+1])
		}
		return check{name, []*analysis.Analyzer{a}}
	}
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols,
		// If printing fails, the error cannot be printed either.
		"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln")
	return []check{
		{"vet", vet.Suite},
		{"modernize", modernize.Suite},
		{"staticcheck", slices.Concat(
			only(simple.Analyzers),
			only(staticcheck.Analyzers),
			only(stylecheck.Analyzers),
		)},
		one("format", format),
		one("unused", unusedAnalyzer),
		one("bodyclose", bodyclose.Analyzer),
		one("errcheck", errcheck.Analyzer),
		one("errorlint", errorlint.NewAnalyzer(), "errorf", "true"),
		one("exhaustive", exhaustive.Analyzer,
			// A default case handles all other values on purpose.
			"d", "true",
			// An enumeration of a library can grow; a switch handles only some of its values.
			"typeignore", `^(mvdan\.cc/|regexp/syntax\.)`),
		// Split larger functions. The exceptions have nolint with a reason.
		one("funlen", funlen.NewAnalyzer(100, -1, true)),
		one("gocognit", gocognit.Analyzer, "over", "30"),
		one("ineffassign", ineffassign.Analyzer),
		one("nilerr", nilerr.Analyzer),
		one("noctx", noctx.Analyzer),
		{"security", []*analysis.Analyzer{modes}},
		{"style", []*analysis.Analyzer{comments, builtins, contexts}},
		one("unconvert", unconvert),
		one("sloglint", sloglint.New(nil)),
		one("tparallel", tparallel.Analyzer),
		one("usetesting", usetesting.NewAnalyzer()),
	}
}

// factAnalyzers returns the analyzers for a package that is only imported by a checked one. They
// record facts about its functions and types, for example that a function is deprecated.
func factAnalyzers(modulePath string) []*analysis.Analyzer {
	facts := []*analysis.Analyzer{ctrlflow.Analyzer, deprecated.Analyzer, enumerated.Analyzer, printf.Analyzer, modernize.NewExprAnalyzer}
	// These facts take much longer. We record them for the standard library, whose module path is
	// empty, and for our own packages. purity finds results that the caller forgets to use.
	if modulePath == "" || strings.HasPrefix(modulePath, module) {
		facts = append(facts, purity.Analyzer, nilness.Analysis, sa5012.SCAnalyzer.Analyzer)
	}
	return facts
}

func set(flags *flag.FlagSet, name, value string) {
	if err := flags.Set(name, value); err != nil {
		panic(fmt.Sprintf("flag %s: %v", name, err))
	}
}

// only returns analyzers of staticcheck, without those that are off.
func only(all []*lint.Analyzer) []*analysis.Analyzer {
	var on []*analysis.Analyzer
	for _, a := range all {
		if !slices.Contains(off, a.Analyzer.Name) {
			on = append(on, a.Analyzer)
		}
	}
	return on
}

// off lists checks of staticcheck that we do not want.
var off = []string{
	"ST1016", // a method may need the usual name of its receiver for a parameter
}

// unusedAnalyzer reports the findings of unused. A test variant of a package has all its files, so
// each use is known.
var unusedAnalyzer = &analysis.Analyzer{
	Name:     "unused",
	Doc:      "report unused code",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		result := pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result)
		for _, o := range result.Unused {
			pass.Reportf(position(pass, o.Position), "%s %s is unused", o.Kind, o.Name)
		}
		return nil, nil
	},
}

func position(pass *analysis.Pass, p token.Position) token.Pos {
	for _, f := range pass.Files {
		if file := pass.Fset.File(f.FileStart); file.Name() == p.Filename {
			return file.Pos(p.Offset)
		}
	}
	return pass.Files[0].Package
}

// findings is the result of a check in a package.
type findings []analysis.Diagnostic

// collect returns a copy of an analyzer that returns its diagnostics.
func collect(a *analysis.Analyzer) *analysis.Analyzer {
	c := *a
	c.ResultType = reflect.TypeFor[findings]()
	c.Run = func(pass *analysis.Pass) (any, error) {
		found := findings{}
		p := *pass
		p.Report = func(d analysis.Diagnostic) { found = append(found, d) }
		_, err := a.Run(&p)
		return found, err
	}
	return &c
}
