//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// A hook answers the permission prompt of Claude Code. The tests have no user, so a call without
// an answer is refused. Gemini CLI has no such event.
func TestPermissionPrompt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy   string
		file     string // the only file that is created; "" = none
		wantText string // text that the model must get for the call
		decision string // of permission.before
		ends     bool   // the agent ends instead of continuing
	}{
		"allow": {
			policy: `
  - name: it
    on: permission.before
    match: {command: touch asked.txt}
    allow: true
`,
			file: "asked.txt", decision: "allow",
		},
		"allow another input": {
			policy: `
  - name: it
    on: permission.before
    set: {tool.command: touch other.txt}
  - name: that-one
    on: permission.before
    match: {command: touch other.txt}
    allow: true
`,
			file: "other.txt", decision: "allow",
		},
		"another input that nobody allowed": {
			policy: `
  - name: it
    on: permission.before
    set: {tool.command: touch other.txt}
`,
			wantText: "touch other.txt", decision: "block",
		},
		"block": {
			policy: `
  - name: it
    on: permission.before
    block: not on my WATCH
`,
			wantText: "not on my WATCH", decision: "block",
		},
		"ask": {
			policy: `
  - name: it
    on: permission.before
    ask: is that meant
`,
			decision: "ask",
		},
		"halt": {
			policy: `
  - name: it
    on: permission.before
    run: echo '{"halt":"that is ENOUGH"}'
`,
			decision: "block", ends: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.ClaudeCode, "version: 1\nhooks:"+tc.policy)
			g.Cautious = true
			res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch asked.txt")), model.Answer("all done"))
			for _, file := range []string{"asked.txt", "other.txt"} {
				if _, exists := res.Files[file]; exists != (file == tc.file) {
					t.Errorf("%s was written: %v, want %v", file, exists, !exists)
				}
			}
			if got := g.records(t).of("permission.before").decisions(); !slices.Equal(got, []string{tc.decision}) {
				t.Errorf("decisions about permission.before: %v, want one %s", got, tc.decision)
			}
			if tc.ends {
				if n := len(res.Requests.MainRequests()); n != 1 || res.Answer != "" || res.Exit != 1 {
					t.Errorf("%d main requests, the answer %q and exit %d, want the end after the first with exit 1", n, res.Answer, res.Exit)
				}
				return
			}
			results := res.Requests.ToolResults()
			if len(results) != 1 || results[0].IsError != (tc.file == "") || !strings.Contains(results[0].Text, tc.wantText) {
				t.Errorf("the model was told %+v, want %q and an error: %v", results, tc.wantText, tc.file == "")
			}
			if res.Answer != "all done" {
				t.Errorf("answer %q, want %q", res.Answer, "all done")
			}
		})
	}
}

// Grapnel records a refusal by the agent itself. In plan mode Claude Code asks a classifier about
// commands, which does not exist in the tests.
func TestPermissionDenied(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.ClaudeCode, `
version: 1
hooks:
  - name: told
    on: permission.denied
    match: {command: touch asked.txt}
    run: echo "$GRAPNEL_TOOL $GRAPNEL_COMMAND" > denied.log
`)
	g.Cautious, g.Flags = true, []string{"--permission-mode", "plan"}
	res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch asked.txt")), model.Answer("all done"))
	wantFile(t, res, "asked.txt", "")
	wantFile(t, res, "denied.log", "Bash touch asked.txt\n")
	if results := res.Requests.ToolResults(); len(results) != 1 || !results[0].IsError {
		t.Errorf("the model was told %+v, want a refusal", results)
	}
}

// Gemini CLI reports its permission prompt. No user answers it here, so the run ends.
//
// Proves: GC-09
func TestPermissionNotification(t *testing.T) {
	t.Parallel()
	g := guard(t, agents.GeminiCLI, `
version: 1
hooks:
  - name: ask-first
    on: tool.before
    ask: is that meant
  - name: told
    on: notification.sent
    run: cat > notified.json
`)
	res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch asked.txt")), model.Answer("all done"))
	wantFile(t, res, "asked.txt", "")
	if event := res.Files["notified.json"]; !strings.Contains(event, `"type":"ToolPermission"`) {
		t.Errorf("the hook was told %q, want a notification of type ToolPermission", event)
	}
	if !strings.Contains(res.Shown, "is that meant") {
		t.Errorf("the person was not asked the question:\n%s", res.Shown)
	}
}
