package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/imports"
	gofumpt "mvdan.cc/gofumpt/format"
)

// format reports files that gofumpt or goimports would change. It also reads the package's files
// for other systems.
var format = &analysis.Analyzer{
	Name: "format",
	Doc:  "report files with another format",
	Run: func(pass *analysis.Pass) (any, error) {
		check := func(name string) (changed bool, err error) {
			old, err := pass.ReadFile(name)
			if err != nil {
				return false, err
			}
			text, err := formatted(name, old)
			return !bytes.Equal(old, text), err
		}
		for _, f := range pass.Files {
			changed, err := check(pass.Fset.File(f.FileStart).Name())
			if err != nil {
				return nil, err
			}
			if changed {
				pass.Reportf(f.Package, "run make fmt")
			}
		}
		if strings.HasSuffix(pass.Pkg.Name(), "_test") {
			return nil, nil // these files were part of the tested package
		}
		for _, name := range pass.IgnoredFiles {
			if !strings.HasSuffix(name, ".go") {
				continue
			}
			changed, err := check(name)
			if err != nil {
				return nil, err
			}
			if changed {
				pass.Reportf(pass.Files[0].Package, "run make fmt: it will change %s", filepath.Base(name))
			}
		}
		return nil, nil
	},
}

// Imports of this repository are a group of their own.
func init() { imports.LocalPrefix = module }

func formatted(name string, old []byte) ([]byte, error) {
	text, err := imports.Process(name, old, &imports.Options{FormatOnly: true, Comments: true, TabIndent: true, TabWidth: 8})
	if err != nil {
		return nil, err
	}
	text, err = gofumpt.Source(text, gofumpt.Options{LangVersion: "go1.26", ModulePath: module})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// rewrite formats the Go files below a directory and prints the names of those that changed.
func rewrite(dir string) error {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() && strings.HasSuffix(name, ".go") {
			group.Go(func() error { return rewriteFile(name) })
		}
		return nil
	})
	if failed := group.Wait(); failed != nil {
		return failed
	}
	return err
}

func rewriteFile(name string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := formatted(name, old)
	if err != nil || bytes.Equal(old, text) {
		return err
	}
	fmt.Println(name)
	return os.WriteFile(name, text, 0o600) // it exists, so its mode stays
}
