//go:build system && unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/replay"
)

// The work of an agent, recorded by the real grapnel-hook, leads to each kind of suggestion
// that is possible within a minute, and to no other.
func TestSuggestOfRealWork(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	guard := filepath.Join(root, "guard.sh")
	if err := os.WriteFile(guard, []byte("#!/bin/sh\nif grep -q evil; then echo '{\"decision\":\"block\",\"reason\":\"no\"}'; fi\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	writePolicy(t, root, `version: 1
hooks:
  - name: plans
    on: tool.before
    match: {command: terraform plan}
    ask: Go on?
  - name: destroys
    on: tool.before
    match: {command: terraform destroy}
    ask: Go on?
  - name: mixed
    on: tool.before
    match: {command: kubectl}
    ask: Go on?
  - {name: push, on: tool.before, match: {command: git push}, block: Not from here.}
  - {name: force, on: tool.before, match: {command: git push --force}, block: Not from here.}
  - {name: broken, on: tool.before, match: {command: make}, run: exit 7}
  - {name: shut, on: tool.before, match: {command: cargo}, run: exit 7, on_error: closed}
  - {name: format, on: tool.after, match: {tool: write}, run: sleep 0.3}
  - {name: wide, on: tool.before, run: `+guard+`}
  - {name: many, on: tool.before, match: {tool: read}, limit: {count: 50, per: 1h, by: session}}
  - {name: one, on: tool.before, match: {command: curl}, limit: {count: 1, per: 1h}}
`)
	id := 0
	report := func(event, tool string, input map[string]any) {
		payload, err := json.Marshal(map[string]any{"session_id": "s", "cwd": "/", "hook_event_name": event, "tool_name": tool, "tool_use_id": fmt.Sprint(id), "tool_input": input, "prompt": "no", "error": "exit code 1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, stderr, exit := runHook(t, "claude-code", root, string(payload)); exit > 2 {
			t.Fatalf("exit %d\n%s", exit, stderr)
		}
	}
	shell := func(n int, command string, then ...string) {
		for range n {
			id++
			for _, event := range append([]string{"PreToolUse"}, then...) {
				report(event, "Bash", map[string]any{"command": command})
			}
		}
	}
	for range 7 {
		id++
		report("PreToolUse", "Read", map[string]any{"file_path": "/x"})
	}
	for range 5 {
		id++
		report("PostToolUse", "Write", map[string]any{"file_path": "/x", "content": "x"})
	}
	shell(3, "terraform plan", "PostToolUse")
	shell(3, "terraform destroy", "UserPromptSubmit")
	shell(3, "kubectl delete pod x", "PostToolUse")
	shell(1, "kubectl delete pod y", "UserPromptSubmit")
	shell(3, "git push --force")
	shell(1, "git push")
	shell(3, "make", "PostToolUse")
	shell(3, "cargo test")
	shell(3, "echo evil")
	shell(6, "curl -s x")
	shell(5, "npm test", "PostToolUseFailure")

	cmd := exec.CommandContext(t.Context(), "grapnel", "suggest", "--root", root, "--json", "--asked", "3", "--matched", "3", "--seen", "7", "--runs", "5", "--repeats", "3", "--slow", "250ms", "--answer", "1ns")
	cmd.Env = append(os.Environ(), "HOME="+root, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.Output()
	var advice replay.Advice
	if err != nil || json.Unmarshal(out, &advice) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := map[string]struct {
		count int
		lines string // lines that the change removes and adds
	}{
		"fails-open broken":       {3, "+  - {name: broken, on: tool.before, match: {command: make}, run: exit 7, on_error: closed}"},
		"fails shut":              {3, ""},
		"always-approved plans":   {3, `+    when: tool.command not in ["terraform plan"]`},
		"never-approved destroys": {3, "+    block: Go on?"},
		"shadowed force":          {3, "-  - {name: force, on: tool.before, match: {command: git push --force}, block: Not from here.}"},
		"too-wide wide":           {3, "+  - {name: wide, on: tool.before, run: " + guard + ", match: {tool: shell}}"},
		"slow format":             {5, "+  - {name: format, on: tool.after, match: {tool: write}, run: sleep 0.3, async: true}"},
		"limit-unused many":       {7, "+  - {name: many, on: tool.before, match: {tool: read}, limit: {count: 14, per: 1h, by: session}}"},
		"limit-hit one":           {5, ""},
		"fails-again ":            {4, "+  - name: think-before-trying-again"},
	}
	var found []string
	for _, s := range advice.Suggestions {
		name := string(s.Kind) + " "
		if s.Rule != nil {
			name += s.Rule.Name
		}
		found = append(found, name)
		w, ok := want[name]
		if !ok && s.Kind != replay.Slow { // on a busy machine every hook is slow
			t.Errorf("it suggests %s: %s", name, s.Title)
		}
		if ok && (s.Count != w.count || w.lines == "" && s.Hunk != "" || !strings.Contains(s.Hunk, w.lines) || len(s.Records) == 0 || s.First.IsZero() || s.Last.Before(s.First)) {
			t.Errorf("%s: %d Records %v, want %d\n%s\nwant %s", name, s.Count, s.Records, w.count, s.Hunk, w.lines)
		}
	}
	for name := range want {
		if !slices.Contains(found, name) {
			t.Errorf("it does not suggest %s; it does %v", name, found)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
