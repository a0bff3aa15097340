//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/process"
)

// A contained command runs in the sandbox: it reads the project, its write fails, and the model
// gets the reason with the result. Another hook still blocks a command that it recognizes.
func TestContain(t *testing.T) {
	t.Parallel()
	if err := (&process.Sandbox{}).Possible(); err != nil {
		t.Skip(err)
	}
	among(t, []*agents.Agent{agents.ClaudeCode, agents.Codex}, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, `
version: 1
hooks:
  - name: hidden-commands
    on: tool.before
    match: {shell: unknown}
    contain: {write: '{root}/out', reason: this line hides the KEDGE}
  - name: no-touching
    on: tool.before
    match: {command: touch forbidden.txt}
    block: that file belongs to somebody else
`)
		g.WriteFile(t, "notes.txt", "from the BINNACLE\n")
		const hidden = `E=touch; $(printf %s "$E") out/made.txt && cat notes.txt && echo "in $TMPDIR" >"$TMPDIR/x" && cat "$TMPDIR/x"`
		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell(hidden)),
			model.Do(g.Shell(hidden+" && echo x >outside.txt; exit 7")),
			model.Do(g.Shell(hidden+"; touch forbidden.txt")),
			model.Do(g.Shell("echo free > free.txt")),
			model.Answer("all done"),
		)
		if _, ok := res.Files["out/made.txt"]; !ok {
			t.Errorf("the contained command did not run; files %v", res.Files)
		}
		wantFile(t, res, "outside.txt", "")
		wantFile(t, res, "forbidden.txt", "")
		wantFile(t, res, "free.txt", "free\n")
		results := res.Requests.ToolResults()
		if len(results) != 4 {
			t.Fatalf("the model got %d results, want 4: %+v", len(results), results)
		}
		const note = `this command ran in a sandbox of the hook "hidden-commands" (this line hides the KEDGE)`
		for i, want := range [][]string{
			{"from the BINNACLE", "in /"},
			{"from the BINNACLE", "outside.txt: Permission denied", note, "network: none", "7"},
			{"that file belongs to somebody else"},
		} {
			for _, part := range want {
				if !strings.Contains(results[i].Text, part) {
					t.Errorf("result %d has no %q: %s", i, part, results[i].Text)
				}
			}
		}
		if strings.Contains(results[0].Text, note) {
			t.Errorf("the output of a command that succeeded mentions the sandbox: %s", results[0].Text)
		}
		if !res.Requests.MainRequests().Contains("runs this command in a sandbox: reads the project, writes {root}/out, no network") {
			t.Error("the model was not told about the sandbox")
		}
		wantJudged(t, g.records(t), 4)
	})
}
