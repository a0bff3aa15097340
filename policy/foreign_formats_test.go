package policy

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

var updateForeign = flag.Bool("update-foreign", false, "rewrite what stands under want in testdata/foreign")

// TestForeignFormats reads the files of each conversation as one entry of `load:` and
// compares what becomes of them.
//
// Of Flyto: types, fields, order, the default timeout, the plugin's directory, and that a
// webhook_url is not sent to (FL-01, FL-02, FL-06, FL-07, FL-12, FL-13, FL-15, FL-27). Of
// mini-claw: lines for the shell, patterns, the section of the settings (MC-17, MC-18,
// MC-23). Of OpenClaw: names of events in both spellings, entries with handler and
// priority, and that names and paths are looked at, in all five life cycles (OC-01,
// OC-02, OC-09, OC-10). Of Gemini CLI:
// the order of sources, what is left out, and sequential (GC-10, GC-11).
func TestForeignFormats(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the paths and the shells are those of Unix")
	}
	names, err := filepath.Glob("testdata/foreign/*/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no conversations: %v", err)
	}
	for _, name := range names {
		t.Run(filepath.ToSlash(strings.TrimPrefix(name, "testdata/foreign/")), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(data)
			f := formatNamed(t, filepath.Base(filepath.Dir(name)))
			var files []foreignFile
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
			found := f.parse(files)
			if im := found.asPolicy(files); im.Hooks > 0 {
				if _, errs := Parse("imported", im.Policy); len(errs) > 0 {
					t.Errorf("what is imported is no policy: %v\n%s", errs, im.Policy)
				}
			}
			got := foreignText(found)
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

func formatNamed(tb testing.TB, name string) *format {
	tb.Helper()
	i := slices.IndexFunc(formats(), func(f *format) bool { return f.name == name })
	if i < 0 {
		tb.Fatalf("there is no format %q", name)
	}
	return formats()[i]
}

// foreignFileOf puts a file where its name says: below /etc it is managed, and below
// /p of a project.
func foreignFileOf(name string, data []byte) foreignFile {
	f := foreignFile{path: name, name: filepath.Base(name), data: data, source: grapnel.Source{Name: name, File: name}}
	switch {
	case strings.HasPrefix(name, "/etc/"):
		f.source.Scope = grapnel.ScopeManaged
	case strings.HasPrefix(name, "/p/"):
		f.source.Scope = grapnel.ScopeProject
	}
	return f
}

// foreignText is what files hold, in words.
func foreignText(f foreign) string {
	var b strings.Builder
	for _, h := range f.hooks {
		if h.off {
			continue
		}
		fmt.Fprintf(&b, "hook %q: file %d line %d %s on %v", h.Name, h.file, h.Line, h.at, h.On)
		if h.Timeout > 0 {
			fmt.Fprintf(&b, " timeout %v", time.Duration(h.Timeout))
		}
		if h.OnError != "" {
			fmt.Fprintf(&b, " on_error %s", h.OnError)
		}
		if h.Priority != nil {
			fmt.Fprintf(&b, " priority %d", *h.Priority)
		}
		if h.sequential {
			b.WriteString(" sequential")
		}
		b.WriteByte('\n')
		if c := h.Run; c != nil {
			fmt.Fprintf(&b, "\trun %s:", c.Speaks)
			if c.Args != nil {
				fmt.Fprintf(&b, " %q", c.Args)
			} else {
				fmt.Fprintf(&b, " %s", c.Line)
			}
			if c.Async {
				b.WriteString(" (async)")
			}
			if c.Scope != grapnel.ScopeUser {
				fmt.Fprintf(&b, " (%v)", c.Scope)
			}
			if len(c.Vars) > 0 {
				fmt.Fprintf(&b, " %q", c.Vars)
			}
			b.WriteByte('\n')
		}
		if m := h.Match; m != nil {
			fmt.Fprintf(&b, "\tmatch tool %v\n", m.Tool)
		}
		if e, ok := h.match.(grapnel.Explainer); ok {
			if text := e.Explain(nil, nil); text != "" {
				fmt.Fprintf(&b, "\t%s\n", text)
			}
		}
		for _, lost := range h.lost {
			fmt.Fprintf(&b, "\tlost: %s\n", lost)
		}
	}
	for _, kind := range []struct {
		name string
		list []*policyfile.Error
	}{{"broken", f.broken}, {"error", f.errors}, {"note", f.notes}} {
		for _, err := range kind.list {
			fmt.Fprintf(&b, "%s %v\n", kind.name, err)
		}
	}
	return b.String()
}
