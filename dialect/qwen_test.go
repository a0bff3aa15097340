package dialect_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// No answer to Qwen Code allows a tool call, because that would undo the deny of another hook.
// No answer that ends a turn uses the word that makes the agent continue.
func TestQwenNeverUndoes(t *testing.T) {
	t.Parallel()
	for native, in := range samples(t, dialect.QwenCode()) {
		if native != "PreToolUse" && native != "Stop" && native != "SubagentStop" {
			continue
		}
		for _, out := range sampleOutcomes(dialect.QwenCode().Row(native), nil) {
			ev, err := dialect.QwenCode().Read(in)
			if err != nil {
				t.Fatal(err)
			}
			v := engineOf(t, out).Fire(t.Context(), ev)
			stdout := string(dialect.QwenCode().Write(ev, &v, native).Stdout)
			if strings.Contains(stdout, `"allow"`) || strings.Contains(stdout, `"continue"`) {
				t.Errorf("%s: %+v is written as %s", native, out, stdout)
			}
		}
	}
}

// Qwen Code sends tool results as an empty prompt. Guards for prompts do not run for them, and
// no answer is sent.
func TestQwenToolResults(t *testing.T) {
	t.Parallel()
	in := samples(t, dialect.QwenCode())["UserPromptSubmit"]
	asked := false
	engine, err := grapnel.New([]grapnel.Spec{
		{Name: "prompts", On: []grapnel.Kind{grapnel.PromptBefore}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			asked = true
			return grapnel.Outcome{Decision: grapnel.Block, Reason: "no"}, nil
		})},
		{Name: "results", On: []grapnel.Kind{"native.qwen-code.ToolResults"}, Hook: grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{Halt: "stop", Message: "m"}, nil
		})},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if reply := dialect.Answer(t.Context(), engine, dialect.QwenCode(), in); asked || len(reply.Stdout)+len(reply.Stderr)+reply.Exit > 0 {
		t.Errorf("a guard of prompts was asked (%v) about %s, and the answer is %+v", asked, in.Payload, reply)
	}
}

// Hooks for Qwen Code: exit code 2 without output blocks, although the agent treats it
// differently, and JSON may be on stderr. An allow does not skip a prompt there, so it is no
// opinion.
func TestQwenHooks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		native   string
		out      dialect.Output
		decision grapnel.Decision
		halt     bool
		failed   bool
	}{
		{native: "PreToolUse", out: dialect.Output{Exit: 2}, decision: grapnel.Block},
		{native: "PreToolUse", out: dialect.Output{Exit: 2, Stdout: []byte(`{"hookSpecificOutput":{"permissionDecision":"deny"}}`)}, decision: grapnel.Block},
		{native: "PreToolUse", out: dialect.Output{Exit: 2, Stderr: []byte(`{"decision":"allow"}`)}, decision: grapnel.Block},
		{native: "PreToolUse", out: dialect.Output{Stderr: []byte(`{"decision":"deny","reason":"r"}`)}, decision: grapnel.Block},
		{native: "PreToolUse", out: dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"permissionDecision":"allow"}}`)}},
		{native: "PreToolUse", out: dialect.Output{Stdout: []byte(`{"continue":false,"stopReason":"r"}`)}, decision: grapnel.Block},
		{native: "PreToolUse", out: dialect.Output{Exit: 1, Stdout: []byte(`{"decision":"deny"}`)}, decision: grapnel.Block, failed: true},
		{native: "PreToolUse", out: dialect.Output{Exit: 127}, failed: true},
		{native: "Stop", out: dialect.Output{Stdout: []byte(`{"continue":false,"stopReason":"go on"}`)}, decision: grapnel.Block},
		{native: "UserPromptExpansion", out: dialect.Output{Stdout: []byte(`{"continue":false,"stopReason":"r"}`)}, halt: true},
		{native: "PermissionRequest", out: dialect.Output{Stdout: []byte(`{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`)}, decision: grapnel.Allow},
	} {
		ev, err := dialect.QwenCode().Read(samples(t, dialect.QwenCode())[tt.native])
		if err != nil {
			t.Fatal(err)
		}
		got, err := dialect.QwenCode().ReadOutcome(ev, tt.out)
		if got.Decision != tt.decision || (got.Halt != "") != tt.halt || (err != nil) != tt.failed {
			t.Errorf("%s: ReadOutcome(exit %d, %q, %q) = %+v, %v, want %v, halt %v", tt.native, tt.out.Exit, tt.out.Stdout, tt.out.Stderr, got, err, tt.decision, tt.halt)
		}
	}
}

// Timeouts of 1000 and more are milliseconds in every version; smaller ones are not in any
// version.
func TestQwenTimeouts(t *testing.T) {
	t.Parallel()
	if unit := dialect.QwenCode().Setup().Unit; unit != time.Millisecond {
		t.Errorf("timeouts are written in units of %v", unit)
	}
}

// Droid gives its hooks the top-level members of the event as variables, if they are small and
// cannot be confused with another variable.
func TestDroidVariables(t *testing.T) {
	t.Parallel()
	payload := `{"session_id":"s","transcript_path":"/home/dev/.factory/s.jsonl","cwd":"/p","hook_event_name":"UserPromptSubmit","prompt":"` + strings.Repeat("x", 5000) +
		`","has_images":false,"CLAUDE_ENV_FILE":"/e","PATH":"/evil","LD_PRELOAD":"/evil","a=b":"c","o":{},"l":[],"n":null,"z":"a\u0000b"}`
	ev, err := dialect.FactoryDroid().Read(dialect.Input{Payload: []byte(payload)})
	if err != nil {
		t.Fatal(err)
	}
	got := dialect.FactoryDroid().HookEnv(ev)
	want := []string{
		"FACTORY_PROJECT_DIR=/p", "DROID_PROJECT_DIR=/p", "CLAUDE_PROJECT_DIR=/p", "session_id=s", "transcript_path=/home/dev/.factory/s.jsonl",
		"cwd=/p", "hook_event_name=UserPromptSubmit", "has_images=false", "CLAUDE_ENV_FILE=/e",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Exit code 3 of a hook for Droid ends the agent's turn.
func TestDroidAborts(t *testing.T) {
	t.Parallel()
	ev, err := dialect.FactoryDroid().Read(samples(t, dialect.FactoryDroid())["PreToolUse"])
	if err != nil {
		t.Fatal(err)
	}
	out, err := dialect.FactoryDroid().ReadOutcome(ev, dialect.Output{Exit: 3, Stderr: []byte("enough")})
	if err != nil || out.Halt != "enough" {
		t.Errorf("ReadOutcome(exit 3) = %+v, %v", out, err)
	}
	if v := engineOf(t, out).Fire(t.Context(), ev); v.Decision != grapnel.Block {
		t.Errorf("exit 3 before a tool is %+v, and the tool runs", v)
	}
}
