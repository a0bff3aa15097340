package files

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	for what, write := range map[string]func(string, []byte, fs.FileMode) error{"Write": Write, "WriteSync": WriteSync} {
		for _, mode := range []fs.FileMode{0o600, 0o644, 0o666} {
			name := filepath.Join(t.TempDir(), "file")
			for _, text := range []string{"old and longer", "new"} {
				if err := write(name, []byte(text), mode); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if got, err := os.ReadFile(name); err != nil || string(got) != text {
					t.Errorf("%s: the file holds %q, %v, want %q", what, got, err, text)
				}
			}
			if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode() != mode {
				t.Errorf("%s: the mode is %v, %v, want %v", what, info.Mode(), err, mode)
			}
		}
	}
}

// A failed write keeps the old file and leaves no temporary file.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(name, "inside"), 0o700); err != nil { // a file cannot replace a directory that is not empty
		t.Fatal(err)
	}
	if err := WriteSync(name, []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if err := Write(filepath.Join(dir, "absent", "file"), []byte("x"), 0o600); err == nil {
		t.Error("a file was written into a directory that does not exist")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the directory holds %v, %v, want only what was there", left, err)
	}
}

func TestReadersSeeWholeFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace a file that somebody reads")
	}
	name := filepath.Join(t.TempDir(), "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<15)}
	if err := Write(name, contents[0], 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, content := range contents {
		writers.Go(func() {
			for range 50 {
				if err := Write(name, content, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 100 {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
			t.Fatalf("read %d bytes, %v, want one of the contents", len(got), err)
		}
	}
	writers.Wait()
}
