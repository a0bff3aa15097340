//go:build system

package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// A Set for one event gives the same verdict and the same Record as the whole Set, for any
// policies and any event, also if a hook changes the event.
func TestSetForOneEventLaw(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	packs, errs := load.ReadPacks(os.DirFS("../../packs"))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n := 0
	left := 0 // number of skipped hooks
	rapid.Check(t, func(t *rapid.T) {
		n++
		text := anyPolicyToAsk(t) + manyOthers()
		if rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
			text += fmt.Sprintf("  - {name: changes, on: tool.before, match: {tool: shell}, set: {tool.command: %q}}\n", rapid.SampledFrom(whyCommands).Draw(t, "other"))
		}
		text += "  - {name: notes, on: tool.before, match: {tool: [write, shell]}, mode: observe, block: no}\n"
		text += "  - {name: limits, on: tool.before, match: {command: git}, limit: {count: 3, per: 1m}}\n"
		if rapid.Bool().Draw(t, "packs") {
			text = strings.Replace(text, "hooks:", "use: ["+strings.Join(packs.Names(), ", ")+"]\nhooks:", 1)
		}
		file, snaps := filepath.Join(dir, fmt.Sprint(n)), filepath.Join(dir, "state", fmt.Sprint(n))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		req := load.Request{Files: []load.File{{Path: file, Scope: grapnel.ScopeUser}}, Packs: packs, Snapshots: snaps}
		load.Policies(req) // creates the snapshot
		ev := anyEvent(t)
		switch rapid.IntRange(0, 30).Draw(t, "size") {
		case 0:
			if ev.Tool != nil {
				ev.Tool.Commands = []string{strings.Repeat("x", 2<<20)}
			}
		case 1:
			if ev.Tool != nil {
				for i := range 20_000 {
					ev.Tool.Paths = append(ev.Tool.Paths, grapnel.Path{Path: fmt.Sprint("/p/", i)})
				}
			}
		}
		whole := load.Policies(req)
		req.Event = ev
		one := load.Policies(req)
		if whole.Files[0].Hooks != one.Files[0].Hooks || whole.Files[0].State != load.Valid {
			t.Fatalf("%s: the files are %+v and %+v", text, whole.Files, one.Files)
		}
		left += len(whole.Specs) - len(one.Specs)
		want, got := recordOf(t, whole.Specs, ev), recordOf(t, one.Specs, ev)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n(-all hooks +those of the event):\n%s", text, diff)
		}
	})
	if left == 0 {
		t.Error("no hook was ever left out")
	}
}

// recordOf fires an event, and returns its Record without times.
func recordOf(t *rapid.T, specs []grapnel.Spec, ev *grapnel.Event) string {
	var recorded grapnel.Record
	e, err := grapnel.New(specs, &grapnel.Options{Observers: []grapnel.Observer{
		grapnel.ObserverFunc(func(_ context.Context, rec *grapnel.Record) { recorded = *rec }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	own := *ev
	own.ID = "01a206db21337edc519a035ca3d6"
	v := e.Fire(context.Background(), &own)
	if err := e.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	recorded.ID, recorded.Time, recorded.MS = "", ev.Time, 0
	for i := range recorded.Hooks {
		recorded.Hooks[i].MS = 0
	}
	text, err := json.MarshalIndent([]any{recorded, v}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
