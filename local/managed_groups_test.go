package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
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

// A daemon loads the policies again when the groups of the machine change.
func TestStampsOfGroups(t *testing.T) {
	t.Parallel()
	place, err := Locate(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(place.GroupsFile()), 0o755); err != nil {
		t.Fatal(err)
	}
	stamps, read := place.Stamps(nil), time.Now()
	if !stamps.Current(read) {
		t.Error("nothing changed, but the stamps are not current")
	}
	if err := os.WriteFile(place.GroupsFile(), []byte("canary\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if stamps.Current(read) {
		t.Error("the groups changed, but the stamps are current")
	}
}
