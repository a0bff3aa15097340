//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package state_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
)

// TestMarksAreBounded: the number and the size of marks are limited, and one step cannot evict
// the marks of another.
func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	m := stored{}
	l := newAfter(t, `  - {name: x, on: tool.before, match: {command: z}, after: [{event: tool.after, match: {command: a}}, {event: tool.after, match: {command: b}, same: path}], block: no}`+"\n", m)
	l.fire(did(grapnel.ToolAfter, "a", "a"))
	for i := range 3 * state.MaxMarks {
		line := "b"
		for j := range state.MaxShared {
			line += fmt.Sprintf(" > f%d.%d", i, j)
		}
		l.fire(did(grapnel.ToolAfter, line, fmt.Sprint(i)))
	}
	for _, r := range m {
		if lines := bytes.Count(r, []byte("\n")); lines > state.MaxMarks || len(r) > 64<<10 {
			t.Errorf("%d marks of %d bytes are kept", lines, len(r))
		}
	}
	if v := l.fire(did(grapnel.ToolBefore, "z > f383.0", "z")); v.Decision != grapnel.Block {
		t.Errorf("what happened first was pushed out: %v", v.Decision)
	}
}
