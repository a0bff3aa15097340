//go:build system

package weight

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
	"github.com/grapnel-dev/grapnel/internal/fault"
)

// A release build contains no part of package fault, not even the name of a point.
func TestNotShipped(t *testing.T) {
	t.Parallel()
	if fault.On {
		t.Skip("a build with faults has them")
	}
	for variant, want := range map[programs.Variant]bool{programs.Plain: false, programs.Faults: true} {
		dir, remove, err := programs.Dir(variant)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(remove)
		out, err := exec.Command("go", "tool", "nm", filepath.Join(dir, "grapnel")).Output()
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(out), "internal/fault."); has != want {
			t.Errorf("the %s programs have package fault: %v", variant, has)
		}
	}
}
