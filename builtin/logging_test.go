package builtin_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
)

func call(kind grapnel.Kind, tool string) *grapnel.Event {
	ev := &grapnel.Event{Kind: kind, Tool: &grapnel.Tool{Name: tool, Input: json.RawMessage(`{"command":"ls"}`)}}
	if kind == grapnel.ToolAfter {
		ev.Tool.Output = json.RawMessage(`"content"`)
	}
	return ev
}

var (
	agentStart = &grapnel.Event{Kind: grapnel.AgentBefore, Prompt: &grapnel.Prompt{Text: "hello"}}
	agentEnd   = &grapnel.Event{Kind: grapnel.AgentAfter, Stop: &grapnel.Stop{LastMessage: "done"}}
)

func wantNoted(t *testing.T, log *builtin.Logging, tags ...string) {
	t.Helper()
	if got := log.Messages(); !slices.Equal(got, tags) {
		t.Errorf("the log has %q, want %q", got, tags)
	}
}

// Package systems/miniclaw has the tests of the chapter. These are the parts of which it consists.
//
// Proves: MC-14, MC-15
func TestLoggingTags(t *testing.T) {
	t.Parallel()
	var log builtin.Logging
	for _, ev := range []*grapnel.Event{agentStart, call(grapnel.ToolBefore, "read"), call(grapnel.ToolAfter, "read"), agentEnd, {Kind: grapnel.SessionEnd}} {
		if out, err := log.Handle(t.Context(), ev); err != nil || !reflect.DeepEqual(out, grapnel.Outcome{}) {
			t.Errorf("%s: %+v, %v, want no opinion", ev.Kind, out, err)
		}
	}
	wantNoted(t, &log, "agent:start", "pre:read", "post:read", "agent:end", "session.end")
}

// Only the exact name matches, case is significant, and a finished call cannot be blocked any more.
//
// Proves: MC-16
func TestBlocking(t *testing.T) {
	t.Parallel()
	hook := builtin.Blocking([]string{"bash", "write*"}, "no")
	for _, ev := range []*grapnel.Event{
		call(grapnel.ToolBefore, "read"), call(grapnel.ToolBefore, "Bash"), call(grapnel.ToolBefore, "bash2"), call(grapnel.ToolBefore, "writer"),
		call(grapnel.ToolBefore, ""), call(grapnel.ToolAfter, "bash"),
		{Kind: grapnel.ToolBefore},
		agentStart,
	} {
		if out, err := hook.Handle(t.Context(), ev); err != nil || out.Decision != grapnel.None {
			t.Errorf("%s %+v: %+v, %v, want no opinion", ev.Kind, ev.Tool, out, err)
		}
	}
	if out, err := hook.Handle(t.Context(), call(grapnel.ToolBefore, "bash")); err != nil || out.Decision != grapnel.Block || out.Reason != "no" {
		t.Errorf("a listed tool: %+v, %v, want a block", out, err)
	}
}

// Messages returns a copy, and never nil.
//
// Proves: MC-14
func TestMessagesAreACopy(t *testing.T) {
	t.Parallel()
	var log builtin.Logging
	if got := log.Messages(); got == nil || len(got) != 0 {
		t.Errorf("an unused log has %#v, want an empty list", got)
	}
	if _, err := log.Handle(t.Context(), agentStart); err != nil {
		t.Fatal(err)
	}
	log.Messages()[0] = "changed"
	wantNoted(t, &log, "agent:start")
}

// A full log drops its older half.
//
// Proves: MC-14
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	var log builtin.Logging
	const n = 30_001
	for range n {
		_, _ = log.Handle(t.Context(), call(grapnel.ToolBefore, "old"))
	}
	_, _ = log.Handle(t.Context(), call(grapnel.ToolBefore, "new"))
	got := log.Messages()
	if len(got) < 5_000 || len(got) > 10_000 || got[len(got)-1] != "pre:new" {
		t.Errorf("after %d events the log has %d, the last %q", n+1, len(got), got[len(got)-1])
	}
}
