// Package testwatch notices changes of policies, their tests, and the files that they name.
package testwatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// settle is the time without changes after which the tests run. Editors write a file in several
// steps.
const settle = 100 * time.Millisecond

// A Watcher watches directories for changes.
type Watcher struct{ notes *fsnotify.Watcher }

// Run calls round with nil, and then with the names of the changed files after each change, until
// ctx is done or round returns an error.
func Run(ctx context.Context, round func(w *Watcher, changed map[string]bool) error) error {
	notes, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch for changes: %w", err)
	}
	defer func() { _ = notes.Close() }()
	w := &Watcher{notes}
	if err := round(w, nil); err != nil {
		return err
	}
	changed := map[string]bool{}
	timer := time.NewTimer(settle)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-notes.Errors:
			return fmt.Errorf("watch for changes: %w", err)
		case note := <-notes.Events:
			if note.Op == fsnotify.Chmod || hidden(note.Name) {
				continue
			}
			changed[filepath.Clean(note.Name)] = true
			timer.Reset(settle)
		case <-timer.C:
			if err := round(w, changed); err != nil {
				return err
			}
			clear(changed)
		}
	}
}

// hidden reports whether a file is a temporary file of an editor.
func hidden(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~") || strings.HasPrefix(base, "#")
}

// Add watches the directories that are true in dirs. It skips directories that no longer exist;
// the caller finds the error when it reads them.
func (w *Watcher) Add(dirs map[string]bool) error {
	for dir, want := range dirs {
		if !want || slices.Contains(w.notes.WatchList(), filepath.Clean(dir)) {
			continue
		}
		if err := w.notes.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	return nil
}

// Await watches the nearest existing directory above each path.
func (w *Watcher) Await(paths []string) {
	for _, path := range paths {
		for dir := filepath.Clean(path); w.notes.Add(dir) != nil && dir != filepath.Dir(dir); {
			dir = filepath.Dir(dir)
		}
	}
}

// Dirs returns the directories that may contain tests, and the directory of the policy.
func Dirs(paths []string, policy string) map[string]bool {
	dirs := map[string]bool{}
	for _, path := range paths {
		_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // unreadable directories are not watched
			case d.IsDir() && at != path && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
				return fs.SkipDir
			case d.IsDir():
				dirs[at] = true
			}
			return nil
		})
		dirs[filepath.Dir(path)] = dirs[filepath.Dir(path)] || !dirs[path] // the directory of a file
	}
	if policy != "" {
		dirs[filepath.Dir(policy)] = true
	}
	return dirs
}

// Touched reports whether a change affects a test: its file, its policy, or a file that one of
// these names, such as a script.
func Touched(test *policytest.Test, policy string, changed map[string]bool) bool {
	own := []string{test.File.Path, test.File.Policy}
	if policy != "" {
		own[1] = policy
	}
	for name := range changed {
		if slices.Contains(own, name) {
			return true
		}
		for _, file := range own {
			rel, err := filepath.Rel(filepath.Dir(file), name)
			if err != nil || !filepath.IsLocal(rel) {
				continue
			}
			text, _ := os.ReadFile(file) // an unreadable file names no files
			for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
				if bytes.Contains(text, []byte(part)) {
					return true
				}
			}
		}
	}
	return false
}
