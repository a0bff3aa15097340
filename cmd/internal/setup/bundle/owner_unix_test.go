//go:build unix

package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/cli"
)

// Without --root, root must own the keys, the state and the policies, and no other user may be able
// to change them.
func TestOnlyRoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.publish(textOf(5, "2031-12-31", "good"))
	m.pulls("in a root of its own", textOf(5, "2031-12-31", "good"), true)
	m.Place.Standing = false
	if os.Geteuid() != 0 { // then nothing of the test belongs to root
		if _, err := m.Pull(t.Context(), m.url); err == nil || cli.HintOf(err) != onlyRoot {
			t.Errorf("files of a user: %v, hint %q", err, cli.HintOf(err))
		}
		if _, err := ReadKeys(m.Place, ""); err == nil {
			t.Error("keys of a user are accepted")
		}
		return
	}
	m.pulls("files of root", textOf(5, "2031-12-31", "good"), false)
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write(t, elsewhere, string(read(t, KeysFile(m.Place))))
	for _, name := range []string{KeysFile(m.Place), in(m.Place, "signed.json"), Active(m.Place), Active(m.Place) + Suffix, filepath.Dir(Active(m.Place)), m.Place.Managed} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func() error{
			"writable by all":   func() error { return os.Chmod(name, info.Mode().Perm()|0o002) },
			"writable by group": func() error { return os.Chmod(name, info.Mode().Perm()|0o020) },
			"of another user":   func() error { return os.Chown(name, 65534, 65534) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if got, err := m.Pull(t.Context(), m.url); err == nil || cli.HintOf(err) == "" {
				t.Errorf("%s is %s: %+v, %v", name, what, got, err)
			}
			if os.Chmod(name, info.Mode().Perm()) != nil || os.Chown(name, 0, 0) != nil {
				t.Fatal("cannot restore")
			}
		}
	}
	m.pulls("restored", textOf(5, "2031-12-31", "good"), false)
	if err := os.Remove(KeysFile(m.Place)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, KeysFile(m.Place)); err != nil {
		t.Fatal(err)
	}
	m.pulls("a link of root to a file of root", textOf(5, "2031-12-31", "good"), false)
	if err := os.Lchown(KeysFile(m.Place), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Pull(t.Context(), m.url); err == nil || !strings.Contains(err.Error(), "symbolic link that is not owned by root") {
		t.Errorf("a link of another user: %v", err)
	}
}

// A link in place of a file is replaced, and its target stays as it is.
func TestPullReplacesLinks(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	victim := filepath.Join(t.TempDir(), "victim")
	write(t, victim, "version: 1\n")
	if err := os.MkdirAll(filepath.Dir(Active(m.Place)), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Active(m.Place), Active(m.Place) + Suffix} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	m.publish(textOf(5, "2031-12-31", "good"))
	m.pulls("over links", textOf(5, "2031-12-31", "good"), true)
	if got := string(read(t, victim)); got != "version: 1\n" {
		t.Errorf("the target of the link is now %q", got)
	}
	if info, err := os.Lstat(Active(m.Place)); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the policy in force: %v, %v", info, err)
	}
}
