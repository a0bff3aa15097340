package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/printable"
	"github.com/grapnel-dev/grapnel/cmd/internal/show/typeset"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/testwatch"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// again runs the tests, and repeats affected tests after each change, until ctx is done.
func (t *tester) again(ctx context.Context) error {
	return testwatch.Run(ctx, func(w *testwatch.Watcher, changed map[string]bool) error { return t.round(ctx, w, changed) })
}

// round runs the tests that the changed files affect, or all tests if changed is nil. Then it
// watches the directories of the tests and policies.
func (t *tester) round(ctx context.Context, w *testwatch.Watcher, changed map[string]bool) error {
	if err := w.Add(testwatch.Dirs(t.paths, t.policy)); err != nil { // before reading, so no write in between is missed
		return err
	}
	tests, errs, err := t.find()
	switch {
	case err != nil && changed != nil:
		t.await(w, err)
		return nil
	case err != nil:
		return err
	}
	t.lookupError = ""
	policies := map[string]bool{}
	for _, test := range tests {
		if test.File.Policy != "" {
			policies[filepath.Dir(test.File.Policy)] = true
		}
	}
	if err := w.Add(policies); err != nil {
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
			return known[test.File.Path] && !testwatch.Touched(test, t.policy, changed) // a new directory does not report the files in it
		})
		if len(tests)+len(errs)+len(gone) == 0 {
			return nil
		}
		if !t.JSON {
			fmt.Fprintln(t.Out, t.Paint(typeset.Dim, strings.Repeat("-", 40)))
			for _, file := range gone {
				fmt.Fprintf(t.Out, "%s %s\n", t.Paint(typeset.Yellow, "gone"), printable.Line(file))
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

// gone lists the test files that existed in the last round.
func (t *tester) gone(known map[string]bool, errs []*policyfile.Error) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(file string) bool {
		return t.seen[file] || slices.ContainsFunc(errs, func(err *policyfile.Error) bool { return err.File == file }) || there(file)
	})
}

// there reports whether a file exists, with or without tests.
func there(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// await waits for a named file that does not exist at the moment. Editors that replace files
// and switches between branches cause that.
func (t *tester) await(w *testwatch.Watcher, why error) {
	w.Await(t.paths)
	t.seen = map[string]bool{}
	if t.lookupError == why.Error() {
		return
	}
	t.lookupError = why.Error()
	fmt.Fprintf(t.Err, "grapnel: error: %v; waiting for it\n", printable.Line(t.lookupError))
}
