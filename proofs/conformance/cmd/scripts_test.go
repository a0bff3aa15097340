//go:build system

// Package cmd tests the commands that run the vectors of other systems.
package cmd

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts run the real programs.
func TestScripts(t *testing.T) {
	t.Parallel()
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs+string(filepath.Separator), "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"vectors", "agenthooks"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir:                 filepath.Join("testdata", name),
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("PATH", programs+string(filepath.ListSeparator)+env.Getenv("PATH"))
					return nil
				},
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
			})
		})
	}
}

// exits runs a program and checks its exact exit status: exits 2 vectors nonsense
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Check(err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%v: exit status %d, want %d", args[1:], got, want)
	}
}
