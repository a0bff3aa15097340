package systems_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
	"github.com/grapnel-dev/grapnel/systems"
	"github.com/grapnel-dev/grapnel/systems/hookfiles"
	"github.com/grapnel-dev/grapnel/systems/internal/systemtest"
)

// The matchers of all formats of JavaScript programs support look-around and back-references. A
// matcher that backtracks for too long, or is too large, cannot decide, so its hook runs. GC-09.
func TestMatcherSyntax(t *testing.T) {
	t.Parallel()
	slow, large := `(\\w+)+!`, strings.Repeat("(?:a|b)", 400)
	for _, tt := range []struct {
		matcher   string
		tools     string // that it matches, of read_file, write_file and aaa...
		undecided string // the error for all other tools
	}{
		{`^(?!write_file$).*`, "read_file aaa", ""},
		{`(?<=read)_file`, "read_file", ""},
		{`^(a)\\1+$`, "aaa", ""},
		{`(?:read|write)_\\w+`, "read_file write_file", ""},
		{`^.*_file$`, "read_file write_file", ""},
		{`file|^aaa`, "read_file write_file aaa", ""},
		{slow, "", "takes longer than 1s"},
		{large, "", "longer than 2048 bytes"},
	} {
		for _, format := range []string{"claude-code", "gemini-cli"} {
			t.Run(format+" "+tt.matcher[:min(len(tt.matcher), 20)], func(t *testing.T) {
				t.Parallel()
				event := map[string]string{"claude-code": "PreToolUse", "gemini-cli": "BeforeTool"}[format]
				file := fmt.Sprintf(`{"hooks":{%q:[{"matcher":"%s","hooks":[{"type":"command","command":"x"}]}]}}`, event, tt.matcher)
				found := systems.Find(format).Parse([]hookfiles.File{{Path: "/h/settings.json", Data: []byte(file)}}, false)
				if len(found.Hooks) != 1 || len(found.Errors)+len(found.Broken) > 0 {
					t.Fatalf("%s: %s", file, systemtest.Text(found))
				}
				for _, tool := range []string{"read_file", "write_file", "aaa"} {
					name := tool
					if tt.undecided != "" {
						name = strings.Repeat("a", 60)
					}
					ev := &grapnel.Event{
						Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "a"},
						Tool: &grapnel.Tool{Name: name, Class: grapnel.ClassOther, Input: []byte(`{}`)},
					}
					got, err := found.Hooks[0].Matcher.Match(ev, nil)
					switch want := slices.Contains(strings.Fields(tt.tools), tool); {
					case tt.undecided == "" && (got != want || err != nil):
						t.Errorf("matcher %s at %s: %v, %v; want %v", tt.matcher, name, got, err, want)
					case tt.undecided != "" && (!errors.Is(err, grapnel.ErrUndecided) || !strings.Contains(err.Error(), tt.undecided)):
						t.Errorf("matcher %s at %s: %v, %v; want an error with %q", tt.matcher, name, got, err, tt.undecided)
					}
				}
			})
		}
	}
}

// The match of a policy that replaces a matcher never matches less, for every tool of every
// agent.
func TestNearestNeverLess(t *testing.T) {
	t.Parallel()
	var events []*grapnel.Event
	add := func(agent string, tool grapnel.Tool) {
		events = append(events, &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: agent}, Tool: &tool})
	}
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		for _, row := range d.Tools {
			add(d.Name, grapnel.Tool{Name: row.Native, Class: row.Class, Input: []byte(`{}`)})
		}
		for _, name := range []string{"Bash", "write_file", "Unheard", "edit"} {
			add(d.Name, grapnel.Tool{Name: name, Class: grapnel.ClassOther})
		}
		for _, mcp := range []grapnel.MCP{{Server: "memory", Tool: "add"}, {Server: "a/b", Tool: "write_file"}, {Server: "x_y", Tool: "Bash"}} {
			add(d.Name, grapnel.Tool{Name: "as it likes", Class: grapnel.ClassMCP, MCP: &mcp})
		}
	}
	add("openclaw", grapnel.Tool{Name: "exec", Class: grapnel.ClassShell, Commands: []string{"ls"}})
	add("openclaw", grapnel.Tool{Name: "apply_patch", Class: grapnel.ClassEdit, Paths: []grapnel.Path{{Path: "a"}}, Content: "x"})
	narrow := 0
	for _, pattern := range []string{
		"Bash", "Edit|Write", "Write,Edit", "B.*", "^Bash$", "mcp__.*", "mcp__memory__.*", "^mcp_memory_", "memory_add", "write_file", "write_file|replace",
		"shell", "^run_shell_command$", ".*", "Task", "Agent", "Skill", "a", "e$", "bash", "b*", "*it*", "read", "subagent", "ask_user", "Bash|.*file",
	} {
		files := map[string]string{
			"claude-code": `{"hooks":{"PreToolUse":[{"matcher":%q,"hooks":[{"type":"command","command":"x"}]}]}}`,
			"gemini-cli":  `{"hooks":{"BeforeTool":[{"matcher":%q,"hooks":[{"type":"command","command":"x"}]}]}}`,
			"miniclaw":    `{"hooks":{"pre_tool":[{"tool_pattern":%q,"command":"x"}]}}`,
		}
		for format, text := range files {
			found := systems.Find(format).Parse([]hookfiles.File{{Path: "/s.json", Data: fmt.Appendf(nil, text, pattern)}}, false)
			for i := range found.Hooks {
				h := &found.Hooks[i]
				if h.Match == nil || h.Matcher == nil {
					continue
				}
				narrow++
				m, err := (&match.FactCache{}).Matcher(h.Match, nil, "", match.Reading{})
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range events {
					matched, _ := m.Match(ev, nil)
					if ok, err := h.Matcher.Match(ev, nil); ok && err == nil && !matched {
						t.Errorf("%s %q listens to %s of %s, and %v would not", format, pattern, ev.Tool.CanonicalName(), ev.Agent.Name, h.Match.Tool)
					}
				}
			}
		}
	}
	if narrow < 30 {
		t.Errorf("only %d matchers were compared", narrow)
	}
}
