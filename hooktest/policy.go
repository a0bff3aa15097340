package hooktest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/packs"
	"github.com/grapnel-dev/grapnel/policy"
	_ "github.com/grapnel-dev/grapnel/policy/foreign" // hook files of other systems
	"github.com/grapnel-dev/grapnel/process"
)

// PolicyOptions say how a policy is tested. The zero value is the default, and nil is
// fine.
type PolicyOptions struct {
	// Scope is whose policy it is; the zero value is the user's. What a project's
	// `allow:` counts for, and what its programs see, is less.
	Scope grapnel.Scope

	// Programs answer in place of the programs, and of the servers, of hooks with these
	// names. All other programs are really started. A server is never asked: without an
	// answer for it the test fails. Nor is one told of anything, but for the hook here that
	// hears it in its place. A name that no such hook of the policy has is an error.
	Programs map[string]grapnel.Hook
}

// Policy loads a policy file as grapnel-hook does, packs and hook files of other systems
// included, and fails the test at once with FILE:LINE:COL of each error. No trust is
// asked for, limits count in memory for this engine alone, files of built-in hooks go
// into a directory of the test, and webhooks are left out. Give the engine to [Fire] and
// its kin, or to [Agent].
func Policy(t testing.TB, file string, opts *PolicyOptions) *grapnel.Engine {
	t.Helper()
	if opts == nil {
		opts = &PolicyOptions{}
	}
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	home, _ := os.UserHomeDir() // without one, what the user database says
	unused := maps.Clone(opts.Programs)
	set := policy.Load(policy.Request{
		Files: []policy.File{{Path: file, Scope: opts.Scope, Must: true}}, Packs: packs.All, State: t.TempDir(), Home: home,
		HTTP: func(h policy.HTTP) (grapnel.Hook, error) {
			if stub := opts.Programs[h.Name]; stub != nil {
				delete(unused, h.Name)
				return stub, nil
			}
			return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
				err := fmt.Errorf("%s: no server is asked in a test: let PolicyOptions.Programs answer for the hook %s", file, h.Name)
				t.Error(err)
				return grapnel.Outcome{}, err
			}), nil
		},
		Notify: func(h policy.HTTP) (grapnel.Hook, error) {
			if stub := opts.Programs[h.Name]; stub != nil {
				delete(unused, h.Name)
				return stub, nil
			}
			return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return grapnel.Outcome{}, nil }), nil
		},
		Command: func(c policy.Command) grapnel.Hook {
			if stub := opts.Programs[c.Name]; stub != nil {
				delete(unused, c.Name)
				return stub
			}
			return program(c)
		},
	})
	bad := false
	for _, loaded := range set.Files {
		for _, err := range loaded.Errors {
			bad = true
			t.Errorf("%v", err)
		}
	}
	if bad {
		t.FailNow()
	}
	if len(unused) > 0 {
		t.Fatalf("%s: no program of a hook %s", file, strings.Join(slices.Sorted(maps.Keys(unused)), ", "))
	}
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// PolicyText is [Policy] for a text, as if it stood in a grapnel.yaml of an empty
// directory.
func PolicyText(t testing.TB, text string, opts *PolicyOptions) *grapnel.Engine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Policy(t, file, opts)
}

// program makes the hook behind a `run:` or a `worker:`. A test in cmd/internal/answer holds it to what
// grapnel-hook makes.
func program(c policy.Command) grapnel.Hook {
	cmd := &process.Command{
		Name: c.Name, Line: c.Line, Args: c.Args, Allow: c.Env, Dir: c.Dir, InDir: c.Scope == grapnel.ScopeProject || c.Worker,
		Env: c.Vars, Inherit: process.InheritFor(c.Scope), Executor: process.System,
	}
	if s := c.Sandbox; s != nil && !s.Off { // the main of the test has to call process.SandboxMain
		cmd.Executor = &process.Sandbox{Read: s.Read, Write: s.Write, Dir: c.Dir, Net: s.Net, Ports: s.Ports, Optional: s.Optional}
	}
	if d := c.Dialect(); d != nil {
		cmd.Dialect, cmd.Vars = d, d.HookEnv
	}
	return cmd
}

// Agent gives an engine what an agent writes to grapnel-hook, and returns what the agent
// gets: the very bytes, and the exit code. The agent is named as on the command line:
// claude-code, gemini-cli, ... Each payload is the first of a session, and its project
// begins where a version control system says so.
//
// What a hook sees as one event looks different in each agent. To say [Shell] and its
// kin in the words of one, use its Dialect: payload, err := dialect.GeminiCLI.WriteEvent(ev).
func Agent(t testing.TB, engine *grapnel.Engine, agent, payload string) dialect.Reply {
	t.Helper()
	d, ok := dialect.FindAgent(agent)
	if !ok {
		t.Fatalf("no agent %q, want one of %s", agent, strings.Join(dialect.Names(), ", "))
	}
	got := dialect.Receive(d, dialect.Input{Payload: []byte(payload)})
	if at := &got.Event.Session; at.Root == "" {
		at.Root = projectRoot(at.CWD)
	}
	return got.Answer(t.Context(), engine)
}

// projectRoot is what grapnel-hook takes for the root of a project at the first event of
// a session.
func projectRoot(dir string) string {
	for last, at := "", dir; at != last; last, at = at, filepath.Dir(at) {
		for _, mark := range []string{".git", ".hg", ".jj"} {
			if _, err := os.Lstat(filepath.Join(at, mark)); err == nil {
				return at
			}
		}
	}
	return dir
}
