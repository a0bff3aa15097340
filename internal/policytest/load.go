package policytest

import (
	"os"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Loading are options for loading a policy for tests. The zero value is the default.
type Loading struct {
	Scope   grapnel.Scope // the policy's scope; the zero value is the user's
	State   string        // state directory of built-in hooks; empty = none
	Counter load.Counter  // the counter of limits; nil = in memory, for this policy only

	Now func() time.Time // the clock of limits and of `after:`; nil = the system clock

	// Answer returns the hook for a call; nil = one that tests use without an answer. For a program it
	// is [Program], for a server one that fails, because tests contact none, and else one without effect.
	Answer func(dryrun.Call) grapnel.Hook

	// Load reads the files and builds their hooks; nil = [load.Policies]. To test hooks that are not
	// in the file, change its result.
	Load func(load.Request) load.Set
}

// Loaded is a policy loaded for tests.
type Loaded struct {
	Specs    []grapnel.Spec
	Programs []string // names of the hooks that run a program or contact a server
}

// Load loads a policy file like grapnel-hook, including packs and hook files of other systems,
// and returns all its errors. It does not require trust. It leaves webhooks out, so that nothing
// leaves the machine.
func Load(file string, how Loading) (Loaded, []*policyfile.Error) {
	var got Loaded
	file, err := filepath.Abs(file)
	if err != nil {
		return got, []*policyfile.Error{{File: file, Msg: err.Error()}}
	}
	home, _ := os.UserHomeDir() // if it fails, the loader uses the user database
	run := dryrun.Runners(func(c dryrun.Call) (grapnel.Hook, error) {
		got.Programs = append(got.Programs, c.Name)
		if how.Answer != nil {
			if hook := how.Answer(c); hook != nil {
				return hook, nil
			}
		}
		switch {
		case c.Program != nil:
			return Program(*c.Program), nil
		case c.Server != nil:
			return noServer(file, c.Name), nil
		}
		return nil, nil
	})
	run.Webhook = nil
	run.Contain = func(*policyfile.Sandbox, string) (string, error) { return "grapnel-hook", nil } // on any machine
	req := load.Request{
		Files: []load.File{{Path: file, Scope: how.Scope, Must: true}}, Runners: run, Packs: packs.All(), State: how.State, Home: home, Counter: how.Counter, Now: how.Now,
	}
	policies := how.Load
	if policies == nil {
		policies = load.Policies
	}
	set := policies(req)
	var errs []*policyfile.Error
	for _, loaded := range set.Files {
		errs = append(errs, loaded.Errors...)
	}
	got.Specs = set.Specs
	return got, errs
}

// noServer returns a hook that fails, for a server without an answer in the test.
func noServer(file, hook string) grapnel.Hook { return dryrun.NoServer(file, hook, "`programs:`") }

// ProjectRoot returns the root of a project as grapnel-hook determines it at the first event of a
// session.
func ProjectRoot(dir string) string {
	for last, at := "", dir; at != last; last, at = at, filepath.Dir(at) {
		for _, mark := range []string{".git", ".hg", ".jj"} {
			if _, err := os.Lstat(filepath.Join(at, mark)); err == nil {
				return at
			}
		}
	}
	return dir
}

// Program returns the hook for a `run:` or a `worker:`, which really starts the program. A test
// in cmd/internal/hookcmd compares it with the hook of grapnel-hook. To run a program in a
// sandbox, main must begin with process.SandboxMain.
func Program(c policyfile.Command) grapnel.Hook { return command(c) }

func command(c policyfile.Command) *process.Command {
	cmd := &process.Command{
		Name: c.Name, Line: c.Line, Args: c.Args, Title: c.Title, Allow: c.Env, Dir: c.Dir, InDir: c.Scope == grapnel.ScopeProject || c.Worker,
		Env: c.Vars, Inherit: process.InheritFor(c.Scope), Executor: process.System, CommandDir: c.CommandDir,
	}
	if s := c.Sandbox; s != nil && !s.Off {
		cmd.Executor = &process.Sandbox{Read: s.Read, Write: s.Write, Dir: c.Dir, Net: s.Net, Ports: s.Ports, Optional: s.Optional}
	}
	if d := policy.DialectOf(&c); d != nil {
		cmd.Dialect, cmd.Vars = d, d.HookEnv
	}
	return cmd
}
