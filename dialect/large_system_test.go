//go:build system

// These tests start no program, but they take too long with the race detector, which the system
// tier does not use.

package dialect_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A model that writes a million members does not delay its guards.
func TestWriteEventManyMembers(t *testing.T) {
	t.Parallel()
	var input strings.Builder
	input.WriteString(`{"command":"ls"`)
	for i := range 100_000 {
		fmt.Fprintf(&input, `,"m%d":%d`, i, i)
	}
	input.WriteString("}")
	ev := toolEvent(t, dialect.GeminiCLI(), "run_shell_command "+input.String())
	line, err := dialect.ClaudeCode().WriteEvent(ev)
	if err != nil || len(line) < input.Len() {
		t.Fatalf("WriteEvent: %d bytes, %v", len(line), err)
	}
	out, err := dialect.ClaudeCode().ReadOutcome(ev, answerWith(dialect.ClaudeCode(), strings.Replace(input.String(), `"ls"`, `"true"`, 1)))
	if want := map[grapnel.Field]json.RawMessage{grapnel.FieldCommand: json.RawMessage(`"true"`)}; err != nil || !cmp.Equal(out.Set, want) || out.Patch != nil {
		t.Errorf("ReadOutcome: %v, %v; want %v", out.Set, err, want)
	}
}

// Regression: a model must not disable a guard by writing a large file.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	head := `{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"a","content":"`
	payload := []byte(head + strings.Repeat("x", 33<<20) + `"}}`)
	reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), dialect.ClaudeCode(), dialect.Input{Payload: payload})
	if e := claudeHeeds("PreToolUse", reply); !e.Blocked || !strings.Contains(e.Reason, "more than 33554432") {
		t.Errorf("33 MiB: reply %s, want a block that says why; the agent does %+v", reply.Stdout, e)
	}

	fits := append(payload[:dialect.MaxPayload-3:dialect.MaxPayload-3], `"}}`...)
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: fits})
	if err != nil || len(ev.Tool.Content) != dialect.MaxPayload-3-len(head) {
		t.Errorf("exactly MaxPayload: %v", err)
	}
}

// Every event of an agent can be written in the plain dialect, and is the same when it is read
// back.
func TestPlainCarriesEveryEvent(t *testing.T) {
	t.Parallel()
	schema := loadSchema(t)
	for file, ev := range goldenEvents(t) {
		line, err := dialect.Plain().WriteEvent(ev)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if n := strings.Count(string(line), "\n"); n != 1 || !strings.HasSuffix(string(line), "\n") {
			t.Errorf("%s: an event takes %d lines, want one", file, n)
		}
		schema.check(t, "event", line)
		got, err := dialect.Plain().Read(dialect.Input{Payload: line})
		if err != nil {
			t.Fatalf("%s: Read(%s): %v", file, line, err)
		}
		got.Terms.Budget = ev.Terms.Budget // each reader has its own budget
		if diff := cmp.Diff(ev, got); diff != "" {
			t.Errorf("%s: an event changes on its way through the plain language (-sent +got):\n%s", file, diff)
		}
	}
}
