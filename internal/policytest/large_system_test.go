//go:build system

// These tests start no program, but they take too long under the race detector, which the
// system tier does not use.

package policytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
)

// A recorded file grows to the size that its reader accepts, and every test in it is complete.
func TestRecorderIsFull(t *testing.T) {
	t.Parallel()
	r := newRecorder(t, nil, RecorderOptions{Home: "/home/ann", Elsewhere: true})
	long := strings.Repeat("x", 48_000)
	added := 0
	for i := range 200 {
		made := r.Add(t.Context(), kept(t, fmt.Sprintf(`{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"echo %d %s"}}`, i, long)), nil)
		if made.Full {
			if made.Test != "" {
				t.Fatalf("Add = %+v", made)
			}
			break
		}
		added++
	}
	text, err := r.Text()
	if err != nil || added < 50 || added == 200 || len(text) > yaml.MaxSize {
		t.Fatalf("%d tests, %d bytes: %v", added, len(text), err)
	}
	if file, errs := Parse(r.path, text); len(errs) > 0 || len(file.Tests) != added {
		t.Errorf("%d tests are read of %d: %v", len(file.Tests), added, errs)
	}
}
