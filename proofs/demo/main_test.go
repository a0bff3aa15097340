//go:build system

package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

// The demo fits a screen of 80 columns and 50 lines, together with the line about the build and
// the prompt. It is also a check: a missing decision or reply is an error.
func TestDemo(t *testing.T) {
	t.Parallel()
	bin, remove, err := programs.Dir(programs.Plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	play := func(t *testing.T, color bool, steps []step) (string, error) {
		t.Helper()
		var out bytes.Buffer
		d := demo{ctx: t.Context(), out: &out, repository: filepath.Join("..", ".."), bin: bin, dir: t.TempDir(), color: color}
		err := d.play(steps)
		return out.String(), err
	}

	text, err := play(t, false, steps)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	if len(lines) > 48 {
		t.Errorf("%d lines, want at most 48", len(lines))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 || strings.Contains(line, "\x1b") {
			t.Errorf("wider than 80 columns, or with colors: %q", line)
		}
	}
	for _, want := range []string{policy, geminiHooks, "\n$ grapnel log", "\nclaude-code Write              block", "frozen  deploy/prod/app.y", "unsupported: "} {
		if !strings.Contains(text, want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
	if text, err := play(t, true, steps); err != nil || !strings.Contains(text, "\x1b[31m block\x1b[0m") {
		t.Errorf("error %v, want a red block:\n%s", err, text)
	}

	for name, change := range map[string]func(*step){
		"decision": func(s *step) { s.decision = "ask" },
		"reply":    func(s *step) { s.reply = `"permissionDecision":"ask"` },
		"agent":    func(s *step) { s.recording = "missing.txtar" },
	} {
		other := slices.Clone(steps)
		change(&other[0])
		if text, err := play(t, false, other); err == nil {
			t.Errorf("another %s is no error:\n%s", name, text)
		}
	}
}
