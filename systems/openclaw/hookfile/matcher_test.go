package hookfile

import (
	"testing"

	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	"github.com/grapnel-dev/grapnel/systems/internal/systemtest"
)

// A matcher of OpenClaw names its own tools. For other agents it matches the corresponding
// tools.
func TestOpenClawMatcher(t *testing.T) {
	t.Parallel()
	found := parse([]hookfiles.File{{Path: "/h.json", Data: []byte(`{"before_tool_call":[{"command":"x","matcher":["Exec","memory__add"]}]}`)}}, false)
	if len(found.Hooks) != 1 {
		t.Fatalf("%s", systemtest.Text(found))
	}
	for payload, want := range map[string]bool{
		`"tool_name":"Bash","tool_input":{"command":"ls"}`:             true,
		`"tool_name":"mcp__memory__add","tool_input":{}`:               true,
		`"tool_name":"mcp__memory__list","tool_input":{}`:              false,
		`"tool_name":"Write","tool_input":{"file_path":"a"}`:           false,
		`"tool_name":"exec","tool_input":{"command":"ls"}`:             true,
		`"tool_name":"WebFetch","tool_input":{"url":"https://a.test"}`: false,
	} {
		if got, err := systemtest.Listens(t, &found.Hooks[0], systemtest.EventOf(t, "claude-code", `"hook_event_name":"PreToolUse",`+payload)); err != nil || got != want {
			t.Errorf("%s: listens %v, %v; want %v", payload, got, err, want)
		}
	}
}
