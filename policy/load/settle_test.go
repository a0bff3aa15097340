package load_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A file that was just changed may be half written. Until it settles, its last valid content stays
// in force for hooks, and the half does not become the last valid content.
func TestSettled(t *testing.T) {
	t.Parallel()
	const (
		whole  = "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: ls}, ask: Go on?}\n  - {name: b, on: tool.before, match: {command: touch}, block: No.}\n"
		half   = "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: ls}, ask: Go on?}\n"
		broken = "version: 1\nhooks: [{name: a,"
	)
	dir := t.TempDir()
	name := filepath.Join(dir, "grapnel.yaml")
	settling, settled := 500*time.Millisecond, -time.Minute // the times of files, from now
	write := func(text string, at time.Duration) {
		t.Helper()
		modified := time.Now().Add(at)
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chtimes(name, modified, modified)); err != nil {
			t.Fatal(err)
		}
	}
	loaded := func(hook bool) (load.Set, grapnel.Decision) {
		t.Helper()
		set := load.Policies(load.Request{Files: []load.File{{Path: name, Scope: grapnel.ScopeUser}}, Snapshots: filepath.Join(dir, "state"), Settled: hook})
		engine, err := grapnel.New(set.Specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "Bash", Class: grapnel.ClassShell, Commands: []string{"touch x"}}}
		return set, engine.Fire(t.Context(), ev).Decision
	}
	expect := func(what string, hook bool, want grapnel.Decision, state load.State) load.Set {
		t.Helper()
		set, got := loaded(hook)
		if got != want || set.Files[0].State != state {
			t.Errorf("%s: %v, %v, want %v, %v", what, got, set.Files[0].State, want, state)
		}
		return set
	}
	write(half, settling)
	if set := expect("the first content", true, grapnel.None, load.Valid); !set.Unsteady {
		t.Error("a daemon would not read the first content again")
	}
	write(whole, settling)
	expect("the first content was a half", true, grapnel.Block, load.Valid)
	write(whole, settled)
	expect("settled", true, grapnel.Block, load.Valid)
	write(half, settling)
	if set := expect("a half", true, grapnel.Block, load.Valid); !set.Unsteady || len(set.Specs) != 3 {
		t.Errorf("a half: unsteady %v, %d hooks", set.Unsteady, len(set.Specs))
	}
	expect("a half for a command that shows policies", false, grapnel.None, load.Valid)
	write(broken, settling)
	expect("a half that is invalid", true, grapnel.Block, load.Valid)
	write(broken, settled)
	expect("broken after a half", true, grapnel.Block, load.Broken)
	write("", settling)
	expect("truncated", true, grapnel.Block, load.Valid)
	write(half, settled)
	expect("a settled change", true, grapnel.None, load.Valid)
	write(whole, 24*time.Hour)
	expect("a time in the future", true, grapnel.Block, load.Valid)
}
