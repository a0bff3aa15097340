package policytest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/glob"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Find returns the test files among paths and below the directories among them. It skips
// directories with a name that begins with a dot, node_modules, and every file or directory that
// a pattern of ignore matches by its name or its path.
func Find(paths, ignore []string) ([]string, error) {
	var files []string
	add := func(file string) {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	ignored := func(path string) bool {
		return slices.ContainsFunc(ignore, func(pattern string) bool {
			for _, name := range []string{filepath.Base(path), filepath.ToSlash(path)} {
				if glob.Match(pattern, name) {
					return true
				}
			}
			return false
		})
	}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && at == path:
				return err
			case err != nil: // an unreadable directory must not prevent all tests
				return fs.SkipDir
			case d.IsDir() && at != path && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || ignored(at)):
				return fs.SkipDir
			case d.IsDir() || at != path && (!IsTest(d.Name()) || ignored(at)):
				return nil
			}
			add(filepath.Clean(at))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// IsTest reports whether a file is a test file by its name.
func IsTest(name string) bool {
	return strings.HasSuffix(name, Suffix) || strings.HasSuffix(name, suffixShort)
}

// errorAt returns the error with a position that err wraps.
func errorAt(err error) (*policyfile.Error, bool) { return errors.AsType[*policyfile.Error](err) }
