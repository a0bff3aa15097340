package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/spool"
)

// putLines appends lines to the log in a spool.
func putLines(t *testing.T, dir string, lines ...string) {
	t.Helper()
	w := journal.Writer{Dir: filepath.Join(dir, spool.JournalDir)}
	defer w.Close()
	for _, line := range lines {
		if _, err := w.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
}

// The result of a hook that ran after the reply is an addition to a Record, never a decision. An
// earlier version stored a decision with it.
func TestLateRecords(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "state")
	at := time.Now().UTC().Format(time.RFC3339Nano)
	first := `{"id":"1","time":"` + at + `","agent":"claude-code","session":"s","event":"tool.before","tool":"Bash","decision":"block","hooks":[],"ms":1}`
	late := `{"id":"1","time":"` + at + `","agent":"claude-code","session":"s","event":"tool.before","tool":"Bash","decision":"none","hooks":[{"name":"tell","source":"user","decision":"none","async":true,"ms":2}],"ms":2,"late":true}`
	putLines(t, dir, first, late)
	printed := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(append(args, "--root", root), strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("%q: exit code %d: %s", args, code, errs.String())
		}
		return out.String()
	}
	_, second, _ := strings.Cut(printed("log", "--json"), "\n")
	if !strings.Contains(second, `"late":true`) || !strings.Contains(second, `"name":"tell"`) || strings.Contains(strings.Replace(second, `"source":"user","decision":"none"`, "", 1), `"decision"`) {
		t.Errorf("log --json prints a late line as %s", second)
	}
	if out := printed("log"); strings.Count(out, " late ") != 1 || strings.Contains(out, " none ") {
		t.Errorf("log prints\n%s", out)
	}
	if out := printed("log", "--decision", "none"); out != "" {
		t.Errorf("log --decision none prints\n%s", out)
	}
	if out := printed("stats", "--json"); !strings.Contains(out, `"firings": 1`) || !strings.Contains(out, `"tell"`) {
		t.Errorf("stats prints\n%s", out)
	}
}
