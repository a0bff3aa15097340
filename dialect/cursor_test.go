package dialect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/rapid"
)

// For any payload of Cursor and any answer of hooks, Cursor gets one JSON object with exit code
// 0 and members of the expected types. Anything else would deny or be a failure.
func TestCursorAlwaysAnObject(t *testing.T) {
	t.Parallel()
	var inputs []dialect.Input
	for _, r := range recordings(t, dialect.Cursor()) {
		inputs = append(inputs, r.in)
	}
	inputs = append(inputs,
		dialect.Input{}, dialect.Input{Payload: []byte("{")}, dialect.Input{Payload: []byte("[]")}, dialect.Input{Err: errors.New("broken pipe")},
		dialect.Input{Payload: []byte(`{"hook_event_name":"beforeShellExecution","command":7,"cursor_version":"1"}`)},
		dialect.Input{Payload: []byte(`{"hook_event_name":"afterEverything","cursor_version":"1"}`)},
	)
	texts := []string{"permission", "user_message", "agent_message", "additional_context", "followup_message"}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SampledFrom(inputs).Draw(t, "input")
		out := grapnel.Outcome{
			Decision: rapid.SampledFrom([]grapnel.Decision{grapnel.None, grapnel.Allow, grapnel.Ask, grapnel.Block}).Draw(t, "decision"),
			Reason:   rapid.String().Draw(t, "reason"),
			Halt:     rapid.SampledFrom([]string{"", "enough"}).Draw(t, "halt"),
			Message:  rapid.String().Draw(t, "message"),
			Context:  rapid.SliceOf(rapid.String()).Draw(t, "context"),
		}
		hook := grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) { return out, nil })
		engine, err := grapnel.New([]grapnel.Spec{{Name: "hook", OnError: grapnel.OnErrorClosed, Hook: hook}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		reply := dialect.Answer(t.Context(), engine, dialect.Cursor(), in)
		var answer map[string]any
		if err := json.Unmarshal(reply.Stdout, &answer); err != nil || answer == nil || reply.Exit != 0 || bytes.Count(reply.Stdout, []byte("\n")) != 1 {
			t.Fatalf("%q is answered with %q, exit %d", in.Payload, reply.Stdout, reply.Exit)
		}
		for _, name := range texts {
			if value, ok := answer[name]; ok {
				if text, isText := value.(string); !isText || text == "" {
					t.Fatalf("%s is %v", name, value)
				}
			}
		}
		if p, ok := answer["permission"]; ok && p != "deny" && p != "ask" {
			t.Fatalf("permission is %v", p)
		}
		native := ""
		if got := dialect.Receive(dialect.Cursor(), in); got.Row() != nil {
			native = got.Row().Native
		}
		if answer["permission"] == "ask" && native != "beforeShellExecution" {
			t.Fatalf("%s asks, which nobody hears", native)
		}
	})
}

// Context stays well below the size that Cursor drops, is cut between characters, and has a
// mark where it was cut.
func TestCursorContextIsCut(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t, dialect.Cursor()) {
		if !r.row.Permits().Context {
			continue
		}
		long := strings.Repeat("é", 9000)
		out := grapnel.Outcome{Context: []string{long}}
		reply := dialect.Answer(t.Context(), engineOf(t, out), dialect.Cursor(), r.in)
		var answer struct {
			More string `json:"additional_context"`
		}
		if err := json.Unmarshal(reply.Stdout, &answer); err != nil {
			t.Fatal(err)
		}
		if n := utf8.RuneCountInString(answer.More); n != 5000 || !strings.HasSuffix(answer.More, "the rest was cut]") || strings.ContainsRune(answer.More, utf8.RuneError) {
			t.Errorf("%s: %d characters of context, which end in %q", r.name, n, answer.More[max(0, len(answer.More)-40):])
		}
	}
}

// Only the members of a tool's input that Cursor applies can be changed. A rewrite that Cursor
// would drop is a deny.
func TestCursorTakes(t *testing.T) {
	t.Parallel()
	for tool, takes := range map[string][]string{
		"Shell": {"command", "cwd", "timeout"}, "Write": {"file_path"}, "Read": {"file_path"}, "Delete": {"file_path"}, "List": {"file_path"},
		"ReadLints": {"file_path"}, "Grep": {"pattern", "file_path"}, "Fetch": {"url"}, "WriteShellStdin": nil, "ComputerUse": nil, "RecordScreen": nil,
		"MCP:greet": {"command", "cwd", "timeout", "file_path", "pattern", "url", "content"},
	} {
		for _, member := range []string{"command", "cwd", "timeout", "file_path", "pattern", "url", "content"} {
			payload := `{"hook_event_name":"preToolUse","cursor_version":"3","conversation_id":"c","tool_name":"` + tool + `","tool_input":{"` + member + `":"old"}}`
			out := grapnel.Outcome{Patch: map[grapnel.Field]json.RawMessage{grapnel.FieldInput: json.RawMessage(`{"` + member + `":"new"}`)}}
			reply := string(dialect.Answer(t.Context(), engineOf(t, out), dialect.Cursor(), dialect.Input{Payload: []byte(payload)}).Stdout)
			if slices.Contains(takes, member) != strings.Contains(reply, `"updated_input":{"`+member+`":"new"}`) || slices.Contains(takes, member) == strings.Contains(reply, `"deny"`) {
				t.Errorf("a new %s of %s is told as %s", member, tool, reply)
			}
		}
	}
}

// Cursor also runs the hooks of Claude Code but ignores answers in that format. For a command
// in any file, Grapnel detects Cursor and answers in its format.
func TestCursorInClaudesFile(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t, dialect.Cursor()) {
		if got := dialect.Detect(r.in.Payload); named(got) != "cursor" {
			t.Errorf("%s is taken for one of %v", r.name, got)
		}
		reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorOpen), dialect.Cursor(), r.in)
		if bytes.Contains(reply.Stdout, []byte("hookSpecificOutput")) {
			t.Errorf("%s is told %s", r.name, reply.Stdout)
		}
	}
}

// A payload that is too long or truncated is still recognized as Cursor's: the name of the
// event and the version come before a tool's input.
func TestCursorCutOff(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t, dialect.Cursor()) {
		ids := bytes.Index(r.in.Payload, []byte(`"model"`))
		if ids < 0 || !bytes.Contains(r.in.Payload[:ids], []byte("generation_id")) {
			continue // an event that is not part of a turn
		}
		for end := ids; end < len(r.in.Payload); end++ {
			in := dialect.Input{Payload: r.in.Payload[:end]}
			if got := dialect.Detect(in.Payload); named(got) != "cursor" {
				t.Fatalf("%s is taken for one of %v", in.Payload, got)
			}
		}
		reply := dialect.Answer(t.Context(), guard(t, grapnel.OnErrorClosed), dialect.Cursor(), dialect.Input{Payload: r.in.Payload[:ids]})
		if !bytes.Contains(reply.Stdout, []byte(`"permission":"deny","continue":false,`)) {
			t.Errorf("%s, cut off, is told %s", r.name, reply.Stdout)
		}
	}
}

// A loop that a block of Grapnel started is recognized.
func TestCursorLoops(t *testing.T) {
	t.Parallel()
	for count, active := range map[string]bool{"0": false, "1": true, "null": false, `"x"`: false} {
		ev, err := dialect.Cursor().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"stop","cursor_version":"3","status":"completed","loop_count":` + count + `}`)})
		if err != nil || ev.Stop == nil || ev.Stop.Active != active {
			t.Errorf("loop_count %s is %+v, %v", count, ev.Stop, err)
		}
	}
}
