package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/policy/load"

	"github.com/google/go-cmp/cmp"
)

// neighbors returns session IDs whose roots are in one directory of the store.
func neighbors(n int, first string) []string {
	var ids []string
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprint("s", i)
		if strings.HasPrefix(sessionKey("a", id), first) {
			ids = append(ids, id)
		}
	}
	return ids
}

// stored lists the files that contain roots.
func stored(t *testing.T, p Place) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.sessions(), "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// age moves the last use of all roots into the past.
func age(t *testing.T, p Place, by time.Duration) {
	t.Helper()
	for _, file := range stored(t, p) {
		info, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, info.ModTime().Add(-by)); err != nil {
			t.Fatal(err)
		}
	}
	if p.Roots != nil {
		for name, kept := range p.Roots.known {
			kept.used = kept.used.Add(-by)
			p.Roots.known[name] = kept
		}
	}
}

// A root that was not used for more than seven days is removed for a new one.
func TestIdleRootsMakeRoom(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "q/.git")
	p := Place{State: filepath.Join(dir, "state")}
	ids := neighbors(rootsPerDir+1, "c3")
	for _, id := range ids[:rootsPerDir] {
		if _, err := p.SessionDirs(in(id, filepath.Join(dir, "p")), true); err != nil {
			t.Fatal(err)
		}
	}
	age(t, p, rootIdle-time.Minute)
	if _, err := p.SessionDirs(in(ids[0], dir), true); err != nil { // used again
		t.Fatal(err)
	}
	last := in(ids[rootsPerDir], filepath.Join(dir, "q"))
	if _, err := p.SessionDirs(last, true); err == nil || !strings.Contains(err.Error(), "too many sessions") {
		t.Errorf("%v, want that there is no room", err)
	}
	age(t, p, rootRefresh+2*time.Minute)
	if dirs, err := p.SessionDirs(last, true); err != nil || dirs[0].Path != filepath.Join(dir, "q") {
		t.Errorf("%v, %v, want that there is room", dirs, err)
	}
	if got := len(stored(t, p)); got != 2 {
		t.Errorf("%d roots are left, want 2", got)
	}
}

// If there is no room for the root of a session, Grapnel uses the working directory and the trusted
// policies above it, counts the refusal and returns an error. The session gets a root as soon as
// there is room.
func TestRefusedRoot(t *testing.T) {
	t.Parallel()
	for name, cache := range map[string]*Roots{"files": nil, "memory": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := makeDirs(t, "work/p/.git", "work/p/sub")
			trustProject(t, dir, "work")
			p := Place{State: filepath.Join(dir, "root", "state"), Roots: cache}
			ids := neighbors(rootsPerDir+1, "07")
			for _, id := range ids[:rootsPerDir] {
				p.Dirs(in(id, dir), true)
			}
			for range 3 {
				refused := in(ids[rootsPerDir], filepath.Join(dir, "work", "p", "sub"))
				dirs, err := p.SessionDirs(refused, true)
				want := []Dir{{Path: filepath.Join(dir, "work", "p")}, {Path: filepath.Join(dir, "work", "p", "sub")}, {Path: filepath.Join(dir, "work"), GuardsOnly: true}}
				if diff := cmp.Diff(want, dirs); diff != "" || err == nil || !strings.Contains(err.Error(), "too many sessions") {
					t.Errorf("%v (-want +got)\n%s", err, diff)
				}
			}
			if n, last := p.RootsRefused(time.Now()); n != 3 || last.IsZero() {
				t.Errorf("%d refusals are counted, the last at %v, want 3", n, last)
			}
			if n, _ := p.RootsRefused(time.Now().Add(rootIdle + time.Hour)); n != 0 {
				t.Errorf("%d refusals are counted a week later", n)
			}
			if err := os.Remove(stored(t, p)[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := p.SessionDirs(in(ids[rootsPerDir], dir), true); err != nil {
				t.Errorf("%v, want a root, since there is room", err)
			}
		})
	}
}

// A new session reads the roots of only a few other sessions. Regression: it listed and sorted all
// of them.
func TestNewSessionLooksAtFewOthers(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git")
	p := Place{State: filepath.Join(dir, "state")}
	cwd := filepath.Join(dir, "p")
	for i := range 1001 {
		p.Dirs(in(fmt.Sprint(i), cwd), true)
	}
	most := 0
	for _, shard := range must(filepath.Glob(filepath.Join(p.sessions(), "*"))) {
		most = max(most, len(must(filepath.Glob(filepath.Join(shard, "*")))))
	}
	if n := len(stored(t, p)); n != 1001 || most > 20 {
		t.Errorf("%d roots are stored, %d in one directory, want 1001 and few", n, most)
	}
}

func must(names []string, _ error) []string { return names }

// Each session ID has its own file in the store, whatever characters it contains.
func TestSpellingOfSessions(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "q/.git")
	p := Place{State: filepath.Join(dir, "state")}
	ids := []string{"s", "S", " s", "../s", "/etc/passwd", "refused", "a/b", ".new-1", "\x00", "s\x00", strings.Repeat("x", 1<<20), strings.Repeat("../", 100)}
	p.Dirs(in(ids[0], filepath.Join(dir, "p")), true)
	for _, id := range ids[1:] {
		if got := p.Dirs(in(id, filepath.Join(dir, "q")), true); got[0].Path != filepath.Join(dir, "q") {
			t.Errorf("session %.20q has the root of another one: %v", id, got)
		}
	}
	if got := p.Dirs(in(ids[0], filepath.Join(dir, "q")), true); got[0].Path != filepath.Join(dir, "p") {
		t.Errorf("%v, want that no other session moves the root", got)
	}
	if n := len(stored(t, p)); n != len(ids) {
		t.Errorf("%d files, want %d", n, len(ids))
	}
	for _, file := range stored(t, p) {
		if rel, err := filepath.Rel(p.sessions(), file); err != nil || len(rel) != 33 {
			t.Errorf("%s is no digest", file)
		}
	}
	// An event without a session ID stores no root.
	p.Dirs(in("", filepath.Join(dir, "q")), true)
	if n := len(stored(t, p)); n != len(ids) {
		t.Errorf("an event without a session stored a root")
	}
}

// If the clock was ahead when a root was stored, the root does not stay until that time.
func TestRootOfTheFuture(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git")
	p := Place{State: filepath.Join(dir, "state")}
	ids := neighbors(3, "11")
	for _, id := range ids[:2] {
		p.Dirs(in(id, filepath.Join(dir, "p")), true)
	}
	age(t, p, -60*24*time.Hour)
	p.Dirs(in(ids[0], dir), true) // used again
	p.Dirs(in(ids[2], dir), true) // a new session, so Grapnel checks the other roots
	for _, file := range stored(t, p) {
		info, err := os.Lstat(file)
		if err != nil || info.ModTime().After(time.Now().Add(time.Hour)) {
			t.Errorf("%v, %v is still of the future", info.ModTime(), err)
		}
	}
}

// trustProject writes a policy into a project and trusts it. It returns the value of --root.
func trustProject(t *testing.T, dir, project string) (root string) {
	t.Helper()
	root = filepath.Join(dir, "root")
	place, err := Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, project, ProjectPolicy)
	text := "version: 1\nhooks:\n  - {name: no-deploy, on: tool.before, match: {command: [deploy]}, block: not from " + project + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	x, errs := load.Examine(file, filepath.Dir(file), load.Packs{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := place.Trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	return root
}
