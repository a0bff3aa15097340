//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package layout_test

import (
	"testing"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	list := repository(t)
	if len(list) < 100 {
		t.Errorf("only %d files found", len(list))
	}
	for _, in := range list {
		laidOut(t, in)
	}
}
