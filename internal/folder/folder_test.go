package folder_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/folder"
)

func TestList(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	for _, file := range []string{"b", "a"} {
		if err := os.WriteFile(filepath.Join(name, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := folder.List(name)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("List = %q, %v, want a and b", names, err)
	}
	if _, err := folder.List(filepath.Join(name, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("List of what is not there: %v, want ErrNotExist", err)
	}
}
