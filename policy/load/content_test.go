package load_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// contents loads the given text instead of the file's content, with a clock.
func contents(t *testing.T, text string, now func() time.Time) load.Set {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "grapnel.yaml")
	if err := os.WriteFile(name, []byte("version: 1\nhooks: [{name: on-disk, on: tool.before, block: on disk}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := load.Policies(load.Request{
		Files: []load.File{{Path: name}}, Snapshots: filepath.Join(dir, "snapshots"),
		Content: map[string][]byte{name: []byte(text)}, Now: now,
	})
	if left, err := os.ReadDir(filepath.Join(dir, "snapshots")); err == nil {
		t.Errorf("snapshots of what no file says: %v", left)
	}
	return set
}

func TestContentInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	set := contents(t, "version: 1\nhooks: [{name: given, on: tool.before, ask: given}]\n", nil)
	if len(set.Specs) != 1 || set.Specs[0].Name != "given" || set.Files[0].State != load.Valid {
		t.Errorf("loaded %+v, files %+v, want the hook that was given", set.Specs, set.Files)
	}
	if set = contents(t, "version: 1\nhooks: [{name: given}]\n", nil); set.Files[0].State != load.Broken {
		t.Errorf("a broken content is %s", set.Files[0].State)
	}
}

func TestClockOfARequest(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set := contents(t, "version: 1\nhooks:\n  - {name: once, on: tool.before, limit: {count: 1, per: 1m}}\n  - {name: later, on: tool.before, after: {event: prompt.before, within: 1h}, ask: later}\n", func() time.Time { return now })
	engine, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	fire := func(kind grapnel.Kind) grapnel.Decision {
		return engine.Fire(t.Context(), &grapnel.Event{Kind: kind, Session: grapnel.Session{ID: "s"}, Tool: &grapnel.Tool{Name: "x"}, Prompt: &grapnel.Prompt{}}).Decision
	}
	fire(grapnel.PromptBefore)
	steps := []struct {
		wait time.Duration
		want grapnel.Decision
	}{{0, grapnel.Ask}, {time.Second, grapnel.Block}, {time.Minute, grapnel.Ask}, {time.Hour, grapnel.None}}
	for i, step := range steps {
		now = now.Add(step.wait)
		if got := fire(grapnel.ToolBefore); got != step.want {
			t.Errorf("step %d, %v later: %v, want %v", i, step.wait, got, step.want)
		}
	}
}

func TestAcrossSessions(t *testing.T) {
	t.Parallel()
	for hook, want := range map[string]bool{
		"block: no": false,
		"limit: {count: 1, per: 1m, by: session}":                                         false,
		"limit: {count: 1, per: 1m, by: [tool, session]}":                                 false,
		"limit: {count: 1, per: 1m}":                                                      true,
		"limit: {count: 1, per: 1m, by: user}":                                            true,
		"after: {event: tool.after}, block: no":                                           false,
		"after: [{event: tool.after, by: agent}, {event: tool.after, by: agent}], ask: x": true,
	} {
		set := contents(t, "version: 1\nhooks: [{name: x, on: tool.before, "+hook+"}]\n", nil)
		if set.Files[0].State != load.Valid {
			t.Fatalf("%s: %v", hook, set.Files[0].Errors)
		}
		if got := state.AcrossSessions(set.Specs); got != want {
			t.Errorf("%s: %v, want %v", hook, got, want)
		}
	}
}
