//go:build linux || darwin

package hookcmd

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/approval"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/local"
)

const approvalPolicy = `version: 1
use: [destructive]
hooks:
  - {name: no-make, on: tool.before, match: {command: make}, block: Not now.}
  - {name: ask-make, on: tool.before, match: {command: make}, ask: Sure?}
  - {name: no-sudo, on: tool.before, match: {command: sudo}, block: No root.}
`

// allowed stores a grant for a call with one use, as "grapnel allow" does.
func allowed(t *testing.T, place local.Place, payload []byte, hooks ...string) *approval.Grant {
	t.Helper()
	s := place.Approvals()
	g := &approval.Grant{Digest: s.Digest(dialect.Receive(dialect.ClaudeCode(), dialect.Input{Payload: payload}).Event), Uses: 1}
	for _, name := range hooks {
		g.Hooks = append(g.Hooks, place.Policy+"::"+name)
	}
	if err := g.New(time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(g); err != nil {
		t.Fatal(err)
	}
	return g
}

// A grant lets exactly one call pass, if all hooks that stop it are in the grant: with a daemon as
// without.
func TestAllowedOnce(t *testing.T) {
	t.Parallel()
	ways := map[string][]programResult{}
	for _, way := range []string{"program", "daemon"} {
		root, place := placed(t, approvalPolicy)
		if way == "daemon" {
			listen(t, root)
		}
		args := []string{"claude-code", "--root", root}
		send := func(payload []byte) string {
			got := program(args, payload)
			ways[way] = append(ways[way], got)
			return got.Stdout
		}
		payload := bash("s", "make all")
		if got := send(payload); !strings.Contains(got, "Not now.") {
			t.Errorf("%s: without a grant: %s", way, got)
		}
		allowed(t, place, payload, "no-make")
		if got := send(payload); !strings.Contains(got, `"ask"`) || strings.Contains(got, "Not now.") {
			t.Errorf("%s: with a grant for one of two hooks: %s", way, got)
		}
		allowed(t, place, payload, "no-make", "ask-make")
		if got := send(bash("s", "make test")); !strings.Contains(got, "Not now.") {
			t.Errorf("%s: another call: %s", way, got)
		}
		if got := send(bash("another", "make all")); got != "" {
			t.Errorf("%s: the call: %s", way, got)
		}
		if got := send(payload); !strings.Contains(got, "Not now.") {
			t.Errorf("%s: the call again: %s", way, got)
		}
		blocked := bash("s", "sudo make all")
		allowed(t, place, blocked, "no-make", "ask-make")
		for range 2 { // the grant is not used up
			if got := send(blocked); !strings.Contains(got, "No root.") {
				t.Errorf("%s: what another hook blocks: %s", way, got)
			}
		}
	}
	if diff := cmp.Diff(ways["program"], ways["daemon"]); diff != "" {
		t.Errorf("(-program +daemon)\n%s", diff)
	}
}

// The Record of a stopped call identifies it for a grant, and the Record of the call that passes
// names the grant.
func TestAllowedIsRecorded(t *testing.T) {
	t.Parallel()
	root, place := placed(t, approvalPolicy)
	payload := bash("s", "make all")
	args := []string{"claude-code", "--root", root}
	program(args, payload)
	g := allowed(t, place, payload, "no-make", "ask-make")
	program(args, payload)
	program(args, bash("s", "ls"))
	var all []spool.Entry
	for e, err := range spool.Read(place.State, spool.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if len(all) != 3 || all[0].CallDigest != g.Digest || all[1].CallDigest != "" || all[2].CallDigest != "" {
		t.Fatalf("Records %+v", all)
	}
	if rec := all[1]; rec.Approval != g.ID || rec.Decision != grapnel.None || len(rec.Hooks) != 2 || rec.Hooks[0].Approved != grapnel.Block || rec.Hooks[1].Approved != grapnel.Ask {
		t.Errorf("the call that passed: %+v", rec)
	}
}

// No grant passes Grapnel's own hooks, also if a process of the user wrote one for them.
func TestAllowedNeverSelfProtection(t *testing.T) {
	t.Parallel()
	root, place := placed(t, approvalPolicy)
	for _, command := range []string{"grapnel allow", "grapnel init", "rm -r ~/.local/state/grapnel"} {
		payload := bash("s", command)
		g := allowed(t, place, payload)
		g.Hooks = []string{"grapnel#self-protection::no-grapnel-switches", "grapnel#self-protection::ask-before-grapnel-setup", "grapnel#self-protection::no-writing-grapnel-state"}
		if err := place.Approvals().Add(g); err != nil {
			t.Fatal(err)
		}
		if got := program([]string{"claude-code", "--root", root}, payload); got.Stdout == "" || strings.Contains(got.Stdout, "you can allow") {
			t.Errorf("%s: %s", command, got.Stdout)
		}
	}
}

// Of many equal calls at the same time, a grant lets one pass.
func TestAllowedAtTheSameTime(t *testing.T) {
	t.Parallel()
	for _, daemon := range []bool{false, true} {
		root, place := placed(t, approvalPolicy)
		if daemon {
			listen(t, root)
		}
		allowed(t, place, bash("s", "make all"), "no-make", "ask-make")
		var passed atomic.Int64
		var wait sync.WaitGroup
		for range 16 {
			wait.Go(func() {
				if got := program([]string{"claude-code", "--root", root}, bash("s", "make all")); got.Stdout == "" && got.Exit == 0 {
					passed.Add(1)
				}
			})
		}
		wait.Wait()
		if passed.Load() != 1 {
			t.Errorf("daemon %v: %d calls passed, want 1", daemon, passed.Load())
		}
	}
}
