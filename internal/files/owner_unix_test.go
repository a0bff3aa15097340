//go:build unix

package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const nobody = 65534

// Only root can change a path if root owns each directory and each link on it.
func TestPath(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := OnlyRootPath(name); err == nil {
			t.Error("what lies below a directory of this user is taken for root's")
		}
		return
	}
	for name, tt := range map[string]struct {
		plant func(t *testing.T, dir string) string
		want  string
	}{
		"root's":    {func(*testing.T, string) string { return "a/b/file" }, ""},
		"not there": {func(*testing.T, string) string { return "a/b/none/none" }, ""},
		"a file of somebody": {func(t *testing.T, dir string) string {
			t.Helper()
			own(t, dir, "a/b/file")
			return "a/b/file"
		}, "is owned by user"},
		"a file that others write": {func(t *testing.T, dir string) string {
			t.Helper()
			mode(t, dir, "a/b/file", 0o664)
			return "a/b/file"
		}, "users other than root can write to it"},
		"a directory of somebody": {func(t *testing.T, dir string) string {
			t.Helper()
			own(t, dir, "a")
			return "a/b/file"
		}, "is owned by user"},
		"a directory that others write": {func(t *testing.T, dir string) string {
			t.Helper()
			mode(t, dir, "a", 0o777)
			return "a/b/file"
		}, "users other than root can write to it"},
		"a sticky one, with what is root's in it": {func(t *testing.T, dir string) string {
			t.Helper()
			mode(t, dir, "a", 0o777|os.ModeSticky)
			return "a/b/file"
		}, ""},
		"a sticky one, with what is somebody's in it": {func(t *testing.T, dir string) string {
			t.Helper()
			mode(t, dir, "a", 0o777|os.ModeSticky)
			own(t, dir, "a/b")
			return "a/b/file"
		}, "is owned by user"},
		"the last one is sticky": {func(t *testing.T, dir string) string {
			t.Helper()
			mode(t, dir, "a/b", 0o777|os.ModeSticky)
			return "a/b"
		}, "users other than root can write to it"},
		"a link of root's to what is somebody's": {func(t *testing.T, dir string) string {
			t.Helper()
			own(t, dir, "a/b")
			link(t, dir, "../a/b/file", "c/link")
			return "c/link"
		}, "is owned by user"},
		"a link of root's to what is root's, in a directory of somebody": {func(t *testing.T, dir string) string {
			t.Helper()
			own(t, dir, "a")
			link(t, dir, filepath.Join(dir, "a/b"), "c/link")
			return "c/link/file"
		}, "is owned by user"},
		"a link of root's to what is root's": {func(t *testing.T, dir string) string {
			t.Helper()
			link(t, dir, "../a/./b", "c/link")
			return "c/link/file"
		}, ""},
		"a link of somebody": {func(t *testing.T, dir string) string {
			t.Helper()
			mode(t, dir, "c", 0o777|os.ModeSticky)
			link(t, dir, "../a/b", "c/link")
			if err := os.Lchown(filepath.Join(dir, "c/link"), nobody, nobody); err != nil {
				t.Fatal(err)
			}
			return "c/link/file"
		}, "a symbolic link that is not owned by root"},
		"links without end": {func(t *testing.T, dir string) string {
			t.Helper()
			link(t, dir, "link", "c/link")
			return "c/link"
		}, "too many symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, sub := range []string{"a/b", "c"} {
				if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "a/b/file"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			at := tt.plant(t, dir)
			err := OnlyRootPath(filepath.Join(dir, at))
			if got := err == nil; got != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("OnlyRootPath(%s) = %v, want %q", at, err, tt.want)
			}
		})
	}
	if err := OnlyRootPath("a/b"); err == nil {
		t.Error("a relative path is taken for root's")
	}
}

func own(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Chown(filepath.Join(dir, name), nobody, nobody); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, dir, name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, dir, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Mine refuses a file that another user can write.
func TestMine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return Mine(info)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	mode(t, dir, "file", 0o620)
	if err := check(); err == nil {
		t.Error("a file that a group can write is taken for one's own")
	}
	if os.Geteuid() == 0 {
		mode(t, dir, "file", 0o600)
		own(t, dir, "file")
		if err := check(); err == nil {
			t.Error("a file of another user is taken for one's own")
		}
	}
}
