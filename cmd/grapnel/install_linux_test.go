//go:build system

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// On a terminal, the user sees one line per agent and is asked about each. d shows the changes and
// asks again, and only a yes writes. With --json, the questions are on stderr.
func TestInstallAsks(t *testing.T) {
	dir := t.TempDir()
	putHook(t)
	for _, tt := range []struct {
		typed            string
		json             bool
		exit             int
		crush, windsurf  bool // written
		questions, diffs int
	}{
		{"y\ny\n", false, 0, true, true, 2, 0},
		{"yes\nn\n", false, 0, true, false, 2, 0},
		{"n\ny\n", false, 0, false, true, 2, 0},
		{"n\nn\n", false, exitFailure, false, false, 2, 0},
		{"\n\n", false, exitFailure, false, false, 2, 0},
		{"\x04\x04", false, exitFailure, false, false, 2, 0},
		{"what\nd\ny\nno\n", false, 0, true, false, 4, 1},
		{"y\nn\n", true, 0, true, false, 2, 0},
		{"n\nn\n", true, exitFailure, false, false, 2, 0},
	} {
		home, root := t.TempDir(), t.TempDir()
		t.Setenv("HOME", home)
		t.Chdir(dir)
		person, program := newTerminal(t)
		shown := make(chan string)
		go func() {
			var all bytes.Buffer
			_, _ = io.Copy(&all, person)
			shown <- all.String()
		}()
		if _, err := person.WriteString(tt.typed); err != nil {
			t.Fatal(err)
		}
		args := []string{"install", "crush", "windsurf", "--root", root}
		var out bytes.Buffer
		stdout := io.Writer(program)
		if tt.json {
			args, stdout = append(args, "--json"), &out
		}
		exit := run(args, program, stdout, program)
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		text := <-shown
		_, noCrush := os.Stat(filepath.Join(home, ".config", "crush", "crush.json"))
		_, noWindsurf := os.Stat(filepath.Join(home, ".codeium", "windsurf", "hooks.json"))
		if exit != tt.exit || tt.crush != (noCrush == nil) || tt.windsurf != (noWindsurf == nil) {
			t.Errorf("typed %q: exit %d, want %d; crush: %v, windsurf: %v\n%s", tt.typed, exit, tt.exit, noCrush, noWindsurf, text)
		}
		if strings.Count(text, "[y/N/d]") != tt.questions || strings.Count(text, "+++ ") != tt.diffs {
			t.Errorf("typed %q: want %d questions and %d diffs:\n%s", tt.typed, tt.questions, tt.diffs, text)
		}
		if tt.json && (!json.Valid(out.Bytes()) || strings.Contains(out.String(), `"declined": true`) == (tt.crush && tt.windsurf)) {
			t.Errorf("typed %q: JSON: %s", tt.typed, &out)
		}
		if declined := strings.Contains(text, "nothing was written"); !tt.json && declined == (tt.crush && tt.windsurf) {
			t.Errorf("typed %q:\n%s", tt.typed, text)
		}
	}
}

// putHook puts a grapnel-hook into the directory of this program, where install looks for it.
func putHook(t *testing.T) {
	t.Helper()
	hook := filepath.Join(filepath.Dir(mustExecutable(t)), "grapnel-hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(hook) })
}

func mustExecutable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}
