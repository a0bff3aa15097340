//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package grapnel_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargePatches checks that the time for a patch grows linearly with its size. With quadratic
// growth, these patches would exceed the test timeout.
func TestLargePatches(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&many, "*** Add File: f%d\n+x\n", i)
	}
	for name, patch := range map[string]string{
		"many files": many.String(), "one line": "diff --git " + strings.Repeat(" b/", 1<<21), "many lines": strings.Repeat("--- a\n+++ b\n", 1<<19), "stars": strings.Repeat("*", 1<<23),
	} {
		if got := patched(patch); len(got) > len(patch) {
			t.Errorf("%s: %d bytes name %d files", name, len(patch), len(got))
		}
	}
}
