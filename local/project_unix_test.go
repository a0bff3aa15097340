//go:build unix

package local

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// If a pipe is at the path of a root, Grapnel does not wait for it, and replaces it.
func TestRootThatIsAPipe(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p")
	p := Place{State: filepath.Join(dir, "state")}
	cwd := filepath.Join(dir, "p")
	p.Dirs(in("s", cwd), true)
	files, err := filepath.Glob(filepath.Join(p.sessions(), "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{cwd, dir} {
		if got := p.Dirs(in("s", at), true); got[0].Path != cwd {
			t.Errorf("in %s: root %s, want %s", at, got[0].Path, cwd)
		}
	}
}
