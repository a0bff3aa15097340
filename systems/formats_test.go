package systems_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	"github.com/grapnel-dev/grapnel/systems/internal/systemtest"
)

var updateForeign = flag.Bool("update-foreign", false, "rewrite what stands under want in testdata/foreign")

// TestForeignFormats parses the files of each conversation as one entry of `load:` and compares
// the result.
//
// Flyto: types, fields, order, the default timeout, the plugin's directory, and that a
// webhook_url gets no request. mini-claw: shell lines, patterns, the section of the settings.
// OpenClaw: event names in both spellings, entries with handler and priority, and checks of
// names and paths, in all five life cycles. Gemini CLI: the order of sources, skipped entries,
// and sequential.
//
// Proves: MC-17, MC-18, MC-23, MC-25, OC-01, OC-09, GC-10, GC-11
// Proves: FL-01, FL-02, FL-06, FL-07, FL-12, FL-13, FL-15
func TestForeignFormats(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the paths and the shells are those of Unix")
	}
	names, err := filepath.Glob("*/hookfile/testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no conversations: %v", err)
	}
	for _, name := range names {
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(data)
			f := formatOf(strings.Split(filepath.ToSlash(name), "/")[0])
			var files []hookfiles.File
			var want *txtar.File
			for i := range archive.Files {
				file := &archive.Files[i]
				if file.Name == "want" {
					want = file
					continue
				}
				files = append(files, foreignFileOf(file.Name, file.Data))
			}
			if want == nil {
				archive.Files = append(archive.Files, txtar.File{Name: "want"})
				want = &archive.Files[len(archive.Files)-1]
			}
			found := f.Parse(files, false)
			if im := f.AsPolicy(files, policy.Parse); im.Hooks > 0 {
				if _, errs := policy.Parse("imported", im.Policy); len(errs) > 0 {
					t.Errorf("what is imported is no policy: %v\n%s", errs, im.Policy)
				}
			}
			sameBriefly(t, f, files, found)
			got := systemtest.Text(found)
			if *updateForeign {
				want.Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// foreignFileOf returns a file with the scope of its path: managed below /etc, project below
// /p.
func foreignFileOf(name string, data []byte) hookfiles.File {
	f := hookfiles.File{Path: name, Name: filepath.Base(name), Data: data, Source: grapnel.Source{Name: name, File: name}}
	switch {
	case strings.HasPrefix(name, "/etc/"):
		f.Source.Scope = grapnel.ScopeManaged
	case strings.HasPrefix(name, "/p/"):
		f.Source.Scope = grapnel.ScopeProject
	}
	return f
}

// sameBriefly checks that a brief result has the same hooks and errors.
func sameBriefly(t *testing.T, f *hookfiles.Format, files []hookfiles.File, whole hookfiles.Found) {
	t.Helper()
	brief := f.Parse(files, true)
	for i := range brief.Hooks {
		if h := &brief.Hooks[i]; h.Complete != nil {
			h.Complete(h)
		}
	}
	whole.Notes, brief.Notes = nil, nil
	if diff := cmp.Diff(systemtest.Text(whole), systemtest.Text(brief)); diff != "" {
		t.Errorf("a brief result differs (-whole +brief):\n%s", diff)
	}
}

// formatOf returns the format of a directory below this one.
func formatOf(dir string) *hookfiles.Format {
	switch dir {
	case "claude":
		dir = "claude-code"
	case "gemini":
		dir = "gemini-cli"
	}
	return systems.Find(dir)
}
