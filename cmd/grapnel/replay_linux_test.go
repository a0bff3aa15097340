//go:build system

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/show/display"
)

// recordLines returns n Records of an agent that lists a directory.
func recordLines(n int) string {
	var b strings.Builder
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		fmt.Fprintf(&b, `{"id":"r%d","time":%q,"agent":"claude-code","session":"s%d","event":"tool.before","tool":"Bash","decision":"none","hooks":[],"ms":1,"input":{"kind":"tool.before","agent":{"name":"claude-code"},"native":{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","description":%q}}}}`+"\n",
			i, at.Add(time.Duration(i)*time.Second).Format(time.RFC3339), i%5, strings.Repeat("x", 800))
	}
	return b.String()
}

// A replay on a terminal shows its progress, and at the end only the result.
func TestReplayProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "records.jsonl")
	if err := os.WriteFile(file, []byte(recordLines(4000)), 0o600); err != nil {
		t.Fatal(err)
	}
	bar := regexp.MustCompile(`\[(=*)( *)\] ([0-9,]+) Records, [0-9]+ /s`)
	for command, begins := range map[string]string{"replay": "replaying", "suggest": "reading"} {
		term := display.Start(t, grapnelCmd(t, "grapnel", command, "--root", filepath.Join(dir, command), file), 100, 24)
		if code := term.Exit(t); code != 0 {
			t.Errorf("%s: exit status %d\n%s", command, code, term)
		}
		drawn, before := bar.FindAllStringSubmatch(term.Raw(), -1), 0
		for _, d := range drawn {
			if len(d[1]) < before || len(d[1])+len(d[2]) != 30 {
				t.Errorf("%s: the bar is %q", command, d[0])
			}
			before = len(d[1])
		}
		if len(drawn) == 0 || before == 0 || !strings.Contains(term.Raw(), begins+" [=") {
			t.Errorf("%s: nobody sees how far it has come: %d bars, the last of %d\n%q", command, len(drawn), before, term.Raw())
		}
		if screen := term.String(); !strings.HasPrefix(screen, "played 4,000 Records") && !strings.HasPrefix(screen, "read 4,000 Records") || bar.MatchString(screen) {
			t.Errorf("%s: in the end there is more than the report:\n%s", command, screen)
		}
	}
}

// For a pipe the total is unknown. A small terminal has no room for the whole line.
func TestReplayProgressOfAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "records")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	term := display.Start(t, grapnelCmd(t, "grapnel", "replay", "--root", t.TempDir(), pipe), 20, 10)
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteString(recordLines(300)); err != nil {
		t.Fatal(err)
	}
	if screen := term.Want(t, "replaying 256"); screen != "replaying 256 Recor\n"+strings.Repeat("\n", 9) {
		t.Errorf("seen is\n%s", screen)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if code, screen := term.Exit(t), term.String(); code != 0 || !strings.HasPrefix(screen, "played 300 Records,\n") {
		t.Errorf("exit status %d\n%s", code, screen)
	}
}

// Without a terminal, or on one that cannot delete text, no progress is drawn.
func TestReplayWithoutProgress(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(file, []byte(recordLines(300)), 0o600); err != nil {
		t.Fatal(err)
	}
	piped := grapnelCmd(t, "grapnel", "replay", "--root", t.TempDir(), file)
	var stderr strings.Builder
	piped.Stderr = &stderr
	if out, err := piped.Output(); err != nil || !strings.HasPrefix(string(out), "played 300 Records") || stderr.Len() > 0 {
		t.Errorf("%v: %s\nstderr: %q", err, out, stderr.String())
	}
	for name, cmd := range map[string][]string{"TERM=dumb": {}, "TERM=xterm": {"--json"}} {
		c := grapnelCmd(t, "grapnel", append([]string{"replay", "--root", t.TempDir(), file}, cmd...)...)
		c.Env = append(c.Env, name)
		term := display.Start(t, c, 80, 24)
		if code := term.Exit(t); code != 0 || strings.Contains(term.Raw(), "replaying") || strings.Contains(term.Raw(), "\x1b[K") {
			t.Errorf("%s %v: exit status %d\n%q", name, cmd, code, term.Raw())
		}
	}
}
