package files_test

import (
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/files"
)

func TestBelow(t *testing.T) {
	t.Parallel()
	root := filepath.VolumeName(t.TempDir()) + "/"
	for _, c := range []struct {
		dir, path, rel string
		ok             bool
	}{
		{"a", "a/b/c", "b/c", true},
		{"a/", "a", ".", true},
		{"a", "ab", "", false},
		{"a/b", "a", "", false},
		{"a", "a/../b", "", false},
		{"a", "a/..b", "..b", true},
		{"", "b", "", false},
		{"", "", "", false},
		{"a", "", "", false},
		{"", "x", "", false},
		{".", "x", "x", true},
	} {
		for _, base := range []string{root, ""} {
			dir, path := c.dir, c.path
			if base != "" && dir != "" && dir != "." {
				dir, path = base+dir, base+path
			}
			if rel, ok := files.Below(filepath.FromSlash(dir), filepath.FromSlash(path)); rel != c.rel || ok != c.ok {
				t.Errorf("Below(%q, %q) = %q, %v, want %q, %v", dir, path, rel, ok, c.rel, c.ok)
			}
		}
	}
	if _, ok := files.Below("relative", root+"absolute"); ok {
		t.Error("an absolute path is below a relative directory")
	}
}
