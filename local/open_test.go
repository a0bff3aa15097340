package local

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// A program that is nested too deeply in other hooks fails, and the error is visible. Values that a
// project writes into the variable and that are no valid depth are ignored.
func TestNestedDepth(t *testing.T) {
	ev := &grapnel.Event{Kind: grapnel.ToolBefore}
	for depth, runs := range map[string]bool{"": true, "2": true, "3": false, "99": false, "-7": true, "much": true} {
		t.Setenv("GRAPNEL_DEPTH", depth)
		_, err := Runner(Place{})(policyfile.Command{Name: "x", Args: []string{os.Args[0], "-test.run=^$"}}).Handle(context.Background(), ev)
		if refused := err != nil && strings.Contains(err.Error(), "nested deeper"); refused == runs {
			t.Errorf("depth %q: %v, want it to run: %v", depth, err, runs)
		}
	}
}
