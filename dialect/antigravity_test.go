package dialect_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// Every reply is an explicit answer with exit code 0, even if Grapnel cannot read the event: an
// empty output may allow the call, and an empty object denies it.
func TestAntigravityAlwaysAnswers(t *testing.T) {
	t.Parallel()
	const (
		ask  = `{"decision":"ask"}`
		call = `{"toolCall":{"name":"run_command","args":{"CommandLine":"ls"}},"stepIdx":0,"conversationId":"c"}`
	)
	for name, tt := range map[string]struct {
		event, payload string
		open, closed   string // start of the reply if the guard fails open or closed
	}{
		"empty":                   {"PreToolUse", "", ask, `{"decision":"deny","reason":"`},
		"cut off":                 {"PreToolUse", call[:40], ask, `{"decision":"deny","reason":"`},
		"older names of members":  {"PreToolUse", `{"tool_call":{"name":"run_command","args":{"CommandLine":"ls"}}}`, ask, `{"decision":"deny","reason":"`},
		"command of another type": {"PreToolUse", `{"toolCall":{"name":"run_command","args":{"CommandLine":["ls"]}}}`, ask, `{"decision":"deny","reason":"`},
		"server without a name":   {"PreToolUse", `{"toolCall":{"name":"call_mcp_tool","args":{"ToolName":"greet"}}}`, ask, `{"decision":"deny","reason":"`},
		"event without a name":    {"", call, ask, `{"decision":"deny","reason":"`},
		"after a call":            {"PostToolUse", "", "{}", "{}"},
		"end of a run":            {"Stop", "", "{}", "{}"},
	} {
		for onError, want := range map[grapnel.OnError]string{grapnel.OnErrorOpen: tt.open, grapnel.OnErrorClosed: tt.closed} {
			in := dialect.Input{Payload: []byte(tt.payload), Event: tt.event}
			reply := dialect.Answer(t.Context(), guard(t, onError), dialect.Antigravity(), in)
			if got := string(reply.Stdout); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 || reply.Exit != 0 {
				t.Errorf("%s, on_error %v: %q exit %d, want %s", name, onError, got, reply.Exit, want)
			}
		}
	}
}

// The answers of a hook that was written for Antigravity CLI.
func TestAntigravityHooks(t *testing.T) {
	t.Parallel()
	ev, err := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(`{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls","description":"d"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	d := dialect.Antigravity()
	line, err := d.WriteEvent(ev)
	if want := `{"hook_event_name":"PreToolUse","conversationId":"s","workspacePaths":["/w"],"toolCall":{"name":"run_command","args":{"CommandLine":"ls","description":"d"}}}` + "\n"; err != nil || string(line) != want {
		t.Errorf("WriteEvent: %s, %v; want %s", line, err, want)
	}
	for answer, want := range map[string]grapnel.Outcome{
		`{"decision":"ask"}`:                                      {}, // the neutral answer
		`{"decision":"ask","reason":"Sure?"}`:                     {Decision: grapnel.Ask, Reason: "Sure?"},
		`{"decision":"force_ask"}`:                                {Decision: grapnel.Ask},
		`{"decision":"allow"}`:                                    {Decision: grapnel.Allow},
		`{"decision":"deny","reason":"no"}`:                       {Decision: grapnel.Block, Reason: "no"},
		`{"decision":"deny_unless_prior_grant","reason":"grant"}`: {Decision: grapnel.Block, Reason: "grant"},
	} {
		got, err := d.ReadOutcome(ev, dialect.Output{Stdout: []byte(answer)})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ReadOutcome(%s): %v (-want +got)\n%s", answer, err, diff)
		}
	}
	got, err := d.ReadOutcome(ev, dialect.Output{Stdout: []byte(`{"decision":"allow","overwrite":{"CommandLine":"ls -l"}}`)})
	if want := `"ls -l"`; err != nil || string(got.Set[grapnel.FieldCommand]) != want {
		t.Errorf("a new command is read as %+v, %v", got, err)
	}
}
