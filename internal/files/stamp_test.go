package files

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A stamp notices each change of a file: of its content, a replacement of the same size, its
// removal, and a file that appears.
func TestCurrent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(file, missing string) error{
		"content":  func(file, _ string) error { return os.WriteFile(file, []byte("longer"), 0o600) },
		"mode":     func(file, _ string) error { return os.Chmod(file, 0o400) },
		"removal":  func(file, _ string) error { return os.Remove(file) },
		"new file": func(_, missing string) error { return os.WriteFile(missing, nil, 0o600) },
		"replacement": func(file, _ string) error {
			next := file + ".new"
			if err := os.WriteFile(next, []byte("TEXT"), 0o600); err != nil {
				return err
			}
			return os.Rename(next, file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file, missing := filepath.Join(dir, "file"), filepath.Join(dir, "missing")
			if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			stamps := StampsOf(Stamped{Path: file}, Stamped{Path: missing})
			later := time.Now().Add(time.Hour) // the clock of the file system is coarse
			if !stamps.Current(later) {
				t.Error("nothing changed, and the stamps are not current")
			}
			if stamps.Current(time.Now().Add(-time.Hour)) {
				t.Error("the file changed after it was read, and the stamps are current")
			}
			if err := change(file, missing); err != nil {
				t.Fatal(err)
			}
			if stamps.Current(later) {
				t.Error("the change is not noticed")
			}
		})
	}
}
