//go:build unix

// Package loadtest loads hook files of other systems in a policy and runs their programs.
package loadtest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Load loads files of another system for a user, and runs their programs.
func Load(t *testing.T, dir, format string, files map[string]string) *grapnel.Engine {
	t.Helper()
	files["grapnel.yaml"] = "version: 1\nload: [" + format + "]\n" + files["grapnel.yaml"]
	return Engine(t, dir, files)
}

// Engine writes a user's files and returns the engine of grapnel.yaml, which runs programs.
func Engine(t *testing.T, dir string, files map[string]string) *grapnel.Engine {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		syscall.ForkLock.RLock()                       // a child that is being started must not hold a program open for writing
		err := os.WriteFile(name, []byte(text), 0o700) //nolint:security // some of the files are programs
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	set := load.Policies(load.Request{
		Files: []load.File{{Path: filepath.Join(dir, "grapnel.yaml")}}, Home: dir,
		Runners: policy.Runners{Command: func(c policyfile.Command) grapnel.Hook {
			cmd := &process.Command{
				Name: c.Name, Line: c.Line, Args: c.Args, Title: c.Title, Env: c.Vars, Dir: c.Dir, Inherit: process.InheritFor(c.Scope), Executor: process.System,
			}
			if d := policy.DialectOf(&c); d != nil {
				cmd.Dialect, cmd.Vars = d, d.HookEnv
			}
			return cmd
		}},
	})
	for _, file := range set.Files {
		if len(file.Errors) > 0 {
			t.Fatalf("%s: %v", file.File, file.Errors)
		}
	}
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
