package builtin_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
)

// miniclaw returns an engine with mini-claw's preset and these hooks in this order.
func miniclaw(t *testing.T, hooks ...grapnel.Hook) *grapnel.Engine {
	t.Helper()
	preset, ok := grapnel.FindPreset("miniclaw")
	if !ok {
		t.Fatal("there is no preset miniclaw")
	}
	specs := make([]grapnel.Spec, len(hooks))
	for i, h := range hooks {
		specs[i] = preset.Defaults(grapnel.Spec{Name: string(rune('a' + i)), Hook: h, OnError: grapnel.OnErrorOpen})
	}
	e, err := grapnel.New(specs, &grapnel.Options{Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

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

func want(t *testing.T, what string, got, want grapnel.Decision) {
	t.Helper()
	if got != want {
		t.Errorf("%s: decision %v, want %v", what, got, want)
	}
}

func wantNoted(t *testing.T, log *builtin.Logging, tags ...string) {
	t.Helper()
	if got := log.Messages(); !slices.Equal(got, tags) {
		t.Errorf("the log has %q, want %q", got, tags)
	}
}

// TestMiniclaw contains the ten tests that mini-claw's chapter names, T01 to T10: logging_hook,
// logging_hook_multiple_events, blocking_hook, blocking_hook_allows_other_tools,
// registry_dispatch_continue, registry_dispatch_block, registry_multiple_hooks_order,
// registry_block_short_circuits, registry_is_empty, post_tool_event.
//
// Proves: MC-05, MC-06, MC-07, MC-10, MC-14, MC-15, MC-16, MC-24
func TestMiniclaw(t *testing.T) {
	t.Parallel()
	// MC-14, MC-15
	t.Run("T01_logging_hook", func(t *testing.T) {
		t.Parallel()
		var log builtin.Logging
		v := miniclaw(t, &log).Fire(t.Context(), call(grapnel.ToolBefore, "bash"))
		want(t, "a logging hook", v.Decision, grapnel.None)
		wantNoted(t, &log, "pre:bash")
	})
	// MC-14
	t.Run("T02_logging_hook_multiple_events", func(t *testing.T) {
		t.Parallel()
		var log builtin.Logging
		e := miniclaw(t, &log)
		for _, ev := range []*grapnel.Event{agentStart, call(grapnel.ToolBefore, "read"), call(grapnel.ToolAfter, "read"), agentEnd} {
			want(t, string(ev.Kind), e.Fire(t.Context(), ev).Decision, grapnel.None)
		}
		wantNoted(t, &log, "agent:start", "pre:read", "post:read", "agent:end")
	})
	// MC-16
	t.Run("T03_blocking_hook", func(t *testing.T) {
		t.Parallel()
		v := miniclaw(t, builtin.Blocking([]string{"bash"}, "bash is dangerous")).Fire(t.Context(), call(grapnel.ToolBefore, "bash"))
		want(t, "a forbidden tool", v.Decision, grapnel.Block)
		if v.Reason() != "bash is dangerous" {
			t.Errorf("reason %q", v.Reason())
		}
	})
	// MC-16: only the exact name matches, and case is significant.
	t.Run("T04_blocking_hook_allows_other_tools", func(t *testing.T) {
		t.Parallel()
		e := miniclaw(t, builtin.Blocking([]string{"bash", "write*"}, "no"))
		for _, tool := range []string{"read", "Bash", "bash2", "write", "writer", ""} {
			want(t, tool, e.Fire(t.Context(), call(grapnel.ToolBefore, tool)).Decision, grapnel.None)
		}
	})
	// MC-10
	t.Run("T05_registry_dispatch_continue", func(t *testing.T) {
		t.Parallel()
		var log builtin.Logging
		v := miniclaw(t, &log, builtin.Blocking([]string{"bash"}, "no")).Fire(t.Context(), call(grapnel.ToolBefore, "read"))
		want(t, "two hooks without an opinion", v.Decision, grapnel.None)
	})
	// MC-07
	t.Run("T06_registry_dispatch_block", func(t *testing.T) {
		t.Parallel()
		var log builtin.Logging
		v := miniclaw(t, &log, builtin.Blocking([]string{"bash"}, "no")).Fire(t.Context(), call(grapnel.ToolBefore, "bash"))
		want(t, "the second hook", v.Decision, grapnel.Block)
		wantNoted(t, &log, "pre:bash")
	})
	// MC-06
	t.Run("T07_registry_multiple_hooks_order", func(t *testing.T) {
		t.Parallel()
		var order []string
		noting := func(name string) grapnel.Hook {
			return &builtin.Logging{Write: func(tag string) error { order = append(order, name+" "+tag); return nil }}
		}
		miniclaw(t, noting("first"), noting("second"), noting("third")).Fire(t.Context(), call(grapnel.ToolBefore, "read"))
		if want := []string{"first pre:read", "second pre:read", "third pre:read"}; !slices.Equal(order, want) {
			t.Errorf("they ran as %q, want %q", order, want)
		}
	})
	// MC-07
	t.Run("T08_registry_block_short_circuits", func(t *testing.T) {
		t.Parallel()
		var before, after builtin.Logging
		miniclaw(t, &before, builtin.Blocking([]string{"bash"}, "no"), &after).Fire(t.Context(), call(grapnel.ToolBefore, "bash"))
		wantNoted(t, &before, "pre:bash")
		wantNoted(t, &after)
	})
	// MC-05, MC-10
	t.Run("T09_registry_is_empty", func(t *testing.T) {
		t.Parallel()
		e := miniclaw(t)
		if n := len(e.Specs()); n != 0 {
			t.Errorf("an engine without hooks has %d", n)
		}
		want(t, "nobody", e.Fire(t.Context(), call(grapnel.ToolBefore, "bash")).Decision, grapnel.None)
		if err := e.Add(grapnel.Spec{Name: "log", Hook: &builtin.Logging{}}); err != nil {
			t.Fatal(err)
		}
		if n := len(e.Specs()); n != 1 {
			t.Errorf("an engine with one hook has %d", n)
		}
	})
	// MC-14, MC-16: a finished call cannot be blocked any more.
	t.Run("T10_post_tool_event", func(t *testing.T) {
		t.Parallel()
		var log builtin.Logging
		v := miniclaw(t, &log, builtin.Blocking([]string{"bash"}, "no")).Fire(t.Context(), call(grapnel.ToolAfter, "bash"))
		want(t, "after the call", v.Decision, grapnel.None)
		wantNoted(t, &log, "post:bash")
	})
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
