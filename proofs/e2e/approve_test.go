//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/internal/workbench/allow"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/local"
)

const askFirst = `
version: 1
hooks:
  - name: ask-first
    on: tool.before
    match: {command: touch asked.txt}
    ask: is that meant
    approve: {within: 10m}
`

var approving = []*agents.Agent{agents.ClaudeCode, agents.Codex, agents.GeminiCLI, agents.OpenClaw}

// person answers the next request of a world as soon as ready reports true, and counts the answers.
func person(t *testing.T, g guarded, d allow.Decision, ready func() bool) *atomic.Int32 {
	t.Helper()
	place, err := local.Locate(g.kit, "")
	if err != nil {
		t.Fatal(err)
	}
	answers := new(atomic.Int32)
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			open, _ := place.Approvals().Pending(time.Now())
			if len(open) == 0 || !ready() {
				continue
			}
			if _, first, err := allow.Decide(place, open[0].ID, d); err != nil || !first {
				t.Errorf("the answer of the person: %v, %v", first, err)
			}
			answers.Add(1)
		}
	}()
	return answers
}

func always() bool { return true }

// A call waits for a person at another terminal or in the browser, and runs after a yes only.
func TestPersonDecides(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]allow.Decision{"yes": {Yes: true}, "no": {Reason: "not on my WATCH"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			among(t, approving, func(t *testing.T, a *agents.Agent) {
				g := guard(t, a, askFirst)
				answers := person(t, g, d, always)
				res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch asked.txt")), model.Answer("all done"))
				if _, ran := res.Files["asked.txt"]; ran != d.Yes || answers.Load() != 1 {
					t.Errorf("the call ran: %v, after %d answers", ran, answers.Load())
				}
				if results := res.Requests.ToolResults(); !d.Yes && (len(results) != 1 || !strings.Contains(results[0].Text, "denied this call: not on my WATCH")) {
					t.Errorf("the model was told %+v", results)
				}
			})
		})
	}
}

// An agent that cannot wait gets a reply before its own timeout. Its model retries the call, which
// runs after the person's yes. OpenClaw waits for 15 seconds; the others get a shorter timeout.
func TestPersonIsLate(t *testing.T) {
	t.Parallel()
	among(t, approving, func(t *testing.T, a *agents.Agent) {
		g := guard(t, a, askFirst)
		hurry(t, g)
		blocked := func() bool {
			return len(g.records(t).of("tool.before")) > 0
		}
		answers := person(t, g, allow.Decision{Yes: true}, blocked)
		res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch asked.txt")), model.Do(g.Shell("touch asked.txt")), model.Answer("all done"))
		results := res.Requests.ToolResults()
		if len(results) != 2 || !strings.Contains(results[0].Text, "retry exactly the same call later") {
			t.Errorf("the model was told %+v", results)
		}
		if _, ran := res.Files["asked.txt"]; !ran || answers.Load() != 1 {
			t.Errorf("the second call ran: %v, after %d answers", ran, answers.Load())
		}
	})
}

// Without a person, the reply precedes the agent's timeout, also if five agents wait at the same
// time: Claude Code runs a call if its hook is late.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	for range 5 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			g := guard(t, agents.ClaudeCode, askFirst)
			hurry(t, g)
			res := g.Run(t, "Do as planned.", model.Do(g.Shell("touch asked.txt")), model.Answer("all done"))
			wantFile(t, res, "asked.txt", "")
			if results := res.Requests.ToolResults(); len(results) != 1 || !strings.Contains(results[0].Text, "retry exactly the same call later") {
				t.Errorf("the model was told %+v", results)
			}
		})
	}
}

// hurry changes the timeout of the hooks of an installed agent to 8 seconds.
func hurry(t *testing.T, g guarded) {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(g.kit, "state", "installs", "*.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("installation records %v, %v", records, err)
	}
	g.WriteFile(t, records[0], strings.ReplaceAll(g.ReadFile(t, records[0]), "3600000", "8000"))
	settings := g.ReadFile(t, g.SettingsFile())
	if g.Agent.ID == agents.GeminiCLI.ID { // it counts milliseconds
		settings = strings.ReplaceAll(settings, "3600000", "8000")
	}
	g.WriteFile(t, g.SettingsFile(), strings.ReplaceAll(settings, `"timeout": 3600`, `"timeout": 8`))
}
