package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestGroupsFile(t *testing.T) {
	t.Parallel()
	place, err := Locate(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := place.groups(); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	if err := os.MkdirAll(filepath.Dir(place.GroupsFile()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place.GroupsFile(), []byte("# of this machine\ncanary\r\n\n  lab # second floor\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := place.groups(); !slices.Equal(got, []string{"canary", "lab"}) || err != nil {
		t.Errorf("groups = %q, %v", got, err)
	}
	if err := os.Remove(place.GroupsFile()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(place.GroupsFile(), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := place.groups(); err == nil {
		t.Errorf("a directory lists the groups %q", got)
	}
	if got, err := (Place{}).groups(); got != nil || err != nil {
		t.Errorf("without managed policies: %v, %v", got, err)
	}
}
