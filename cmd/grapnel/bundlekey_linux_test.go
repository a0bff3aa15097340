//go:build system

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// At a terminal a new key gets a password, which is asked for twice.
func TestBundleKeygenAsks(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"secret\nsecret\n": "", "secret\nsecred\n": "the two passwords differ", "\n\n": "the password is empty",
	} {
		person, program := newTerminal(t)
		shown := make(chan string)
		go func() {
			all, _ := io.ReadAll(person) // until the other end is closed
			shown <- string(all)
		}()
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "own")
		exit := run([]string{"bundle", "keygen", "--out", name, "--root", t.TempDir()}, program, program, program)
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		text := <-shown
		if key, err := os.ReadFile(name + ".key"); want == "" && (exit != 0 || err != nil || !strings.HasPrefix(string(key), "untrusted comment:")) {
			t.Errorf("%q: exit code %d, key %q, %v, shown %q", typed, exit, key, err, text)
		} else if want != "" && (exit != exitFailure || err == nil || !strings.Contains(text, want)) {
			t.Errorf("%q: exit code %d, key %q, shown %q, want %q", typed, exit, key, text, want)
		}
	}
}
