//go:build system

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newTerminal returns the two ends of a terminal: the user's end and the program's end.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// On a terminal the user is asked, and only a yes is accepted. In CI the command does not ask.
func TestTrustAsks(t *testing.T) {
	for _, tt := range []struct {
		typed, ci string
		exit      int
		want      string
	}{
		{"y\n", "", 0, "trusted"},
		{"YES\n", "false", 0, "trusted"},
		{"\n", "", exitFailure, "the policy was not trusted"},
		{"n\n", "", exitFailure, "the policy was not trusted"},
		{"yo\n", "", exitFailure, "the policy was not trusted"},
		{"\x04", "", exitFailure, "the policy was not trusted"}, // end of input
		{"y\n", "true", exitFailure, "confirmation needs a terminal"},
		{"y\n", "1", exitFailure, "confirmation needs a terminal"},
	} {
		t.Setenv("CI", tt.ci)
		person, program := newTerminal(t)
		dir, root := t.TempDir(), t.TempDir()
		file := filepath.Join(dir, "grapnel.yaml")
		hostile := strings.Replace(smallGate, "block: no", "run: \"true \\e[2J\\u202e\"", 1) // clears the screen and reverses the text
		if err := os.WriteFile(file, []byte(hostile), 0o600); err != nil {
			t.Fatal(err)
		}
		shown := make(chan string)
		go func() {
			var all bytes.Buffer
			_, _ = io.Copy(&all, person) // until the other end is closed
			shown <- all.String()
		}()
		if _, err := person.WriteString(tt.typed); err != nil {
			t.Fatal(err)
		}
		exit := run([]string{"trust", file, "--root", root}, program, program, program)
		if err := program.Close(); err != nil {
			t.Fatal(err)
		}
		text := <-shown
		if exit != tt.exit || !strings.Contains(text, tt.want) {
			t.Errorf("typed %q with CI=%q: exit %d and\n%s\nwant exit %d and %q", tt.typed, tt.ci, exit, text, tt.exit, tt.want)
		}
		if strings.Contains(text, "\x1b[2J") || strings.Contains(text, "\u202e") {
			t.Errorf("the policy steers the terminal: %q", text)
		}
		if _, err := os.Stat(filepath.Join(root, "state", "trust")); os.IsNotExist(err) != (tt.exit != 0) {
			t.Errorf("typed %q with CI=%q: %v", tt.typed, tt.ci, err)
		}
	}
}
