//go:build system

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/programs"
)

// The agent passes the command to a shell. For any path, the program must get exactly its
// arguments.
func TestCommandInRealShell(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this system has no sh")
	}
	for _, folder := range []string{"plain", "two words", "o'clock", `back\slash`, `"quoted"`, "a;b&c|d", "$HOME", "`x`", "*?[a]", "#x", "~", "é", "-n", "a=b", "!x"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), folder)
			program := filepath.Join(dir, hookProgram)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			programs.Write(t, program, "#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done\n")
			for _, a := range Agents() {
				for _, h := range []Hook{{Program: program, ID: tokenA}, {Program: program, Root: dir}} {
					command := h.Command(a, "SessionStart")
					out, err := exec.Command(sh, "-c", command).CombinedOutput()
					want := "<--id><" + tokenA + ">"
					if h.Root != "" {
						want = "<--root><" + dir + ">"
					}
					if !a.Setup.Anonymous {
						want = "<" + a.Name + "><SessionStart>" + want
					}
					if err != nil || string(out) != want {
						t.Errorf("%s: %v, got %q, want %q", command, err, out, want)
					}
					e, ours := parseEntry(command, nil)
					if !ours || e.Program != program || e.Root != h.Root || e.ID == "" == (h.Root == "") {
						t.Errorf("parseEntry(%q) = %+v, %v", command, e, ours)
					}
				}
			}
		})
	}
}

// Installation runs the agent's program to get its version, if the version matters.
func TestVersionOfProgram(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell script")
	}
	m := newMachine(t)
	m.env["PATH"] = filepath.Join(m.home, "bin")
	req := m.request("claude", "gemini")
	req.Versions, req.DryRun = nil, true
	for body, want := range map[string]struct {
		batch bool
		note  string
	}{
		`echo "2.0.60 (Claude Code)"`:                    {false, "2.0.60 does not know"},
		`echo "2.1.329 (Claude Code)"`:                   {true, ""},
		`echo "oops"`:                                    {false, "did not answer, so its version is unknown: only events that 2.1.101 knows are installed"},
		`echo "2.1.329 (Claude Code)"; exit 1`:           {false, "did not answer"},
		`test "$HOME" = "` + m.home + `" && echo 2.0.60`: {false, "2.0.60 does not know"},
	} {
		m.script(filepath.Join(m.home, "bin", "claude"), body)
		f := m.install(req).Files[0]
		if got := slices.Contains(f.Events, "PostToolBatch"); got != want.batch {
			t.Errorf("%s: newer events installed: %v, want %v", body, got, want.batch)
		}
		if notes := strings.Join(f.Notes, "\n"); (want.note == "") != (notes == "") || !strings.Contains(notes, want.note) {
			t.Errorf("%s: notes %q, want %q", body, notes, want.note)
		}
	}
	m.env["PATH"] = ""
	if notes := strings.Join(m.install(req).Files[0].Notes, "\n"); !strings.Contains(notes, "claude is not on PATH, so its version is unknown") {
		t.Errorf("notes %q", notes)
	}
}
