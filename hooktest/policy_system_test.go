//go:build system

package hooktest_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/grapnel-dev/grapnel/hooktest"
)

// Programs of a policy really run, in the directory of the event.
func TestPolicyRunsPrograms(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the line is for a POSIX shell")
	}
	engine := hooktest.PolicyText(t, `
version: 1
hooks:
  - {name: stop, on: tool.before, run: 'echo "$GRAPNEL_COMMAND is watched in $PWD" >&2; exit 2'}
`, nil)
	ev := hooktest.Shell("make")
	ev.Session.CWD = t.TempDir()
	real, err := filepath.EvalSymlinks(ev.Session.CWD)
	if err != nil {
		t.Fatal(err)
	}
	if f := hooktest.Blocks(t, ev, engine); f.Reason() != "make is watched in "+real {
		t.Errorf("got %q\n%v", f.Reason(), f)
	}
}
