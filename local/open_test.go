package local

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Too deep inside of other hooks a program fails, and is seen to; what a project
// writes into the variable is no number of ours.
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
