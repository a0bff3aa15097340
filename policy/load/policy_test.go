package load_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
)

func loadFile(t *testing.T, file, snaps string, must bool) (load.Set, *grapnel.Engine) {
	t.Helper()
	set := load.Policies(load.Request{Files: []load.File{{Path: file, Must: must}}, Snapshots: snaps, Runners: policy.Runners{Command: fixture.NoCommand}})
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set, e
}

const blockAll = "version: 1\nhooks:\n  - {name: a, on: tool.before, match: {command: touch}, block: no touching}\n"

func TestLoadKeepsTheLastValidContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, state load.State, line string, want grapnel.Decision, notice string) {
		t.Helper()
		set, e := loadFile(t, file, snaps, false)
		if got := set.Files[0].State; got != state {
			t.Errorf("%s: state %s, want %s", step, got, state)
		}
		if v := e.Fire(context.Background(), fixture.Shell(line)); v.Decision != want {
			t.Errorf("%s: %q is %v, want %v: %s", step, line, v.Decision, want, v.Reason())
		}
		v := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.PromptBefore, Prompt: &grapnel.Prompt{}})
		if got := strings.Join(v.Messages, "\n"); notice == "" && got != "" || !strings.Contains(got, notice) {
			t.Errorf("%s: the person is told %q, want %q", step, got, notice)
		}
		if v.Decision != grapnel.None {
			t.Errorf("%s: the prompt is %v: prompts are never locked", step, v.Decision)
		}
	}
	check("no file", load.Absent, "touch x", grapnel.None, "")
	put("version: 1\nhooks:\n  - {name: a, on: tool.before, blok: x}\n")
	check("broken from the start", load.Broken, "ls", grapnel.Block, "p.yaml:3:32: unknown key")
	put(blockAll)
	check("valid", load.Valid, "touch x", grapnel.Block, "")
	check("valid again, from the snapshot", load.Valid, "touch x", grapnel.Block, "")
	check("valid lets others pass", load.Valid, "ls", grapnel.None, "")
	put(blockAll + "  - oops\n")
	check("broken now", load.Broken, "touch x", grapnel.Block, "last valid content stays active")
	check("broken now lets others pass", load.Broken, "ls", grapnel.None, "p.yaml:4:")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone", load.Gone, "touch x", grapnel.Block, "grapnel untrust")
	if forgot, err := load.Forget(snaps, file); !forgot || err != nil {
		t.Fatalf("Forget = %v, %v", forgot, err)
	}
	check("forgotten", load.Absent, "touch x", grapnel.None, "")
}

func TestLoadOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, file := range map[string]string{"a directory": dir, "named and absent": filepath.Join(dir, "none.yaml")} {
		set, e := loadFile(t, file, "", true)
		if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.Block || set.Files[0].Errors == nil {
			t.Errorf("%s: %v, want a block: nobody knows what it forbids", name, v.Decision)
		}
	}
}

func TestLoadWithoutAPlaceForSnapshots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, blocker := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "file")
	for name, text := range map[string]string{file: blockAll, blocker: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, e := loadFile(t, file, filepath.Join(blocker, "state"), false) // below a file, so it cannot be created
	if v := e.Fire(context.Background(), fixture.Shell("touch x")); v.Decision != grapnel.Block {
		t.Errorf("%v, want block", v.Decision)
	}
}

func TestSnapshotsArePruned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, snaps := filepath.Join(dir, "p.yaml"), filepath.Join(dir, "state")
	for i := range 40 {
		if err := os.WriteFile(file, []byte(blockAll+strings.Repeat("# more\n", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		loadFile(t, file, snaps, false)
	}
	if kept, _ := filepath.Glob(filepath.Join(snaps, "*.snap")); len(kept) > 32 {
		t.Errorf("%d snapshots are kept, want at most 32", len(kept))
	}
}
