package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/match"
)

// makeDirs creates directories below a new one and returns the new one.
func makeDirs(t *testing.T, names ...string) string {
	t.Helper()
	dir := match.RealPath(t.TempDir())
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func in(session, cwd string) *grapnel.Event {
	return &grapnel.Event{Kind: grapnel.ToolBefore, Agent: grapnel.Agent{Name: "a"}, Session: grapnel.Session{ID: session, CWD: cwd}}
}

// below returns the paths of directories relative to dir.
func below(t *testing.T, dir string, dirs []Dir) []string {
	t.Helper()
	var names []string
	for _, d := range dirs {
		rel, err := filepath.Rel(dir, d.Path)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(rel))
	}
	return names
}

func TestDirsOf(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "p/a/b", "p/mod/x", "hg/.hg", "hg/s", "jj/.jj", "none/x")
	if err := os.WriteFile(filepath.Join(dir, "p/mod/.git"), []byte("gitdir: x"), 0o600); err != nil { // a submodule
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "p", "a"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for cwd, want := range map[string][]string{
		"p":       {"p"},
		"p/a/b":   {"p", "p/a", "p/a/b"},
		"p/mod/x": {"p/mod", "p/mod/x"},
		"hg/s":    {"hg", "hg/s"},
		"jj":      {"jj"},
		"none/x":  {"none/x"},
		"p/gone":  {"p", "p/gone"},
		"link":    {"p", "p/a"}, // no directory above the link is a project, but a directory above its target is
	} {
		if diff := cmp.Diff(want, below(t, dir, Place{}.DirsOf(filepath.Join(dir, cwd)))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", cwd, diff)
		}
	}
}

// The first event of a session fixes the root; no change of directory moves it.
func TestRootIsFixed(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "p/a/b", "other/.git", "plain/sub")
	p := Place{State: filepath.Join(dir, "state")}
	for _, tt := range []struct {
		session, cwd string
		want         []string
	}{
		{"one", "p/a", []string{"p", "p/a"}},
		{"one", "p", []string{"p"}},
		{"one", "p/a/b", []string{"p", "p/a", "p/a/b"}},
		{"one", "other", []string{"p"}},
		{"one", ".", []string{"p"}},
		{"two", "other", []string{"other"}},
		{"two", "p/a", []string{"other"}},
		{"plain", "plain", []string{"plain"}},
		{"plain", "plain/sub", []string{"plain", "plain/sub"}},
		{"", "p", []string{"p"}},
		{"", "other", []string{"other"}}, // an event without a session ID has no session
	} {
		got := p.Dirs(in(tt.session, filepath.Join(dir, tt.cwd)), true)
		if diff := cmp.Diff(tt.want, below(t, dir, got)); diff != "" {
			t.Errorf("session %q in %s (-want +got)\n%s", tt.session, tt.cwd, diff)
		}
	}
	// A session of another agent with the same ID is a different session.
	ev := in("one", filepath.Join(dir, "other"))
	ev.Agent.Name = "b"
	if got := below(t, dir, p.Dirs(ev, true)); got[0] != "other" {
		t.Errorf("another agent's session: %v", got)
	}
}

// A root that the agent names fixes the root, not the working directory of one call, which a model
// can choose.
func TestRootOfTheAgent(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "p/a", "other/.git")
	p := Place{State: filepath.Join(dir, "state")}
	for _, cwd := range []string{"other", "p/a"} {
		ev := in("one", filepath.Join(dir, cwd))
		ev.Session.Root = filepath.Join(dir, "p", "a")
		if got := below(t, dir, p.Dirs(ev, true)); got[0] != "p" || ev.Session.Root != filepath.Join(dir, "p") {
			t.Errorf("in %s: directories %v, root %s; want those of p", cwd, got, ev.Session.Root)
		}
	}
}

// Without keep, Dirs stores no root.
func TestDirsWithoutKeeping(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git")
	p := Place{State: filepath.Join(dir, "state")}
	p.Dirs(in("s", filepath.Join(dir, "p")), false)
	if _, err := os.Stat(p.State); !os.IsNotExist(err) {
		t.Errorf("%v, want nothing to be written", err)
	}
}

// A root keeps the path that the agent sent, so that names through a link still match. The
// directories are resolved paths.
func TestRootThroughALink(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git", "p/a")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "p"), link); err != nil {
		t.Fatal(err)
	}
	p := Place{State: filepath.Join(dir, "state")}
	ev := in("s", filepath.Join(link, "a"))
	got := p.Dirs(ev, true)
	if diff := cmp.Diff([]string{"p", "p/a"}, below(t, dir, got)); diff != "" || ev.Session.Root != link {
		t.Errorf("root %s (-want +got)\n%s", ev.Session.Root, diff)
	}
}

// If an event does not name the agent's directory, Grapnel uses the directory of the hook program.
func TestDirsWithoutDirectory(t *testing.T) {
	dir := makeDirs(t, "p/.git")
	t.Chdir(filepath.Join(dir, "p"))
	p := Place{State: filepath.Join(dir, "state")}
	for _, cwd := range []string{"", "relative", "."} {
		if diff := cmp.Diff([]string{"p"}, below(t, dir, p.Dirs(in("", cwd), true))); diff != "" {
			t.Errorf("%q (-want +got)\n%s", cwd, diff)
		}
	}
}

func TestDirsOfALongPath(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p/.git")
	p := Place{State: filepath.Join(dir, "state")}
	root := filepath.Join(dir, "p")
	p.Dirs(in("s", root), true)
	if got := p.Dirs(in("s", root+strings.Repeat("/x", 1<<20)), true); len(got) != 1 {
		t.Errorf("%d directories, want the root alone", len(got))
	}
}

// If several first events of a session arrive at once, all use the same root.
func TestRootAtOnce(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "state")
	p := Place{State: filepath.Join(dir, "state")}
	var all sync.WaitGroup
	roots := make([]string, 16)
	for i := range roots {
		cwd := filepath.Join(dir, fmt.Sprint(i))
		all.Go(func() { roots[i] = p.Dirs(in("s", cwd), true)[0].Path })
	}
	all.Wait()
	for _, root := range roots {
		if root != roots[0] {
			t.Fatalf("%q, want one root", roots)
		}
	}
	left, err := filepath.Glob(filepath.Join(p.sessions(), "*", "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v, want one file", left, err)
	}
}

// A damaged file of a root is written again.
func TestDamagedRoot(t *testing.T) {
	t.Parallel()
	dir := makeDirs(t, "p")
	p := Place{State: filepath.Join(dir, "state")}
	p.Dirs(in("s", filepath.Join(dir, "p")), true)
	files, err := filepath.Glob(filepath.Join(p.sessions(), "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(files[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cwd := range []string{"p", "."} {
		if got := p.Dirs(in("s", filepath.Join(dir, cwd)), true)[0].Path; got != filepath.Join(dir, "p") {
			t.Errorf("in %s: root %s", cwd, got)
		}
	}
}
