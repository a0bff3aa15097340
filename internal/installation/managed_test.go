//go:build unix

package installation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A managed record is valid only if only root can write it. Otherwise Find returns an error and
// does not search for another record.
func TestFindManaged(t *testing.T) {
	t.Parallel()
	managed := t.TempDir()
	id := strings.Repeat("m", idLength)
	rec := Record{ID: id, Agent: "claude-code", Scope: "managed", Program: "/usr/bin/grapnel-hook"}
	if _, err := find(managed, id); !errors.Is(err, ErrNotFound) {
		t.Fatalf("before it is there: %v", err)
	}
	dir := filepath.Join(managed, "installs")
	if err := Write(dir, rec); err != nil {
		t.Fatal(err)
	}
	name := filename(dir, id)
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v: others have to read it", info.Mode(), err)
	}
	got, err := find(managed, id)
	if os.Geteuid() != 0 {
		if err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "not by root") {
			t.Errorf("a record of this user: %+v, %v", got, err)
		}
		return
	}
	if err != nil || got.ID != id {
		t.Errorf("= %+v, %v", got, err)
	}
	for what, spoil := range map[string]func() error{
		"not by root":               func() error { return os.Chown(name, 65534, -1) },
		"users other than root can": func() error { return errors.Join(os.Chown(name, 0, 0), os.Chmod(name, 0o666)) },
		"installs: it is owned by":  func() error { return os.Chown(dir, 65534, -1) },
		`is the record of "m`:       func() error { rec.Scope = "user"; return Write(dir, rec) },
		"unexpected end of JSON":    func() error { return os.WriteFile(name, nil, 0o644) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if got, err := find(managed, id); err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: = %+v, %v", what, got, err)
		}
		rec.Scope = "managed"
		if err := os.Chown(dir, 0, -1); err != nil {
			t.Fatal(err)
		}
		if err := Write(dir, rec); err != nil {
			t.Fatal(err)
		}
	}
}
