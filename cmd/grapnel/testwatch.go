package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/printable"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy"
)

// settle is how long files have to be left alone before the tests run: an editor writes one
// in several steps.
const settle = 100 * time.Millisecond

// again runs the tests, and again what a change bears on, until ctx is done.
func (t *tester) again(ctx context.Context) error {
	notes, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch for changes: %w", err)
	}
	defer func() { _ = notes.Close() }()
	if err := t.round(ctx, notes, nil); err != nil {
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
			if err := t.round(ctx, notes, changed); err != nil {
				return err
			}
			clear(changed)
		}
	}
}

// hidden reports whether a file is one that editors keep for themselves.
func hidden(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~") || strings.HasPrefix(base, "#")
}

// round runs the tests that the change of some files bears on, or all where that is nil, and
// watches what they name.
func (t *tester) round(ctx context.Context, notes *fsnotify.Watcher, changed map[string]bool) error {
	if err := listen(notes, t.dirs()); err != nil { // first, so that nobody misses what is written while we read
		return err
	}
	tests, errs, err := t.find()
	switch {
	case err != nil && changed != nil:
		t.await(notes, err)
		return nil
	case err != nil:
		return err
	}
	t.lost = ""
	policies := map[string]bool{}
	for _, test := range tests {
		if test.File.Policy != "" {
			policies[filepath.Dir(test.File.Policy)] = true
		}
	}
	if err := listen(notes, policies); err != nil {
		return err
	}
	known := t.seen
	t.seen = map[string]bool{}
	for _, test := range tests {
		t.seen[test.File.Path] = true
	}
	if changed != nil {
		gone := t.gone(known, errs)
		tests = slices.DeleteFunc(tests, func(test *policytest.Test) bool {
			return known[test.File.Path] && !t.touched(test, changed) // of a new directory nobody was told what is in it
		})
		if len(tests)+len(errs)+len(gone) == 0 {
			return nil
		}
		if !t.JSON {
			fmt.Fprintln(t.Out, t.Paint(cli.Dim, strings.Repeat("-", 40)))
			for _, file := range gone {
				fmt.Fprintf(t.Out, "%s %s\n", t.Paint(cli.Yellow, "gone"), printable.Line(file))
			}
		}
		if len(tests)+len(errs) == 0 {
			return nil
		}
	}
	if err := t.play(ctx, tests, errs); err != nil && !errors.Is(err, cli.ErrFailed) {
		return err
	}
	return nil
}

// dirs are the directories in which there may be tests, and that of the policy.
func (t *tester) dirs() map[string]bool {
	dirs := map[string]bool{}
	for _, path := range t.paths {
		_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // what cannot be read is not watched
			case d.IsDir() && at != path && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
				return fs.SkipDir
			case d.IsDir():
				dirs[at] = true
			}
			return nil
		})
		dirs[filepath.Dir(path)] = dirs[filepath.Dir(path)] || !dirs[path] // of a file
	}
	if t.policy != "" {
		dirs[filepath.Dir(t.policy)] = true
	}
	return dirs
}

// listen has changes in some directories told. One that is gone meanwhile is missed by whoever
// looks into it.
func listen(notes *fsnotify.Watcher, dirs map[string]bool) error {
	for dir, want := range dirs {
		if !want || slices.Contains(notes.WatchList(), filepath.Clean(dir)) {
			continue
		}
		if err := notes.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	return nil
}

// gone lists the files of tests that were there before.
func (t *tester) gone(known map[string]bool, errs []*policy.Error) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(file string) bool {
		return t.seen[file] || slices.ContainsFunc(errs, func(err *policy.Error) bool { return err.File == file }) || there(file)
	})
}

// there reports whether a file is there, with tests or without.
func there(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// await waits for what was named and is not there any more, as a file is that an editor
// writes anew, or that comes back with another branch.
func (t *tester) await(notes *fsnotify.Watcher, why error) {
	for _, path := range t.paths {
		for dir := filepath.Clean(path); notes.Add(dir) != nil && dir != filepath.Dir(dir); {
			dir = filepath.Dir(dir)
		}
	}
	t.seen = map[string]bool{}
	if t.lost == why.Error() {
		return
	}
	t.lost = why.Error()
	fmt.Fprintf(t.Err, "grapnel: error: %v; waiting for it\n", printable.Line(t.lost))
}

// touched reports whether what has changed bears on a test: its file, its policy, or what
// one of these names, such as a script.
func (t *tester) touched(test *policytest.Test, changed map[string]bool) bool {
	own := []string{test.File.Path, test.File.Policy}
	if t.policy != "" {
		own[1] = t.policy
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
			text, _ := os.ReadFile(file) // what cannot be read names nothing
			for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
				if bytes.Contains(text, []byte(part)) {
					return true
				}
			}
		}
	}
	return false
}
