package state_test

import (
	"bytes"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/state"
)

// FuzzReadMarks: written marks can be read back unchanged, and with any stored bytes the guard
// still decides.
func FuzzReadMarks(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("1\ttool.after\tab\t\t1\tcd ef\n"))
	f.Add(bytes.Repeat([]byte("1\ttool.after\tab\t\t1\t\n"), state.MaxMarks+1))
	f.Add([]byte("-1\t\t\t\t0\t\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		marks, err := state.ReadMarks(data, 3)
		if err != nil {
			return
		}
		again, err := state.ReadMarks(state.WriteMarks(marks), 3)
		if err != nil || len(again) != len(marks) {
			t.Fatalf("state.ReadMarks(%q) = %+v, and once more %+v, %v", data, marks, again, err)
		}
		// With any stored bytes, the guard answers and writes marks that can be read.
		m := stored{}
		l := newAfter(t, `  - {name: x, on: tool.before, after: [{event: tool.after}, {event: tool.after, same: call}, {event: tool.after, within: 1m}], block: no}`+"\n", m)
		specs := l.Specs("")
		past, _ := specs[0].Match.(*state.After)
		first := did(grapnel.ToolAfter, "a", "1")
		key := past.Stored(first)
		m[key] = data
		l.fire(did(grapnel.ToolAfter, "a", "1"))
		l.fire(did(grapnel.ToolBefore, "a", "2"))
		if _, err := state.ReadMarks(m[key], 3); err != nil {
			t.Fatalf("of %q comes %q: %v", data, m[key], err)
		}
	})
}
