//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// A worker guards an agent: it blocks with its own reason and lets other calls pass. After it
// dies, no call passes that it would judge. Calls that it does not judge still run.
func TestWorkerGuards(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join("..", "..", "examples", "workers", "node", "commits.js"))
	if err != nil {
		t.Fatal(err)
	}
	inTwo(t, func(t *testing.T, a *agents.Agent) {
		g := unguarded(t, a, `
version: 1
hooks:
  - name: commits
    on: tool.before
    match: {command: git commit}
    worker: test ! -e gone || { echo no memory left >&2; kill -9 $$; }; exec node commits.js
    on_error: closed
  - name: ends-it
    on: tool.after
    match: {command: git commit}
    run: touch `+"'@gone@'"+`
`)
		gone := filepath.Join(g.kit, "gone")
		policy := filepath.Join(g.kit, "grapnel.yaml")
		g.WriteFile(t, policy, strings.ReplaceAll(g.ReadFile(t, policy), "@gone@", gone))
		g.WriteFile(t, filepath.Join(g.kit, "commits.js"), string(source))
		g.grapnel(t, "install", a.ID, "--yes")

		res := g.Run(t, "Do as planned.",
			model.Do(g.Shell("echo no > blocked.txt; git commit -m 'some rows'")),
			model.Do(g.Shell("git commit -m 'fix: some rows' >> seen.txt 2>&1; echo one > judged.txt")),
			model.Do(g.Shell("echo no > dead.txt; git commit -m 'fix: other rows'")),
			model.Do(g.Shell("echo free > free.txt")),
			model.Answer("all done"),
		)
		for name, want := range map[string]string{"blocked.txt": "", "judged.txt": "one\n", "dead.txt": "", "free.txt": "free\n"} {
			wantFile(t, res, name, want)
		}
		results := res.Requests.ToolResults()
		if len(results) != 4 {
			t.Fatalf("the model was told %d tool results, want 4: %+v", len(results), results)
		}
		for i, want := range map[int]string{0: `Begin the commit message with one of feat, fix`, 2: `"commits" could not answer`} {
			if !results[i].IsError || !strings.Contains(results[i].Text, want) {
				t.Errorf("of call %d the model was told %+v, want an error with %q", i+1, results[i], want)
			}
		}
		if results[1].IsError || results[3].IsError {
			t.Errorf("of what passed the model was told %+v and %+v", results[1], results[3])
		}
		log := g.records(t).of("tool.before")
		if got := strings.Join(log.decisions(), " "); got != "block none block none" {
			t.Fatalf("decided %q, want block none block none", got)
		}
		if hooks := log[2].Hooks; len(hooks) == 0 || !strings.Contains(hooks[0].Error, "SIGKILL") || !strings.Contains(hooks[0].Error, "no memory left") {
			t.Errorf("of the worker that died the log has %+v, want the signal and its last words", hooks)
		}
	})
}
