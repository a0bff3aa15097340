//go:build system

package fault

import (
	"os/exec"
	"strings"
	"testing"
)

// A release build contains no part of this package, not even the name of a point.
func TestNotShipped(t *testing.T) {
	t.Parallel()
	if On {
		t.Skip("a build with faults has them")
	}
	for _, tags := range []string{"", "faults"} {
		exe := t.TempDir() + "/grapnel"
		cmd := exec.Command("go", "build", "-tags", tags, "-o", exe, "github.com/grapnel-dev/grapnel/cmd/grapnel")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.Command("go", "tool", "nm", exe).Output()
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(out), "cmd/internal/fault."); has != (tags != "") {
			t.Errorf("built with the tags %q, the program has package fault: %v", tags, has)
		}
	}
}
