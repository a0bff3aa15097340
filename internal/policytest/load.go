package policytest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	_ "github.com/grapnel-dev/grapnel/policy/foreign" // hook files of other systems
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/process"
)

// Loading says how a policy is loaded for tests. The zero value is the default.
type Loading struct {
	Scope   grapnel.Scope  // whose policy it is; the zero value is the user's
	State   string         // where built-in hooks keep their files; empty = nowhere
	Counter policy.Counter // where limits count; nil = in memory, for this policy alone

	Now func() time.Time // the clock of limits and of `after:`; nil = that of the system

	// Program makes the hook behind a `run:` or a `worker:`, Server the one behind a `http:`,
	// and Told the one behind a `notify:`. nil = [Program], an error that no server is asked
	// in a test, and nothing.
	Program func(policyfile.Command) grapnel.Hook
	Server  func(policyfile.HTTP) grapnel.Hook
	Told    func(policyfile.HTTP) grapnel.Hook

	// Load reads the files and makes their hooks; nil = [policy.Load]. Whoever wants to
	// test other hooks than those of the file changes what that returns.
	Load func(policy.Request) policy.Set
}

// Loaded is a policy that was loaded for tests.
type Loaded struct {
	Specs    []grapnel.Spec
	Programs []string // the hooks that are programs, or behind an address
}

// Load loads a policy file as grapnel-hook does, packs and hook files of other systems
// included, and returns all that is wrong with it. No trust is asked for, and webhooks are
// left out: nothing leaves the machine.
func Load(file string, how Loading) (Loaded, []*policyfile.Error) {
	var got Loaded
	file, err := filepath.Abs(file)
	if err != nil {
		return got, []*policyfile.Error{{File: file, Msg: err.Error()}}
	}
	home, _ := os.UserHomeDir() // without one, what the user database says
	named := func(name string, hook grapnel.Hook) grapnel.Hook {
		got.Programs = append(got.Programs, name)
		return hook
	}
	req := policy.Request{
		Files: []policy.File{{Path: file, Scope: how.Scope, Must: true}}, Packs: packs.All(), State: how.State, Home: home, Counter: how.Counter, Now: how.Now,
		HTTP: func(h policyfile.HTTP) (grapnel.Hook, error) {
			if how.Server == nil {
				return named(h.Name, noServer(file, h.Name)), nil
			}
			return named(h.Name, how.Server(h)), nil
		},
		Notify: func(h policyfile.HTTP) (grapnel.Hook, error) {
			if how.Told == nil {
				return named(h.Name, grapnel.Watch(func(context.Context, *grapnel.Event) {})), nil
			}
			return named(h.Name, how.Told(h)), nil
		},
		Command: func(c policyfile.Command) grapnel.Hook {
			if how.Program == nil {
				return named(c.Name, Program(c))
			}
			return named(c.Name, how.Program(c))
		},
	}
	load := how.Load
	if load == nil {
		load = policy.Load
	}
	set := load(req)
	var errs []*policyfile.Error
	for _, loaded := range set.Files {
		errs = append(errs, loaded.Errors...)
	}
	got.Specs = set.Specs
	return got, errs
}

// noServer is the hook of a server that nobody answers for.
func noServer(file, hook string) grapnel.Hook {
	return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
		return grapnel.Outcome{}, fmt.Errorf("%s: no server is asked in a test: let `programs:` answer for the hook %s", file, hook)
	})
}

// ProjectRoot is what grapnel-hook takes for the root of a project at the first event of
// a session.
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

// Program makes the hook behind a `run:` or a `worker:`, which really starts it. A test in
// cmd/internal/hookcmd holds it to what grapnel-hook makes. A program that runs in a sandbox
// wants process.SandboxMain at the beginning of main.
func Program(c policyfile.Command) grapnel.Hook { return command(c) }

func command(c policyfile.Command) *process.Command {
	cmd := &process.Command{
		Name: c.Name, Line: c.Line, Args: c.Args, Allow: c.Env, Dir: c.Dir, InDir: c.Scope == grapnel.ScopeProject || c.Worker,
		Env: c.Vars, Inherit: process.InheritFor(c.Scope), Executor: process.System,
	}
	if s := c.Sandbox; s != nil && !s.Off {
		cmd.Executor = &process.Sandbox{Read: s.Read, Write: s.Write, Dir: c.Dir, Net: s.Net, Ports: s.Ports, Optional: s.Optional}
	}
	if d := policy.DialectOf(&c); d != nil {
		cmd.Dialect, cmd.Vars = d, d.HookEnv
	}
	return cmd
}

// counts is a policy.Counter, and a grapnel.StopCounter, that one test after the other
// begins anew. Nothing is forgotten during a test.
type counts struct {
	mu    sync.Mutex
	kept  map[string][]byte
	stops map[string]int
}

// Count hands change what is kept under a key.
func (c *counts) Count(key string, change func([]byte) ([]byte, time.Duration)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, _ := change(c.kept[key]); now != nil {
		c.kept[key] = now
	}
	return nil
}

// Counted reads what is kept under a key.
func (c *counts) Counted(key string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[key], nil
}

// Blocked counts by session and sub-agent how often in a row a stop was blocked.
func (c *counts) Blocked(ev *grapnel.Event) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := grapnel.StopKey(ev)
	if ev.Stop == nil || !ev.Stop.Active {
		c.stops[key] = 0
	}
	c.stops[key]++
	return c.stops[key], nil
}

func (c *counts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept, c.stops = map[string][]byte{}, map[string]int{}
}
