//go:build system && unix

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package docs

import (
	"fmt"
	"strings"
	"testing"
)

// Each page below docs/systems ends with the promises of the system, and the reasons why some do not
// work. The test fails for a promise without a test, for a test of an unknown promise, for a test of a
// promise that no program can see, and for a system of which too few promises work.
func TestPromises(t *testing.T) {
	t.Parallel()
	tests := provingTests(t)
	known := map[string]bool{}
	for _, s := range readPromises(t) {
		count := map[string]int{}
		var lines strings.Builder
		for _, p := range s.promises {
			known[p.id] = true
			count[p.status]++
			by := tests[p.id]
			switch {
			case len(by) == 0 && p.status != notVisible:
				t.Errorf("%s (%s): no test proves this promise", p.id, p.what)
			case len(by) > 0 && p.status == notVisible:
				t.Errorf("%s is not visible, and %s proves it", p.id, by[0])
			}
			what := p.what
			if p.reason != "" {
				what += " **" + p.status + "**: " + p.reason
			}
			fmt.Fprintf(&lines, "- %s: %s\n", p.id, what)
		}
		all := len(s.promises)
		if share := 100 * count[works] / all; share < minWorks {
			t.Errorf("%s: %d of %d promises work (%d %%), want %d %%: make more of them work instead of writing that they differ", s.name, count[works], all, share, minWorks)
		}
		sum := fmt.Sprintf("Grapnel keeps %d of %d.\n\n", count[works], all)
		checkParts(t, "systems/"+s.name+".md", map[string]string{"promises": sum + lines.String()})
	}
	for id, by := range tests {
		if !known[id] {
			t.Errorf("%s proves %s, which is in no promises.txt", by[0], id)
		}
	}
}

// minWorks is the minimum share of the promises of each system that must work, in percent.
const minWorks = 90
