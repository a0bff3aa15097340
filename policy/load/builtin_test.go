package load_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy/load"
)

// fire loads a policy file, fires events, and waits for all observing hooks.
func fire(t *testing.T, req load.Request, events ...*grapnel.Event) {
	t.Helper()
	set := load.Policies(req)
	for _, file := range set.Files {
		if len(file.Errors) > 0 {
			t.Fatal(file.Errors[0])
		}
	}
	e, err := grapnel.New(set.Specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		e.Fire(t.Context(), ev)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An audit and a log get the selected events, or all events if none are selected, and the name of
// the blocking hook. The output is next to the policy file, or at the place that the program
// chooses.
//
// Proves: IC-35
func TestAuditAndLogging(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := fixture.File(t, filepath.Join(dir, "p.yaml"), `
version: 1
hooks:
  - {name: all, builtin: audit}
  - {name: blocked, builtin: {name: audit, file: logs/blocked.jsonl}, when: 'verdict.decision == "block"'}
  - {name: tags, on: [tool.before, session.end], builtin: {name: logging, file: logs/tags}}
  - {name: no-touch, on: tool.before, match: {command: touch}, block: no touching}
`)
	state := filepath.Join(dir, "state")
	named := fixture.Shell("ls")
	named.Tool.Name, named.Time = "a\nb", time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	fire(t, load.Request{Files: []load.File{{Path: file, Must: true}}, State: state}, fixture.Shell("touch secret"), named, &grapnel.Event{Kind: grapnel.SessionStart})

	all := fixture.Content(t, filepath.Join(state, "audit.jsonl"))
	if n := strings.Count(all, "\n"); n != 3 {
		t.Errorf("the audit of everything has %d lines, want 3:\n%s", n, all)
	}
	blocked := fixture.Content(t, filepath.Join(dir, "logs", "blocked.jsonl"))
	var entry struct {
		Hook, Event, Tool, Decision string
		By                          []struct{ Hook, Cause string }
	}
	if err := json.Unmarshal([]byte(blocked), &entry); err != nil {
		t.Fatalf("%v in %s", err, blocked)
	}
	if entry.Hook != file+"::blocked" || entry.Decision != "block" || len(entry.By) != 1 || entry.By[0].Hook != file+"::no-touch" || entry.By[0].Cause != "decision" {
		t.Errorf("the audit of what is blocked says %s", blocked)
	}
	if strings.Contains(all+blocked, "secret") {
		t.Errorf("the audit tells what was done:\n%s%s", all, blocked)
	}
	tags := fixture.Content(t, filepath.Join(dir, "logs", "tags"))
	if n := strings.Count(tags, "\n"); n != 2 || !strings.Contains(tags, "Z pre:Bash\n") || !strings.Contains(tags, "2026-03-04T05:06:07Z pre:a b\n") {
		t.Errorf("the log is %q", tags)
	}
}
