package dialect_test

import (
	"context"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/testhelp/scramble"
)

// Regression: dialect.ClaudeCode.Events[i].Can.Block = false made every block of the process
// pass. For any change that a caller makes to a returned value, the next caller and every
// answer use unchanged tables.
func TestTablesCannotBeChanged(t *testing.T) {
	const payload = `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","tool_name":"Bash","tool_input":{"command":"ls"}}`
	accessors := map[string]func() any{
		"All":            func() any { return dialect.All() },
		"HookOnly":       func() any { return dialect.HookOnly() },
		"Names":          func() any { return dialect.Names() },
		"Kinds":          func() any { return dialect.Kinds("PreToolUse") },
		"IronClawEvents": func() any { return dialect.IronClawEvents() },
		"Hello":          func() any { h := dialect.Hello(); return &h },
		"Once":           func() any { return dialect.Once() },
		"Find":           func() any { d, _ := dialect.Find("flyto"); return d },
		"FindAgent":      func() any { d, _ := dialect.FindAgent("claude"); return d },
		"Detect":         func() any { return dialect.Detect([]byte(payload)) },
		"ContractOf":     func() any { c, _ := dialect.ContractOf(grapnel.ToolBefore); return &c },
		"ContractOf a native event": func() any {
			c, ok := dialect.ContractOf("native.claude-code.WorktreeCreate")
			if !ok {
				t.Error("the native event has no Contract")
			}
			return &c
		},
		"Read": func() any { // hooks get the returned event
			ev, _ := dialect.ClaudeCode().Read(dialect.Input{Payload: []byte(payload)})
			return ev
		},
		"Row": func() any { return dialect.ClaudeCode().Row("PreToolUse") },
	}
	for _, d := range append(dialect.All(), dialect.HookOnly()...) {
		accessors["Find "+d.Name] = func() any { d, _ := dialect.Find(d.Name); return d }
		accessors["Setup "+d.Name] = func() any { return d.Setup() }
	}
	for name, table := range accessors {
		before := scramble.Print(table())
		scramble.Value(table())
		if after := scramble.Print(table()); after != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, after, before)
		}
	}
	engine, err := grapnel.New([]grapnel.Spec{{Name: "no", Hook: grapnel.Func(func(_ context.Context, ev *grapnel.Event) (grapnel.Outcome, error) {
		scramble.Value(ev.Terms.Contract)
		return grapnel.Outcome{Decision: grapnel.Block, Reason: "never"}, nil
	})}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		reply := dialect.Answer(t.Context(), engine, dialect.ClaudeCode(), dialect.Input{Payload: []byte(payload)})
		if !strings.Contains(string(reply.Stdout), `"deny"`) {
			t.Errorf("the reply is %s, want a deny", reply.Stdout)
		}
	}
}
