//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package install

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// FuzzPlan tries arbitrary bytes: either they are rejected, or the installation can be removed.
func FuzzPlan(f *testing.F) {
	for _, tt := range oddFiles {
		f.Add([]byte(tt.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, a := range append(documents()[:2], ownRows...) {
			if a.isText("settings.json") {
				continue
			}
			w := wanted(t, a.Name)
			w.Events, _, _ = a.choose(nil, newest)
			w.Current = data
			c, err := Plan(w)
			if fe, ok := errors.AsType[*FileError](err); ok {
				if strings.Contains(fe.Hint, "bug in Grapnel") {
					t.Fatalf("Plan(%q): %v", data, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("Plan(%q): %v", data, err)
			}
			if d, err := parse(a, "settings.json", data); err != nil {
				continue
			} else if sections, err := d.sections(); err != nil || len(ours(sections)) > 0 {
				continue // installed already, so a comparison is impossible
			}
			back, err := PlanRemove(a, "settings.json", c.After, &c.Made)
			if err != nil || !bytes.Equal(back.After, data) {
				t.Fatalf("%q came back as %q, %v, by way of %q", data, back.After, err, c.After)
			}
		}
	})
}

// The promise of the package: installing and uninstalling restores any file byte for byte;
// installing twice is the same as once; and another installation in between leaves no trace.
func TestRoundTripProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWriter(t)
		original := []byte(w.document())
		first, second := drawWanted(w, "first"), drawWanted(w, "second")

		first.Current = original
		one := mustPlan(t, first)
		onlyAdds(t, original, one.After)

		again := first
		again.Current, again.Made = one.After, &one.Made
		if c := mustPlan(t, again); c.Changed() || c.Diff != "" {
			t.Fatalf("installing twice changes\n%s", c.Diff)
		} else if diff := cmp.Diff(one.Made, c.Made); diff != "" {
			t.Fatalf("installing twice changes the memory (-first +second):\n%s", diff)
		}

		second.Current, second.Made = one.After, &one.Made
		two := mustPlan(t, second)
		for _, c := range []*Change{one, two} {
			back, err := PlanRemove(w.agent, "settings.json", c.After, &c.Made)
			if err != nil {
				t.Fatalf("PlanRemove(%q): %v", c.After, err)
			}
			if !bytes.Equal(back.After, original) {
				t.Fatalf("installed and uninstalled\n%q became\n%q by way of\n%q", original, back.After, c.After)
			}
			// Without Made, the bytes of empty lists may differ and empty parts may be removed,
			// but nothing else changes.
			bare, err := PlanRemove(w.agent, "settings.json", c.After, nil)
			if err != nil {
				t.Fatalf("PlanRemove(%q) without memory: %v", c.After, err)
			}
			if got, want := w.meaning(t, bare.After), w.meaning(t, original); got != want {
				t.Fatalf("without memory\n%s became\n%s", want, got)
			}
		}
	})
}

// A user edits the file while Grapnel is installed in it. Uninstallation gives the same file as
// the edit without Grapnel.
func TestEditedBetweenProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWriter(t)
		original := []byte(w.document())
		wanted := drawWanted(w, "wanted")
		wanted.Current = original
		c := mustPlan(t, wanted)
		installed := c.After
		for n := range rapid.IntRange(1, 3).Draw(t, "edits") {
			paths := itemPaths(t, w.agent, original)
			if len(paths) == 0 {
				t.SkipNow() // an empty object cannot be edited
			}
			path := rapid.SampledFrom(paths).Draw(t, "where")
			edit := w.edit(path, n)
			original, installed = edit(t, w.agent, original), edit(t, w.agent, installed)
		}
		back, err := PlanRemove(w.agent, "settings.json", installed, &c.Made)
		if err != nil {
			t.Fatalf("PlanRemove(%q): %v", installed, err)
		}
		if !bytes.Equal(back.After, original) {
			t.Fatalf("uninstalled\n%q\ngot  %q\nwant %q", installed, back.After, original)
		}
	})
}

// The time to edit a file of one long line is proportional to its length. It was quadratic once:
// then this file would take longer than the timeout of the tests.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	w := wanted(t, "claude-code", "PreToolUse")
	w.Current = []byte("{" + strings.TrimSuffix(b.String(), ",") + "}")
	c, err := Plan(w)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(c.After), `"k39999":39999`) {
		t.Error("the last member is lost")
	}
}
