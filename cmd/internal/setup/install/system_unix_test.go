//go:build unix

package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The owner of a file stays. An installation for another user returns a note that the record is
// in the wrong home directory.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const uid, gid = 12345, 23456
	m := newMachine(t)
	file := m.write(filepath.Join(m.home, ".claude", "settings.json"), claudeSettings)
	if err := os.Chown(file, uid, gid); err != nil {
		t.Skipf("this root cannot give files away: %v", err)
	}
	res := m.install(m.request("claude"))
	if notes := strings.Join(res.Files[0].Notes, "\n"); !strings.Contains(notes, "is owned by user 12345") {
		t.Errorf("notes %q do not name the owner", notes)
	}
	for range 2 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := sysStat(info); !ok || st.Uid != uid || st.Gid != gid {
			t.Errorf("the file belongs to %d:%d now", st.Uid, st.Gid)
		}
		m.uninstall(m.request("claude"))
	}
	if got := m.read(file); got != claudeSettings {
		t.Errorf("after all the file is\n%s", got)
	}
}
