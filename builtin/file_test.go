package builtin_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/builtin"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Concurrent writers append to a summary, and only its owner can read it.
//
// Proves: IC-76
func TestInDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := builtin.InDir(dir)(t.Context(), nil, "daily/a.md", strings.Repeat("x", 999)+"\n"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	name := filepath.Join(dir, "daily", "a.md")
	if got := readFile(t, name); got != strings.Repeat(strings.Repeat("x", 999)+"\n", 20) {
		t.Errorf("20 texts at once became %d bytes", len(got))
	}
	if runtime.GOOS == "windows" {
		return
	}
	for name, want := range map[string]os.FileMode{name: 0o600, filepath.Dir(name): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

// A project can contain links at the path of a summary. InDir does not follow a link out of the
// directory.
func TestInDirStaysThere(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []struct{ to, at string }{{precious, "file.md"}, {outside, "dir"}} {
		if err := os.Symlink(link.to, filepath.Join(dir, link.at)); err != nil {
			if runtime.GOOS != "windows" {
				t.Fatal(err)
			}
			t.Skip(err) // links need a privilege on Windows
		}
	}
	for _, file := range []string{"file.md", "dir/precious", "dir/new", "../up.md"} {
		err := builtin.InDir(dir)(t.Context(), nil, file, "evil")
		if err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("%s: error %v, want one that names the file", file, err)
		}
	}
	if got := readFile(t, precious); got != "mine" {
		t.Errorf("the file outside is now %q", got)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
	if err := builtin.InDir(filepath.Join(dir, "gone"))(t.Context(), nil, "a.md", "x"); err == nil {
		t.Error("a directory that is gone was made anew")
	}
	if err := builtin.InDir(outside)(t.Context(), nil, "precious/a.md", "x"); err == nil {
		t.Error("a file became a directory")
	}
}

// When a file of lines reaches its maximum size, it is renamed and a new file begins.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "audit.jsonl")
	write := builtin.Lines(dir, "audit.jsonl")
	for _, old := range []string{"first", "second"} {
		if err := os.WriteFile(name, append(bytes.Repeat([]byte("x"), 16<<20), "\n"+old+"\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"a\n", "b\n"} {
			if err := write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		if got := readFile(t, name); got != "a\nb\n" {
			t.Errorf("the new file has %d bytes: %.20q", len(got), got)
		}
		if got := readFile(t, name+".1"); !strings.HasSuffix(got, old+"\n") {
			t.Errorf("the old file ends in %q, want %s", got[len(got)-10:], old)
		}
	}
}
