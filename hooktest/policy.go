package hooktest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/dryrun"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// PolicyOptions control how a policy is tested. The zero value is the default, and nil is allowed.
type PolicyOptions struct {
	// Scope is the scope of the policy; the zero value is the user's. In a project scope, `allow:`
	// has less effect and its programs see less.
	Scope grapnel.Scope

	// Programs replaces the programs and servers of hooks with these names. All other programs are
	// really started. No server is ever contacted: a server without an entry here makes the test
	// fail. A webhook target gets events only through its entry here. A name that no such hook of
	// the policy has is an error.
	Programs map[string]grapnel.Hook
}

// Policy loads a policy file as grapnel-hook does, including packs and hook files of other systems.
// On errors it fails the test at once, with FILE:LINE:COL of each error. It requires no trust,
// counts limits in memory for this engine only, puts files of built-in hooks into a directory of
// the test, and omits webhooks. Pass the engine to [Fire], to similar functions, or to [Agent].
func Policy(t testing.TB, file string, opts *PolicyOptions) *grapnel.Engine {
	t.Helper()
	if opts == nil {
		opts = &PolicyOptions{}
	}
	loaded, errs := policytest.Load(file, policytest.Loading{
		Scope: opts.Scope, State: t.TempDir(),
		Answer: func(c dryrun.Call) grapnel.Hook {
			if hook := opts.Programs[c.Name]; hook != nil || c.Server == nil {
				return hook
			}
			hook := dryrun.NoServer(file, c.Name, "PolicyOptions.Programs")
			return grapnel.Func(func(ctx context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
				out, err := hook.Handle(ctx, ev)
				t.Error(err)
				return out, err
			})
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
	engine, err := grapnel.New(loaded.Specs, &grapnel.Options{Approved: approval.Approvals{}.Find}) // replies as from the programs
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// PolicyText is like [Policy], but takes the text of a policy, as if it were the grapnel.yaml in an
// empty directory.
func PolicyText(t testing.TB, text string, opts *PolicyOptions) *grapnel.Engine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grapnel.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Policy(t, file, opts)
}

// Agent passes an agent's payload to an engine, as grapnel-hook does, and returns the reply: the
// exact bytes and the exit code. agent is the name on the command line: claude-code, gemini-cli,
// ... Each payload is the first of a session. The project root is found by its version control
// directory.
//
// The same event has a different payload in each agent. To convert [Shell] and similar events, use
// the agent's Dialect: payload, err := dialect.GeminiCLI().WriteEvent(ev).
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

// TestPolicies runs policy test files (NAME_test.yaml, see "grapnel test --help"): the given files,
// and those below the given directories. Each test is a subtest for each of its agents. It fails if
// it finds no tests.
func TestPolicies(t *testing.T, paths ...string) { //nolint:tparallel // the caller decides whether the test itself is parallel
	t.Helper()
	files, err := policytest.Find(paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no file *%s in %s", policytest.Suffix, strings.Join(paths, ", "))
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

// passed fails or skips the test according to a policy test's result.
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
