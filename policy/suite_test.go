package policy_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/hooktest"
)

// A rule of a policy satisfies the laws of hooks, with a matcher that accepts any event of an
// agent.
func TestRulesHoldTheLaws(t *testing.T) {
	t.Parallel()
	engine := hooktest.PolicyText(t, `
version: 1
hooks:
  - {name: block, on: [tool.before, permission.before], match: {command: [make, rm -rf, "git push --force"]}, block: no}
  - {name: all, on: tool.before, block: no}
  - {name: ask, on: tool.before, match: {tool: [shell, "mcp__*"]}, ask: sure?}
  - {name: text, on: [prompt.before, tool.after], match: {text: [/d.*e/, ok]}, context: be kind}
  - {name: path, on: tool.before, match: {path: ["**/*.go", "~/x/**", /etc/passwd]}, ask: sure?}
  - {name: url, on: tool.before, match: {host: "*.com"}, ask: sure?}
  - {name: when, on: tool.before, when: 'tool.name == "Bash" && tool.command contains "make"', ask: sure?}
  - {name: replace, on: [prompt.before, tool.before, tool.after], replace: [{pattern: '[a-z]+', with: x}]}
  - {name: set, on: tool.before, match: {command: make}, set: {tool.command: nice make}}
  - {name: limit, on: tool.before, limit: {count: 3, per: 1m}}
  - {name: session, on: session.start, context: be kind}
`, nil)
	for _, spec := range engine.Specs("") {
		t.Run(spec.Name, func(t *testing.T) {
			t.Parallel()
			hooktest.TestHook(t, spec)
		})
	}
}
