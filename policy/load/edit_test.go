package load_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
	"github.com/grapnel-dev/grapnel/policy/load"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// If a script is replaced between the check and its start, the script runs but its answer is
// ignored, even if the original is restored by then.
func TestPinnedFilesAreSwapped(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for name, test := range map[string]struct {
		swap  func(dir string)
		want  grapnel.Decision
		linux bool // needs the kernel's time of the change
	}{
		"nothing":                  {func(string) {}, grapnel.None, false},
		"read":                     {func(dir string) { _, err := os.ReadFile(dir + "/check.sh"); must(err) }, grapnel.None, false},
		"beside it":                {func(dir string) { must(os.WriteFile(dir+"/other.sh", nil, 0o600)) }, grapnel.None, false},
		"rewritten":                {func(dir string) { must(os.WriteFile(dir+"/check.sh", []byte("exit 0 "), 0o600)) }, grapnel.Block, false},
		"removed":                  {func(dir string) { must(os.Remove(dir + "/check.sh")) }, grapnel.Block, false},
		"another":                  {func(dir string) { must(os.Rename(dir+"/evil.sh", dir+"/check.sh")) }, grapnel.Block, false},
		"one that is to be absent": {func(dir string) { must(os.WriteFile(dir+"/absent.sh", nil, 0o600)) }, grapnel.Block, false},
		"a link": {func(dir string) {
			must(os.Rename(dir+"/check.sh", dir+"/away.sh"))
			must(os.Symlink(dir+"/evil.sh", dir+"/check.sh"))
		}, grapnel.Block, false},
		"swapped and back": {func(dir string) {
			must(os.Rename(dir+"/check.sh", dir+"/away.sh"))
			must(os.Rename(dir+"/evil.sh", dir+"/check.sh"))
			must(os.Rename(dir+"/check.sh", dir+"/evil.sh"))
			must(os.Rename(dir+"/away.sh", dir+"/check.sh"))
		}, grapnel.Block, true},
		"rewritten and back": {func(dir string) {
			info, err := os.Stat(dir + "/check.sh")
			must(err)
			must(os.WriteFile(dir+"/check.sh", []byte("exit 0 "), 0o600))
			must(os.WriteFile(dir+"/check.sh", []byte("exit 2\n"), 0o600))
			must(os.Chtimes(dir+"/check.sh", info.ModTime(), info.ModTime()))
		}, grapnel.Block, true},
	} {
		if test.linux && runtime.GOOS != "linux" {
			continue // see docs/project-policies.md
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, "version: 1\nhooks: [{name: x, on: tool.before, on_error: open, run: 'sh check.sh absent.sh'}]\n")
			p.put("check.sh", "exit 2\n")
			p.put("evil.sh", "exit 0\n")
			p.trust()
			time.Sleep(20 * time.Millisecond) // longer than a step of the kernel's clock
			set := load.Policies(load.Request{
				Files: []load.File{{Path: p.file, Scope: grapnel.ScopeProject, Trust: true}}, Snapshots: p.snapshots(), Trusts: p.trusts(),
				Runners: policy.Runners{Command: func(policyfile.Command) grapnel.Hook {
					return grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
						test.swap(p.dir)
						return grapnel.Outcome{Message: "it ran"}, nil
					})
				}},
			})
			engine, err := grapnel.New(set.Specs, nil)
			if err != nil {
				t.Fatal(err)
			}
			v := engine.Fire(t.Context(), fixture.Shell("ls"))
			if v.Decision != test.want {
				t.Errorf("%v, want %v", v.Decision, test.want)
			}
			if test.want == grapnel.Block && !strings.Contains(v.Reason(), "was changed while it ran") {
				t.Errorf("the reason is %q", v.Reason())
			}
			if _, err := os.Stat(filepath.Join(p.dir, "check.sh")); err != nil && name != "removed" {
				t.Error(err)
			}
		})
	}
}
