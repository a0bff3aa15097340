package check

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policy/yaml"
	"github.com/grapnel-dev/grapnel/policy"
)

// An allow for a server does nothing in an agent whose names do not show the server.
func TestUnsureServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		hook   string
		agents []*dialect.Dialect
		want   string // a part of the warning
	}{
		"server":              {`match: {mcp: my-db}, allow: yes`, []*dialect.Dialect{dialect.Copilot()}, "`tool: my-db-*`"},
		"tool":                {`match: {tool: [Bash, mcp__my-db__get_row]}, allow: yes`, []*dialect.Dialect{dialect.Copilot()}, "my-db-get_row"},
		"tool of Crush":       {`match: {tool: mcp__github__get_issue}, allow: yes`, []*dialect.Dialect{dialect.ClaudeCode(), dialect.Crush()}, "in Crush"},
		"clear name":          {`match: {mcp: github}, allow: yes`, []*dialect.Dialect{dialect.Copilot()}, ""},
		"clear separator":     {`match: {tool: mcp__my-db__get_row}, allow: yes`, []*dialect.Dialect{dialect.ClaudeCode()}, ""},
		"block":               {`match: {mcp: my-db}, block: no`, []*dialect.Dialect{dialect.Copilot()}, ""},
		"glob":                {`match: {mcp: "my-*"}, allow: yes`, []*dialect.Dialect{dialect.Copilot()}, ""},
		"no installed agent":  {`match: {mcp: my-db}, allow: yes`, dialect.All(), ""},
		"agent without allow": {`match: {mcp: my_db}, allow: yes`, []*dialect.Dialect{dialect.GeminiCLI()}, ""},
		"half a name":         {`match: {tool: mcp__my-db}, allow: yes`, []*dialect.Dialect{dialect.Copilot()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := []byte("version: 1\nhooks:\n  - {name: x, on: tool.before, " + test.hook + "}\n")
			p, errs := policy.Parse("p.yaml", data)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			root, err := yaml.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			m := &mistakes{file: "p.yaml", agents: test.agents}
			for _, h := range ownHooks(root, p.Hooks) {
				m.ofUnsure(&h)
			}
			switch {
			case test.want == "" && len(m.found) > 0:
				t.Errorf("findings %v, want none", m.found)
			case test.want != "" && (len(m.found) != 1 || !strings.Contains(m.found[0].Msg+m.found[0].Hint, test.want)):
				t.Errorf("findings %v, want one with %q", m.found, test.want)
			}
		})
	}
}
