//go:build unix

package load_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
)

// Reading a file that is not regular may never end, so it is not read.
func TestLoadReadsRegularFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, "/dev/zero", "/dev/null", dir} {
		_, e := loadFile(t, name, filepath.Join(dir, "state"), false)
		if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "is not a regular file") {
			t.Errorf("%s: %v %q, want a block that says what it is", name, v.Decision, v.Reason())
		}
	}
	e := fixture.Engine(t, filepath.Join(dir, "p.yaml"), "version: 1\nhooks:\n  - {name: x, on: session.start, context: {file: pipe}}\n")
	v := e.Fire(context.Background(), &grapnel.Event{Kind: grapnel.SessionStart})
	if got := strings.Join(v.Messages, "\n"); !strings.Contains(got, "is not a regular file") {
		t.Errorf("a context file that is a pipe: the person is told %q", got)
	}
}

func TestLoadOfAnUnreadableFile(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	put(t, file, blockAll)
	if err := os.Chmod(file, 0); err != nil {
		t.Fatal(err)
	}
	_, e := loadFile(t, file, "", false)
	if v := e.Fire(context.Background(), fixture.Shell("ls")); v.Decision != grapnel.Block || !strings.Contains(v.Reason(), "permission denied") {
		t.Errorf("%v %q, want a block", v.Decision, v.Reason())
	}
}
