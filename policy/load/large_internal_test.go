//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/redact"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// TestRedactBounded: the work for redacting an input is limited. Inputs with too many secrets
// are refused, and the work for a deep input grows with its size. The test measures the work by
// the allocated memory.
func TestRedactBounded(t *testing.T) { // it measures the memory of the process
	many := &bytes.Buffer{}
	many.WriteString(`{"headers":[`)
	for i := range 20_000 {
		fmt.Fprintf(many, `{"auth":"secret%06d","x":"value%06d"},`, i, i)
	}
	many.WriteString(`{}]}`)
	deep := `{"a":` + strings.Repeat("[", 120) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("]", 120) + `}`
	for name, tt := range map[string]struct{ input, wantErr string }{
		"many secrets": {many.String(), "too many secrets to search for: 40000"}, "deep": {deep, ""},
	} {
		r := redact.New([]*policyfile.Redact{{Fields: []string{"/headers/*/auth"}, Patterns: []policyfile.Replacement{{Pattern: "sk-[a-z]{4,}", Literal: "sk-"}}}})
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: "x", Input: json.RawMessage(tt.input)}, Native: json.RawMessage(`{"tool_input":` + tt.input + `}`)}
		var err error
		bytes := allocated(func() {
			var shown *grapnel.Event
			if shown, err = r.Event(ev); err == nil {
				out := grapnel.Outcome{Set: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: shown.Tool.Input}}
				_ = r.Restore(context.Background(), ev, shown, &out)
			}
		})
		if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
			t.Errorf("%s: error %v, want %q", name, err, tt.wantErr)
		}
		if most := 100 * uint64(len(tt.input)); bytes > most {
			t.Errorf("%s: %d bytes need %d bytes of memory, want at most %d", name, len(tt.input), bytes, most)
		}
	}
	k := &redact.Keeping{}
	k.Add(&policyfile.Records{Replace: []policyfile.Replacement{{Pattern: "bob", With: "pop"}}}, grapnel.ScopeUser)
	var err error
	bytes := allocated(func() { _, err = k.Edit()([]byte(`{"tool":{"input":`+deep+`}}`), true) })
	if most := 20 * uint64(len(deep)); bytes > most || err != nil {
		t.Errorf("a record of %d bytes needs %d bytes of memory, want at most %d, %v", len(deep), bytes, most, err)
	}
}

// allocated returns the number of bytes that f allocates. No other goroutine may run.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
