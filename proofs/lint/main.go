// Command lint checks the code of this repository. "make lint" builds and runs it:
//
//	go vet -vettool=bin/lint ./...    # report what its analyzers find
//	bin/lint -format DIR              # format files, for "make fmt"
//
// "go vet" starts it for each package and keeps the results in the build cache. So a second run
// checks only changed packages and the packages that import them.
//
// It is a separate module, because other modules need none of its dependencies.
package main

import (
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	debug.SetGCPercent(400) // a short life, and memory for it
	if len(os.Args) == 3 && os.Args[1] == "-format" {
		if err := rewrite(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "lint:", err)
			os.Exit(1)
		}
		return
	}
	analyzers := []*analysis.Analyzer{linter(suite())}
	if name := os.Args[len(os.Args)-1]; strings.HasSuffix(name, ".cfg") {
		u, err := prepare(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "lint:", err)
			os.Exit(1)
		}
		if u.VetxOnly {
			registerFacts(analyzers)
			analyzers = factAnalyzers(u.ModulePath)
		}
	}
	unitchecker.Main(analyzers...)
}

// prepare changes to the top of the repository and makes file names relative to it. "go vet"
// caches diagnostics, so they must not contain the directory of one clone.
func prepare(name string) (*unitchecker.Config, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	u := &unitchecker.Config{}
	if err := json.Unmarshal(data, u); err != nil {
		return nil, fmt.Errorf("cannot decode %s: %w", name, err)
	}
	top := u.Dir
	for !exists(filepath.Join(top, "go.work")) {
		if filepath.Dir(top) == top {
			return u, nil // a package of another module
		}
		top = filepath.Dir(top)
	}
	for _, files := range [][]string{u.GoFiles, u.NonGoFiles, u.IgnoredFiles} {
		for i, file := range files {
			if rel, err := filepath.Rel(top, file); err == nil && filepath.IsLocal(rel) {
				files[i] = rel
			}
		}
	}
	if data, err = json.Marshal(u); err != nil {
		return nil, err
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return nil, err
	}
	return u, os.Chdir(top)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// registerFacts makes all facts readable: a checked package may have recorded any of them.
func registerFacts(analyzers []*analysis.Analyzer) {
	for _, a := range analyzers {
		for _, f := range a.FactTypes {
			gob.Register(f)
		}
		registerFacts(a.Requires)
	}
}
