//go:build system

package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// StartDrain starts a process in its own session, in the root directory, without open files of
// this process.
func TestStartDrainDetaches(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	script := `exec >"$1.new"; cut -d' ' -f6 /proc/$$/stat; echo $$; pwd; for f in 0 2; do readlink /proc/$$/fd/$f; done; mv "$1.new" "$1"`
	if err := StartDrain("/bin/sh", []string{"-c", script, "-", out}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	until(t, func() bool {
		raw, err := os.ReadFile(out)
		lines = strings.Split(string(raw), "\n")
		return err == nil
	})
	want := fmt.Sprintf("%s %s / /dev/null /dev/null ", lines[1], lines[1])
	if got := strings.Join(lines, " "); got != want {
		t.Errorf("session, process, directory, stdin, stderr = %s, want %s", got, want)
	}
}
