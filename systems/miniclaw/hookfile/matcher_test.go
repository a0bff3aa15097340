package hookfile

import (
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	"github.com/grapnel-dev/grapnel/systems/internal/systemtest"
)

// A tool_pattern is compared with the whole name of the tool in mini-claw.
//
// Proves: MC-18
func TestMiniclawPattern(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, tool string
		want          bool
	}{
		{"bash", "Bash", true},
		{"Bash", "Bash", false},
		{"ba*", "Bash", true},
		{"b?sh", "Bash", true},
		{"**", "Bash", true},
		{"[a-c]ash", "Bash", true},
		{"[!a]ash", "Bash", true},
		{"[!b]ash", "Bash", false},
		{"[]b]ash", "Bash", true},
		{"[z-a]ash", "Bash", false},
		{"as", "Bash", false},
		{"read", "Read", true},
		{"edit", "Edit", true},
		{"{bash,read}", "Bash", false},
		{"mcp__*__add", "mcp__memory__add", true},
		{"mcp__memory__add", "mcp__memory__add", true},
		{".*", "Bash", false},
	} {
		t.Run(tt.pattern, func(t *testing.T) {
			t.Parallel()
			file := fmt.Sprintf(`{"hooks":{"pre_tool":[{"command":"x","tool_pattern":%q}]}}`, tt.pattern)
			found := parse([]hookfiles.File{{Path: "/s.json", Data: []byte(file)}}, false)
			if len(found.Hooks) != 1 {
				t.Fatalf("%s", systemtest.Text(found))
			}
			payload := fmt.Sprintf(`"hook_event_name":"PreToolUse","tool_name":%q,"tool_input":{}`, tt.tool)
			if got, err := systemtest.Listens(t, &found.Hooks[0], systemtest.EventOf(t, "claude-code", payload)); err != nil || got != tt.want {
				t.Errorf("%q and %s: listens %v, %v; want %v", tt.pattern, tt.tool, got, err, tt.want)
			}
		})
	}
}

// A pattern that Rust's glob refuses is refused.
//
// Proves: MC-18
func TestMiniclawPatternThatIsNone(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"***", "a**", "**b", "a**/b", "[", "[]", "[!]", "a["} {
		if _, err := compileGlob(pattern); err == nil {
			t.Errorf("%q is a glob", pattern)
		}
	}
	for pattern, want := range map[string]bool{"**": true, "**/a": true, "a/**": false, "x/**/a": false, "*": true, "": false} {
		re, err := compileGlob(pattern)
		if err != nil || re.MatchString("a") != want {
			t.Errorf("%q matches a: %v, %v; want %v", pattern, !want, err, want)
		}
	}
}
