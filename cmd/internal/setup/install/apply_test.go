package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func change(file, before, after string) *Change {
	return &Change{Agent: "a", File: file, Before: []byte(before), After: []byte(after)}
}

func TestApplyFollowsLinks(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	target := m.write(filepath.Join(m.home, "dotfiles", "claude.json"), claudeSettings)
	link := filepath.Join(m.home, ".claude", "settings.json")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..", "dotfiles", "claude.json"), link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	before := tree(t, m.home)
	res := m.install(m.request("claude"))
	if notes := strings.Join(res.Files[0].Notes, "\n"); !strings.Contains(notes, "Grapnel edits "+target) {
		t.Errorf("notes %q do not name %s", notes, target)
	}
	if got := m.read(target); got == claudeSettings {
		t.Error("the target of the link did not change")
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link became %v, %v", info, err)
	}
	m.uninstall(m.request("claude"))
	if diff := cmp.Diff(before, tree(t, m.home)); diff != "" {
		t.Errorf("left (-before +after):\n%s", diff)
	}
}

// Grapnel created the file, then the user moved it and left a link: uninstallation keeps it.
func TestUninstallKeepsMovedFile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	link := m.install(m.request("claude")).Files[0].File
	target := filepath.Join(m.home, "dotfiles.json")
	if err := os.Rename(link, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	m.uninstall(m.request("claude"))
	if got := m.read(link); got != "{}\n" {
		t.Errorf("the file became %q", got)
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		prepare func(file string) error
		want    string
	}{
		"dangling link": {func(f string) error { return os.Symlink("nowhere", f) }, "a symbolic link to a file that does not exist"},
		"directory":     {func(f string) error { return os.Mkdir(f, 0o755) }, "not a regular file"},
		"read-only":     {func(f string) error { return os.WriteFile(f, []byte("{}"), 0o444) }, "read-only (mode 0444)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			file := filepath.Join(m.home, ".claude", "settings.json")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tt.prepare(file); err != nil {
				t.Fatal(err)
			}
			before := tree(t, m.home)
			_, err := Install(t.Context(), m.request("claude"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("Install: %v, want an error with %q and the file", err, tt.want)
			}
			if diff := cmp.Diff(before, tree(t, m.home)); diff != "" {
				t.Errorf("touched (-before +after):\n%s", diff)
			}
			if recs := m.records(); len(recs) != 0 {
				t.Errorf("records left: %+v", recs)
			}
		})
	}
}

func TestApplyChecksContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "settings.json")
	backups := filepath.Join(dir, "backups")
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Change{
		"other content": change(file, "{ }", "{\"a\":1}"),
		"no file":       {Agent: "a", File: file, After: []byte("{}")},
		"removal":       {Agent: "a", File: file, Before: []byte("{ }")},
	} {
		if _, err := Apply(c, backups, time.Now()); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want ErrChanged", name, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if backup, err := Apply(change(file, "{}", "{}"), backups, time.Now()); backup != "" || err != nil {
		t.Errorf("no change: %q, %v", backup, err)
	}
}

// If the backup fails, no file is written.
func TestApplyNeedsBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backups := filepath.Join(dir, "settings.json"), filepath.Join(dir, "backups")
	for _, name := range []string{file, backups} { // a file where the directory should be
		if err := os.WriteFile(name, []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Apply(change(file, "{}", "{\"a\":1}"), backups, time.Now()); err == nil || !strings.Contains(err.Error(), "no backup") {
		t.Errorf("Apply: %v, want an error about the backup", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "{}" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

func TestBackupsArePruned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, backups := filepath.Join(dir, "settings.json"), filepath.Join(dir, "backups")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	text := []byte("{}")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	others := []string{filepath.Join(backups, "b-20200101T000000.000Z-00000000.json"), filepath.Join(backups, "notes.txt")}
	for _, name := range others {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var made []string
	for i := range keepBackups + 3 {
		next := bytes.Repeat([]byte(" "), i+1)
		next = append(next, "{}"...)
		backup, err := Apply(&Change{Agent: "a", File: file, Before: text, After: next}, backups, now.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(backup); err != nil || !bytes.Equal(got, text) {
			t.Errorf("backup %s holds %q, %v, want %q", backup, got, err, text)
		}
		made, text = append(made, backup), next
	}
	if want := filepath.Join(backups, "a-20260102T020405.000Z-44136fa3.json"); made[0] != want {
		t.Errorf("first backup %s, want %s", made[0], want)
	}
	got, err := filepath.Glob(filepath.Join(backups, "*"))
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(append(others, made[3:]...)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("backups (-want +got):\n%s", diff)
	}
}

// Removal also removes the directories that installation created, if they are empty.
func TestRemoveDirs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b", "c", "settings.json")
	dirs := missingDirs(file)
	if want := []string{filepath.Join(dir, "a"), filepath.Join(dir, "a", "b"), filepath.Join(dir, "a", "b", "c")}; !slices.Equal(dirs, want) {
		t.Fatalf("missing directories %v, want %v", dirs, want)
	}
	c := &Change{Agent: "a", File: file, After: []byte("{}"), Perm: 0o644}
	if _, err := Apply(c, filepath.Join(dir, "backups"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dirs[2]); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o500 != 0o500 {
		t.Errorf("%s: %v, %v", dirs[2], info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dirs[0], "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Before, c.After = c.After, nil
	c.Made.Dirs = dirs
	if _, err := Apply(c, filepath.Join(dir, "backups"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dirs[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", dirs[1], err)
	}
	if _, err := os.Stat(filepath.Join(dirs[0], "mine")); err != nil {
		t.Errorf("the file of somebody else: %v", err)
	}
}
