package match

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// Agents join the names of server and tool with a separator that either may contain. A guard must
// not depend on where Grapnel splits, and an allow must not be for another server.
func TestUncertainServers(t *testing.T) {
	t.Parallel()
	const claude, copilot, opencode, gemini = "claude-code", "copilot-cli", "opencode", "gemini-cli"
	payload := map[string]string{
		claude:   `{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/p","tool_name":%,"tool_input":{}}`,
		copilot:  `{"sessionId":"s","timestamp":1,"cwd":"/p","toolName":%,"toolArgs":"{}"}`,
		opencode: `{"hook":"tool.execute.before","directory":"/p","input":{"sessionID":"s","tool":%,"callID":"c"},"output":{"args":{}}}`,
		gemini:   `{"hook_event_name":"BeforeTool","session_id":"s","cwd":"/p","tool_name":%,"tool_input":{},"mcp_context":{"server_name":"git_hub","tool_name":"x_y"}}`,
	}
	mcp := func(names ...string) *policyfile.Match { return &policyfile.Match{MCP: names} }
	tool := func(names ...string) *policyfile.Match { return &policyfile.Match{Tool: names} }
	reads := &policyfile.Match{MCP: []string{"github"}, Not: tool("mcp__github__get_*")}
	for _, test := range []struct {
		agent, name   string
		match         *policyfile.Match
		guard, allows bool
	}{
		{copilot, "github-mcp-server-create_issue", mcp("github-mcp-server"), true, false},
		{copilot, "github-mcp-server-create_issue", tool("mcp__github-mcp-server__*"), true, false},
		{copilot, "github-mcp-server-create_issue", tool("mcp__*__create_issue"), true, false},
		{copilot, "github-mcp-server-create_issue", mcp("github"), true, false},
		{copilot, "github-mcp-server-create_issue", mcp("github*"), true, true},
		{copilot, "github-mcp-server-create_issue", tool("github-mcp-server-create_issue"), true, true},
		{copilot, "github-mcp-server-create_issue", mcp("hub"), false, false},
		{copilot, "github-create_issue", mcp("github"), true, true},
		{copilot, "my-db-drop-table", mcp("my-db"), true, false},
		{opencode, "my_db_drop_table", mcp("my_db"), true, false},
		{opencode, "my_db_drop_table", tool("mcp__my_db__drop_table"), true, false},
		{opencode, "github_get_issue", reads, false, false},
		{opencode, "github_create_issue", reads, true, false},
		{claude, "mcp__my__server__tool", mcp("my__server"), true, false},
		{claude, "mcp__my___tool", mcp("my_"), true, false},
		{claude, "mcp__github__create_issue", mcp("github"), true, true},
		{claude, "mcp__plugin_acme_github__create_issue", mcp("github"), true, false},
		{claude, "mcp__plugin_acme_github__create_issue", tool("mcp__github__create_issue"), true, false},
		{claude, "mcp__plugin_acme_github__create_issue", mcp("plugin_acme_github"), true, true},
		{claude, "mcp__plugin_acme_github__get_issue", reads, false, false},
		{claude, "mcp__plugin_acme_github__create_issue", reads, true, false},
		{claude, "mcp__plugin__create_issue", mcp("github", ""), false, false},
		{gemini, "mcp_git_hub_x_y", mcp("git_hub"), true, true},
		{gemini, "mcp_git_hub_x_y", mcp("git"), false, false},
	} {
		d, _ := dialect.FindAgent(test.agent)
		name, _ := json.Marshal(test.name)
		ev, err := d.Read(dialect.Input{Event: map[string]string{copilot: "preToolUse"}[test.agent], Payload: []byte(strings.Replace(payload[test.agent], "%", string(name), 1))})
		if err != nil || ev.Tool == nil {
			t.Fatalf("%s %s: %v", test.agent, test.name, err)
		}
		for _, as := range []Reading{{}, {Allow: true}} {
			m, err := (&FactCache{}).Matcher(test.match, nil, "", as)
			if err != nil {
				t.Fatal(err)
			}
			want := test.guard
			if as.Allow {
				want = test.allows
			}
			if got, err := m.Match(ev, nil); got != want || err != nil {
				t.Errorf("%s %s (%+v), %v, allow %v: Match = %v, %v, want %v", test.agent, test.name, ev.Tool.MCP, Describe(test.match), as.Allow, got, err, want)
			}
			if want && m.Explain(ev, nil) == "" && len(test.match.Tool) > 0 {
				t.Errorf("%s %s, %v: no explanation", test.agent, test.name, Describe(test.match))
			}
			if holds, _ := ConditionsOf(m).Of(ev, nil); AllHold(holds) != want {
				t.Errorf("%s %s, %v, allow %v: conditions %+v, want %v", test.agent, test.name, Describe(test.match), as.Allow, holds, want)
			}
			n, _ := NeedsOf(m)
			if f := (&FactCache{}).Of(ev); want && !n.Met(f, func() bool { return true }) {
				t.Errorf("%s %s, %v: the needs %+v are not met", test.agent, test.name, Describe(test.match), n)
			}
		}
	}
}

// Claude Code names the server of a plugin in the payload.
func TestServerOfPlugin(t *testing.T) {
	t.Parallel()
	ev := toolCall("x", `{}`)
	ev.Tool.MCP.Server, ev.Tool.Name = "plugin:acme:git:hub", "mcp__plugin_acme_git_hub__x"
	for server, want := range map[string]bool{"git:hub": true, "plugin:acme:git:hub": true, "acme": false, "hub": false} {
		m, err := (&FactCache{}).Matcher(&policyfile.Match{MCP: []string{server}}, nil, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.Match(ev, nil); got != want || err != nil {
			t.Errorf("mcp: %s: Match = %v, %v, want %v", server, got, err, want)
		}
	}
}

// The rule index must not drop a rule that matches only a further name.
func TestUncertainServersInIndex(t *testing.T) {
	t.Parallel()
	cache := &FactCache{}
	var last *Matcher
	for range minRules + 1 {
		var err error
		if last, err = cache.Matcher(&policyfile.Match{Tool: []string{"mcp__my-db__*"}}, nil, "", Reading{}); err != nil {
			t.Fatal(err)
		}
	}
	for agent, want := range map[string]bool{"claude-code": false, "copilot-cli": true} {
		ev := &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: agent}, Tool: &grapnel.Tool{Name: "my-db-drop", Class: grapnel.ClassMCP, MCP: &grapnel.MCP{Server: "my", Tool: "db-drop"}}}
		if got, err := last.Match(ev, nil); got != want || err != nil {
			t.Errorf("%s: Match = %v, %v, want %v", agent, got, err, want)
		}
	}
}
