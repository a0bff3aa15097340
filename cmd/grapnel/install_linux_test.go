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

// On a terminal, the user sees the plan once and is asked, and only a yes writes. With --json,
// or if stdout is redirected, the question is on stderr.
func TestInstallAsks(t *testing.T) {
	dir := t.TempDir()
	// grapnel-hook must be in the directory of the program.
	hook := filepath.Join(filepath.Dir(mustExecutable(t)), "grapnel-hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(hook) })
	for _, tt := range []struct {
		typed string
		json  bool
		exit  int
	}{{"y\n", false, 0}, {"n\n", false, exitFailure}, {"\n", false, exitFailure}, {"\x04", false, exitFailure}, {"yes\n", true, 0}, {"n\n", true, exitFailure}} {
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
		args := []string{"install", "crush", "--root", root}
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
		_, err := os.Stat(filepath.Join(home, ".config", "crush", "crush.json"))
		if exit != tt.exit || os.IsNotExist(err) != (tt.exit != 0) || strings.Count(text, "Write this?") != 1 || strings.Count(text, "+++ ") != 1 {
			t.Errorf("typed %q: exit %d, want %d; the file: %v\n%s", tt.typed, exit, tt.exit, err, text)
		}
		if tt.json && !json.Valid(out.Bytes()) {
			t.Errorf("no JSON: %s", &out)
		}
		if declined := strings.Contains(text, "nothing was written"); !tt.json && declined != (tt.exit != 0) {
			t.Errorf("typed %q:\n%s", tt.typed, text)
		}
	}
}

func mustExecutable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}
