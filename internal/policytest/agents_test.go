package policytest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// The same test passes in every agent, or the test reports that the agent does not have the
// event. It also passes if the agent does not support the verdict and gets a stricter one.
func TestAgents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		test  string
		error []string // the agents that cannot report the event
		fail  []string // the agents that do not support the verdict
	}{
		"a block":     {`command: git push -f, want: {decision: block, rule: no-force-push}`, nil, nil},
		"nothing":     {`command: git status, want: none`, nil, nil},
		"a tool":      {`tool: mcp__lab__echo, input: {text: hi}, want: none`, nil, nil},
		"a change":    {`command: echo sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {tool.command: echo sk-***}}`, nil, nil},
		"before":      {`before: [terraform init], command: terraform apply, want: block`, nil, nil},
		"a question":  {`tool: write, path: deploy/prod/a.yaml, content: "a: 1", want: {decision: ask, rule: keep-out-of-prod}`, []string{"codex", "cline", "windsurf"}, nil},
		"an edit":     {`tool: edit, path: deploy/prod/a.yaml, content: "a: 1", want: ask`, []string{"codex", "windsurf", "kiro-cli", "kiro"}, nil},
		"a file":      {`tool: read, path: /etc/hosts, want: none`, nil, nil},
		"a page":      {`url: "https://example.com", want: none`, []string{"codex", "grok", "copilot-cli", "cline", "windsurf", "kiro-cli", "kiro"}, nil},
		"a prompt":    {`prompt: my key is sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {prompt: my key is sk-***}}`, []string{"opencode", "crush", "antigravity"}, nil},
		"an output":   {`command: cat .env, output: KEY=sk-aaaaaaaaaaaaaaaaaaaaaaaa, want: {changes: {tool.output: KEY=sk-***}}`, []string{"crush", "windsurf", "antigravity"}, nil},
		"a beginning": {`event: session.start, want: {context: [house rules]}`, []string{"crush", "cline", "windsurf"}, []string{"grok", "kiro", "antigravity"}},
		"a stop":      {`event: agent.after, want: none`, []string{"crush"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := read(t, house, fmt.Sprintf("version: 1\ncwd: /repo\nagents: [%s]\ntests:\n  - {%s}\n", strings.Join(dialect.Names(), ", "), tt.test))
			results, err := policytest.Run(t.Context(), file.Tests, nil)
			if err != nil || len(results) != len(dialect.All()) {
				t.Fatalf("%d results, %v", len(results), err)
			}
			got := map[policytest.Status][]string{}
			for i := range results {
				r := &results[i]
				got[r.Status] = append(got[r.Status], r.Agent)
				switch r.Status {
				case policytest.Passed:
				case policytest.Broken:
					if want := r.Agent + " cannot express this event: "; !strings.Contains(r.Error.Error(), want) {
						t.Errorf("%s: %v, want %q", r.Agent, r.Error, want)
					}
				default:
					if !slices.Contains(tt.fail, r.Agent) || !strings.Contains(fmt.Sprint(r.Mismatches), "does not support: ") {
						t.Errorf("%v\n%s", r, r.Details())
					}
				}
			}
			if slices.Equal(got[policytest.Broken], tt.error) && slices.Equal(got[policytest.Failed], tt.fail) {
				return
			}
			for _, status := range slices.Sorted(maps.Keys(got)) {
				t.Errorf("%s: %v", status, got[status])
			}
		})
	}
}
