//go:build system && unix

package control

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// systemd parses the command line in the unit as the original arguments.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text := systemdUnit(hostile).Text
	_, line, _ := strings.Cut(text, "ExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	if got := systemdSplit(line); !slices.Equal(got, hostile) {
		t.Errorf("%s\nis %q, want %q", line, got, hostile)
	}
	all := systemUnit(hostile).Text
	for want, texts := range map[string][]string{"NoNewPrivileges=yes": {text, all}, "Restart=on-failure": {text, all}, "WantedBy=default.target": {text}, "WantedBy=multi-user.target": {all}, "RuntimeDirectory=grapnel\n": {all}, ourUnit: {text, all}} {
		for _, text := range texts {
			if !strings.Contains(text, want) {
				t.Errorf("the unit has no %s:\n%s", want, text)
			}
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // systemd checks only existing programs
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "grapnel.service")
	for _, u := range []Unit{systemdUnit([]string{program, "serve", "--root", "/a b%h$x"}), systemUnit([]string{program, "serve", AllUsers})} {
		if err := os.WriteFile(file, []byte(u.Text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("grapnel.service")) {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	}
}
