package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/installation"
	"github.com/grapnel-dev/grapnel/local"
)

// A question that gives a person more time than an installed agent waits is reported.
func TestShortWaits(t *testing.T) {
	t.Parallel()
	for within, want := range map[string]string{
		"10m": `hook "ask-push" gives a person 10m, but OpenClaw (before_tool_call) waits 12s, Codex CLI (PreToolUse) waits 57s`,
		"20s": `hook "ask-push" gives a person 20s, but OpenClaw (before_tool_call) waits 12s`,
		"10s": "",
	} {
		root := t.TempDir()
		file := filepath.Join(root, "grapnel.yaml")
		text := "version: 1\nhooks:\n  - {name: ask-push, on: tool.before, match: {command: git push}, ask: Push now?, approve: {within: " + within + "}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		place, err := local.Locate(root, "")
		if err != nil {
			t.Fatal(err)
		}
		for i, rec := range []installation.Record{
			{Agent: "openclaw", Events: []string{"before_tool_call"}, TimeoutMS: 60_000},
			{Agent: "codex", Events: []string{"PreToolUse"}, TimeoutMS: 60_000},
			{Agent: "claude-code", Events: []string{"PreToolUse"}, TimeoutMS: 60_000, EventTimeoutsMS: map[string]int64{"PreToolUse": 3_600_000}},
		} {
			rec.ID, rec.Scope, rec.Root = strings.Repeat(string(rune('a'+i)), 26), "user", root
			if err := installation.Write(place.Installs(), rec); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, r := range File(file, place, true) {
			for _, f := range r.Findings {
				if f.Rule == "short-wait" {
					got = append(got, f.Msg)
				}
			}
		}
		if want == "" && got != nil || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%s: findings %q, want %q", within, got, want)
		}
	}
}
