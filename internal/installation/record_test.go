package installation

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func sample(id string, at time.Time) Record {
	return Record{
		ID: id, Agent: "claude-code", Scope: "user", Settings: "/home/ann/.claude/settings.json",
		Program: "/usr/local/bin/grapnel-hook", Policy: "/home/ann/.config/grapnel/grapnel.yaml",
		State: "/home/ann/.local/state/grapnel", Path: "/usr/bin:/bin",
		Events: []string{"PreToolUse", "SessionEnd"}, TimeoutMS: 60000,
		EventTimeoutsMS: map[string]int64{"SessionEnd": 3000}, FailClosed: true,
		Made:    Made{File: true, Dirs: []string{"/home/ann/.claude"}, Gaps: map[string]string{"": "\n"}},
		Version: "0.1.0", Time: at,
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if recs, err := List(dir); recs != nil || err != nil {
		t.Errorf("List of a directory that does not exist = %v, %v", recs, err)
	}
	day := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	later, earlier := sample(idA, day.Add(time.Hour)), sample(idB, day)
	for _, rec := range []Record{later, earlier} {
		if err := Write(dir, rec); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(dir, idA)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(later, got); diff != "" {
		t.Errorf("Read after Write (-want +got):\n%s", diff)
	}
	if got.Timeout("PreToolUse") != time.Minute || got.Timeout("SessionEnd") != 3*time.Second {
		t.Errorf("Timeout = %v and %v, want 1m and 3s", got.Timeout("PreToolUse"), got.Timeout("SessionEnd"))
	}

	// Other files do not disturb the list, and the error names a broken record.
	for name, data := range map[string]string{
		"README.json": "{}", ".new-123": "{", "cccccccccccccccccccccccccc.json": "{",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	recs, err := List(dir)
	if diff := cmp.Diff([]Record{earlier, later}, recs); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if err == nil || !strings.Contains(err.Error(), "installation cccccccccccccccccccccccccc:") {
		t.Errorf("List: error %v does not name the broken record", err)
	}

	for range 2 { // the second time no record is left
		if err := Remove(dir, idA); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if _, err := Read(dir, idA); !errors.Is(err, ErrNotFound) {
		t.Errorf("Read after Remove: %v, want ErrNotFound", err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "secret.json"), []byte(`{"id":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(id, data string, mode os.FileMode) {
		t.Helper()
		name := filename(dir, id)
		if err := os.WriteFile(name, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
	}
	id := func(c string) string { return strings.Repeat(c, idLength) }
	write(id("c"), "{", 0o600)
	write(id("d"), `{"id":"`+idA+`"}`, 0o600)
	write(id("e"), `{"id":"`+id("e")+`"}`, 0o620)
	write(id("f"), `{"id":"`+id("f")+`","agent":"`+strings.Repeat("x", maxSize)+`"}`, 0o600)
	if err := os.Mkdir(filename(dir, id("g")), 0o700); err != nil {
		t.Fatal(err)
	}

	tests := map[string]struct {
		id   string
		want string
	}{
		"empty":               {"", "not a token"},
		"path":                {"../secret", "not a token"},
		"path of good length": {"../../../../../../etc/host", "not a token"},
		"upper case":          {strings.ToUpper(idA), "not a token"},
		"too long":            {idA + "a", "not a token"},
		"NUL":                 {idA[:25] + "\x00", "not a token"},
		"absent":              {id("z"), ErrNotFound.Error()},
		"broken":              {id("c"), "unexpected end of JSON input"},
		"of another":          {id("d"), "is the record of"},
		"group-writable":      {id("e"), "is writable by other users (mode 0620)"},
		"huge":                {id("f"), "larger than"},
		"directory":           {id("g"), "not a regular file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && name == "group-writable" {
				t.Skip("Windows has no such mode")
			}
			rec, err := Read(dir, tt.id)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Read(%q) = %+v, %v, want an error with %q", tt.id, rec, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), `run "grapnel install" again`) {
				t.Errorf("Read(%q): %v names no way out", tt.id, err)
			}
		})
	}
}

// A record that another user has written, or can replace, is invalid.
func TestReadOfOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "installs")
	if err := Write(dir, Record{ID: idA}); err != nil {
		t.Fatal(err)
	}
	wrong := func(want string) {
		t.Helper()
		if rec, err := Read(dir, idA); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read = %+v, %v, want an error with %q", rec, err, want)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	wrong("all users can write")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filename(dir, idA), 65534, -1); err != nil {
			t.Fatal(err)
		}
		wrong("it is owned by user 65534")
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "installs")
	if err := Write(dir, Record{ID: "../x"}); err == nil {
		t.Error("Write accepted an ID that is no token")
	}
	if err := Remove(dir, "../x"); err == nil {
		t.Error("Remove accepted an ID that is no token")
	}
	rec := sample(idA, time.Now().UTC())
	for _, version := range []string{"1", "2"} {
		rec.Version = version
		if err := Write(dir, rec); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir, idA); err != nil || got.Version != version {
			t.Errorf("Read = version %q, %v, want %q", got.Version, err, version)
		}
	}
	if runtime.GOOS != "windows" {
		for name, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filename(dir, idA): 0o600} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%s holds %v, %v, want the record alone", dir, entries, err)
	}
	// A directory has the name of the file: the write fails and leaves no temporary file.
	if err := os.Mkdir(filename(dir, idB), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, sample(idB, time.Now())); err == nil {
		t.Error("Write over a directory succeeded")
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".new-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDirOfRoot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if got, err := Dir(root); err != nil || got != filepath.Join(root, "state", "installs") {
		t.Errorf("Dir(%q) = %q, %v", root, got, err)
	}
	got, err := State("some/where")
	if err != nil || !filepath.IsAbs(got) || !strings.HasSuffix(got, filepath.Join("some", "where", "state")) {
		t.Errorf("State of a relative root = %q, %v", got, err)
	}
}

// Environment variables from an agent's project settings must not change the directory of the
// installations.
func TestStateIgnoresEnvironment(t *testing.T) {
	before, errBefore := State("")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("USER", "mallory")
	after, errAfter := State("")
	if before != after || (errBefore == nil) != (errAfter == nil) {
		t.Errorf("State changed with the environment: %q, %v became %q, %v", before, errBefore, after, errAfter)
	}
	if errBefore == nil && !strings.HasSuffix(after, filepath.Join(".local", "state", "grapnel")) {
		t.Errorf("State(%q) = %q", "", after)
	}
}
