package hooktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
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
	stub := func(name string, or func() grapnel.Hook) grapnel.Hook {
		if hook := opts.Programs[name]; hook != nil {
			return hook
		}
		return or()
	}
	loaded, errs := policytest.Load(file, policytest.Loading{
		Scope: opts.Scope, State: t.TempDir(),
		Program: func(c policyfile.Command) grapnel.Hook {
			return stub(c.Name, func() grapnel.Hook { return policytest.Program(c) })
		},
		Server: func(h policyfile.HTTP) grapnel.Hook {
			return stub(h.Name, func() grapnel.Hook {
				return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
					err := fmt.Errorf("%s: no server is asked in a test: let PolicyOptions.Programs answer for the hook %s", file, h.Name)
					t.Error(err)
					return grapnel.Outcome{}, err
				})
			})
		},
		Told: func(h policyfile.HTTP) grapnel.Hook {
			return stub(h.Name, func() grapnel.Hook { return grapnel.Watch(func(context.Context, *grapnel.Event) {}) })
		},
	})
	for _, err := range errs {
		t.Errorf("%v", err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	for name := range opts.Programs {
		if !slices.Contains(loaded.Programs, name) {
			t.Fatalf("%s: no program of a hook %s", file, name)
		}
	}
	engine, err := grapnel.New(loaded.Specs, nil)
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

// Agent gives an engine what an agent writes to grapnel-hook, and returns what the agent
// gets: the very bytes, and the exit code. The agent is named as on the command line:
// claude-code, gemini-cli, ... Each payload is the first of a session, and its project
// begins where a version control system says so.
//
// What a hook sees as one event looks different in each agent. To say [Shell] and its
// kin in the words of one, use its Dialect: payload, err := dialect.GeminiCLI().WriteEvent(ev).
func Agent(t testing.TB, engine *grapnel.Engine, agent, payload string) dialect.Reply {
	t.Helper()
	d, ok := dialect.FindAgent(agent)
	if !ok {
		t.Fatalf("no agent %q, want one of %s", agent, strings.Join(dialect.Names(), ", "))
	}
	got := dialect.Receive(d, dialect.Input{Payload: []byte(payload)})
	if at := &got.Event.Session; at.Root == "" {
		at.Root = policytest.ProjectRoot(at.CWD)
	}
	return got.Answer(t.Context(), engine)
}

// TestPolicies runs the tests that are files (NAME_test.yaml, see "grapnel test --help"):
// those that are named, and those below the directories that are. Each is a test of its own
// for each of its agents. That there is none is a failure.
func TestPolicies(t *testing.T, paths ...string) { //nolint:tparallel // whether the test itself is parallel is the caller's
	t.Helper()
	files, err := policytest.Find(paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("there is no file *%s in %s", policytest.Suffix, strings.Join(paths, ", "))
	}
	for _, name := range files {
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			t.Parallel()
			file, errs := policytest.Read(name)
			for _, err := range errs {
				t.Errorf("%v", err)
			}
			if len(errs) > 0 {
				return
			}
			results, err := policytest.Run(t.Context(), file.Tests, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range results {
				r := &results[i]
				t.Run(r.Test.Name+"/"+r.Agent, func(t *testing.T) { passed(t, r) })
			}
		})
	}
}

// passed fails, or skips, a test as a file's has.
func passed(t testing.TB, r *policytest.Result) {
	t.Helper()
	switch r.Status {
	case policytest.Skipped:
		t.Skip(r.Test.Skip)
	case policytest.Failed, policytest.Broken:
		t.Errorf("%v\n%s", r, r.Details())
	case policytest.Passed:
	}
}
