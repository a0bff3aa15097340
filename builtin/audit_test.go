package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/builtin"
)

// lines collects the lines that an audit writes.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return nil
}

// secretCall returns a call full of values that must not be in the lines of an audit.
func secretCall() *grapnel.Event {
	return &grapnel.Event{
		Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "claude-code"},
		Session: grapnel.Session{ID: "s1", User: "u1", CWD: "/hidden", Transcript: "/hidden"},
		Tool:    &grapnel.Tool{ID: "hidden", Name: "Bash", Input: json.RawMessage(`{"command":"hidden"}`), Output: json.RawMessage(`"hidden"`)},
		Native:  json.RawMessage(`{"prompt":"hidden"}`),
	}
}

// An audit line contains the verdict, and for a block the hook that caused it, but nothing of the
// payload. IronClaw's own audit does not contain the verdict.
//
// Proves: IC-35
func TestAuditNamesWhoRejected(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]struct {
		hook  grapnel.Hook
		cause grapnel.Cause
	}{
		"a decision": {builtin.Blocking([]string{"Bash"}, "hidden"), grapnel.CauseDecision},
		"a failure": {grapnel.Func(func(context.Context, *grapnel.Event) (grapnel.Outcome, error) {
			return grapnel.Outcome{}, errors.New("hidden")
		}), grapnel.CauseError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l lines
			e, err := grapnel.New([]grapnel.Spec{
				builtin.Audit("audit", l.write),
				{Name: "guard", Source: grapnel.Source{Name: "mine"}, On: []grapnel.Kind{grapnel.ToolBefore}, Hook: hook.hook, OnError: grapnel.OnErrorClosed},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := e.Fire(t.Context(), secretCall()); v.Decision != grapnel.Block {
				t.Fatalf("decision %v, want block", v.Decision)
			}
			e.Fire(t.Context(), &grapnel.Event{Kind: grapnel.SessionStart, Session: grapnel.Session{ID: "s1"}})
			if err := e.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(l.all) != 2 {
				t.Fatalf("the audit has %q, want a line for each of 2 events", l.all)
			}
			if strings.HasPrefix(l.all[0], `{"time"`) && strings.Contains(l.all[0], "session.start") {
				l.all[0], l.all[1] = l.all[1], l.all[0] // observers run at the same time
			}
			var entries [2]builtin.Entry
			for i, line := range l.all {
				if !strings.HasSuffix(line, "}\n") || strings.Count(line, "\n") != 1 || strings.Contains(line, "hidden") {
					t.Errorf("%q is no line of metadata", line)
				}
				if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
					t.Fatal(err)
				}
				if entries[i].Time.IsZero() {
					t.Errorf("no time in %s", line)
				}
			}
			want := [2]builtin.Entry{
				{
					Hook: "audit", Event: grapnel.ToolBefore, Agent: "claude-code", User: "u1", Session: "s1", Tool: "Bash", Decision: grapnel.Block,
					By: []builtin.By{{Hook: "mine::guard", Cause: hook.cause}},
				},
				{Hook: "audit", Event: grapnel.SessionStart, Session: "s1"},
			}
			if diff := cmp.Diff(want, entries, cmpopts.IgnoreFields(builtin.Entry{}, "Time", "ID")); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// An audit line reports that the turn ended, and an invalid tool name does not make the line
// endless.
func TestAuditOfOddEvents(t *testing.T) {
	t.Parallel()
	var l lines
	ev := (&grapnel.Event{Kind: grapnel.ToolBefore, Tool: &grapnel.Tool{Name: strings.Repeat("ü\n", 1<<20)}}).WithVerdict(&grapnel.Verdict{Halt: "hidden"})
	if _, err := builtin.Audit("audit", l.write).Hook.Handle(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	if line := l.all[0]; len(line) > 2000 || strings.Count(line, "\n") != 1 || strings.Contains(line, "hidden") || !strings.Contains(line, `"halt":true`) {
		t.Errorf("%d bytes: %.300q", len(line), line)
	}
	full := errors.New("the disk is full")
	if _, err := builtin.Audit("audit", func([]byte) error { return full }).Hook.Handle(t.Context(), ev); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}
