package load

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/policy/match"
)

// Facts that several files and packs need are computed once.
func TestFactsAreShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var files []File
	for _, name := range []string{"a.yaml", "b.yaml"} {
		file := filepath.Join(dir, name)
		text := "version: 1\nhooks:\n  - {name: x, on: tool.before, match: {command: rm}, block: no}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Path: file, Must: true})
	}
	set := Policies(Request{Files: files})
	if len(set.Specs) != 3 { // with the recorder of written files
		t.Fatalf("%d hooks, want 3: %+v", len(set.Specs), set.Files)
	}
	a, isA := set.Specs[0].Match.(*match.Matcher)
	b, isB := set.Specs[1].Match.(*match.Matcher)
	if !isA || !isB || a.Facts != b.Facts {
		t.Errorf("%T and %T keep facts of their own", set.Specs[0].Match, set.Specs[1].Match)
	}
}
