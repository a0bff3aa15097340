//go:build linux || darwin

package hookcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/dialect"
)

// For all recorded events, the reply to Claude Code over HTTP is the same as the reply of the
// hook program. If the event has no working directory, it fails closed.
func TestNoFallbackSameReply(t *testing.T) {
	t.Parallel()
	root := rootWith(t, servedPolicy+`  - {name: ask, on: tool.before, match: {tool: [write, edit]}, ask: Sure?}
use: [destructive, secrets]
`)
	d := dialect.ClaudeCode()
	var want, got []programResult
	var all [][]byte
	for _, payload := range payloads(t, d) {
		if ev := dialect.Receive(d, dialect.Input{Payload: payload}).Event; filepath.IsAbs(ev.Session.CWD) {
			all = append(all, payload)
		}
	}
	for _, payload := range all {
		want = append(want, program([]string{d.Name, "--root", root}, payload))
	}
	if err := os.RemoveAll(filepath.Join(root, "state")); err != nil {
		t.Fatal(err)
	}
	l := listen(t, root)
	for _, payload := range all {
		a, err := l.warm.AnswerFallback(t.Context(), &client.Question{Root: root, Payload: payload})
		if err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
		got = append(got, programResult{string(payload), string(a.Stdout), string(a.Stderr), a.Exit})
	}
	if len(all) < 50 {
		t.Errorf("only %d events", len(all))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-program +over http)\n%s", diff)
	}
}

// If no hook program is involved, a hook that starts a program fails: its on_error decides, the
// Record contains the error, and no program starts, at once or later.
func TestNoFallbackStartsNothing(t *testing.T) {
	t.Parallel()
	const event = `{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t","tool_input":{"command":"ls"}}`
	for name, tt := range map[string]struct {
		hook    string
		answer  string // part of the reply; empty = empty reply
		records []string
	}{
		"open":   {"{name: it, on: tool.before, run: touch RAN}", "it needs the environment of the agent", []string{"it needs the environment of the agent", `"fail_open":true`}},
		"closed": {"{name: it, on: tool.before, run: touch RAN, on_error: closed}", `"permissionDecision":"deny"`, []string{"it needs the environment of the agent", `"decision":"block"`}},
		"ask":    {"{name: it, on: tool.before, run: touch RAN, on_error: ask}", `"permissionDecision":"ask"`, []string{"it needs the environment of the agent"}},
		"async":  {"{name: it, on: tool.before, run: touch RAN, async: true}", "observing hooks were not started", []string{"not started", "it needs the environment of the agent"}},
		"other":  {"{name: it, on: tool.before, match: {command: rm}, run: touch RAN}", "", []string{`"decision":"none"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := filepath.Join(t.TempDir(), "ran")
			root := rootWith(t, "version: 1\nhooks:\n  - "+strings.ReplaceAll(tt.hook, "RAN", ran)+"\n")
			l := listen(t, root)
			a, err := l.warm.AnswerFallback(t.Context(), &client.Question{Root: root, Payload: []byte(event)})
			if err != nil || a.Exit != 0 || a.Drain || tt.answer == "" != (len(a.Stdout) == 0) || !strings.Contains(string(a.Stdout), tt.answer) {
				t.Errorf("got %+v, %v, want %q", a, err, tt.answer)
			}
			if len(l.lines) != 1 {
				t.Fatalf("Records: %q", l.lines)
			}
			for _, want := range tt.records {
				if !strings.Contains(l.lines[0], want) {
					t.Errorf("the Record does not say %q: %s", want, l.lines[0])
				}
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the program ran")
			}
			if queued, _ := filepath.Glob(filepath.Join(root, "state", "spool", "pending*")); len(queued) != 0 {
				t.Errorf("it was put off: %v", queued)
			}
		})
	}
}

// An event that a daemon cannot judge is blocked, if the event can be blocked.
func TestNoFallbackFailsClosed(t *testing.T) {
	t.Parallel()
	root := rootWith(t, "version: 1\nhooks: []\n")
	l := listen(t, root)
	for name, tt := range map[string]struct {
		q      client.Question
		answer string
	}{
		"nowhere":        {client.Question{Root: root, Payload: []byte(`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`)}, `"permissionDecision":"deny"`},
		"broken":         {client.Question{Root: root, Payload: []byte(`{"hook_event_name":"PreToolUse",`)}, `"permissionDecision":"deny"`},
		"nothing":        {client.Question{Root: root}, `"decision":"block"`},
		"of another":     {client.Question{Root: t.TempDir(), Payload: []byte(`{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`)}, `"permissionDecision":"deny"`},
		"no such record": {client.Question{ID: "x", Payload: []byte(`{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`)}, `"permissionDecision":"deny"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := l.warm.AnswerFallback(t.Context(), &tt.q)
			if err == nil || a == nil || !strings.Contains(string(a.Stdout), tt.answer) {
				t.Errorf("got %+v, %v, want %q and why", a, err, tt.answer)
			}
			if err != nil && strings.Contains(err.Error(), "by itself") {
				t.Errorf("no program answers: %v", err)
			}
		})
	}
}
