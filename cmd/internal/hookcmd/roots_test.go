package hookcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/cmd/internal/daemon/client"
	"github.com/grapnel-dev/grapnel/internal/spool"
	"github.com/grapnel-dev/grapnel/policy"
)

// neighbors returns session IDs whose roots are in one directory of the store.
func neighbors(n int, first string) []string {
	var ids []string
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprint("s", i)
		if strings.HasPrefix(nameOf("a", id), first) {
			ids = append(ids, id)
		}
	}
	return ids
}

// stored lists the files with roots.
func stored(t *testing.T, p Place) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.sessions(), "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// age makes all roots look as if they had been used earlier.
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
	if p.roots != nil {
		for name, kept := range p.roots.known {
			kept.used = kept.used.Add(-by)
			p.roots.known[name] = kept
		}
	}
}

// A root that nobody used for more than seven days makes room.
func TestIdleRootsMakeRoom(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git", "q/.git")
	p := Place{State: filepath.Join(dir, "state")}
	ids := neighbors(rootsPerDir+1, "c3")
	for _, id := range ids[:rootsPerDir] {
		if _, err := p.dirs(in(id, filepath.Join(dir, "p")), true); err != nil {
			t.Fatal(err)
		}
	}
	age(t, p, rootIdle-time.Minute)
	if _, err := p.dirs(in(ids[0], dir), true); err != nil { // in use again
		t.Fatal(err)
	}
	last := in(ids[rootsPerDir], filepath.Join(dir, "q"))
	if _, err := p.dirs(last, true); !errors.Is(err, errNoRoom) {
		t.Errorf("%v, want %v", err, errNoRoom)
	}
	age(t, p, rootRefresh+2*time.Minute)
	if dirs, err := p.dirs(last, true); err != nil || dirs[0].Path != filepath.Join(dir, "q") {
		t.Errorf("%v, %v, want that there is room", dirs, err)
	}
	if got := len(stored(t, p)); got != 2 {
		t.Errorf("%d roots are left, want 2", got)
	}
}

// A refused session is judged by its working directory and what is trusted above it, is
// counted, and is told so. It gets a root as soon as there is room.
func TestRefusedRoot(t *testing.T) {
	t.Parallel()
	for name, cache := range map[string]*roots{"files": nil, "memory": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := tree(t, "work/p/.git", "work/p/sub")
			trusted(t, dir, "work")
			p := Place{State: filepath.Join(dir, "root", "state"), roots: cache}
			ids := neighbors(rootsPerDir+1, "07")
			for _, id := range ids[:rootsPerDir] {
				p.Dirs(in(id, dir), true)
			}
			for range 3 {
				refused := in(ids[rootsPerDir], filepath.Join(dir, "work", "p", "sub"))
				dirs, err := p.dirs(refused, true)
				want := []Dir{{Path: filepath.Join(dir, "work", "p")}, {Path: filepath.Join(dir, "work", "p", "sub")}, {Path: filepath.Join(dir, "work"), GuardsOnly: true}}
				if diff := cmp.Diff(want, dirs); diff != "" || !errors.Is(err, errNoRoom) {
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
			if _, err := p.dirs(in(ids[rootsPerDir], dir), true); err != nil {
				t.Errorf("%v, want a root, since there is room", err)
			}
		})
	}
}

// The user learns of a refused root: at the prompt, on stderr and in the Record. The
// working directory's guards are in force.
func TestRefusedRootIsReported(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git")
	root := trusted(t, dir, "p")
	place, err := Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	id := "refused"
	shard := filepath.Join(place.sessions(), nameOf("claude-code", id)[:2])
	if err := os.MkdirAll(shard, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range rootsPerDir {
		if err := os.WriteFile(filepath.Join(shard, fmt.Sprint(i)), []byte("/x\x00/x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, stderr := call(root, id, filepath.Join(dir, "p"), "deploy")
	if !strings.Contains(out, "not from p") || !strings.Contains(stderr, "cannot keep the root of this session") {
		t.Errorf("a blocked call: %q, %q", out, stderr)
	}
	prompt, err := json.Marshal(map[string]string{"session_id": id, "cwd": dir, "hook_event_name": "UserPromptSubmit", "prompt": "hi"})
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	Main([]string{"claude-code", "--root", root}, bytes.NewReader(prompt), &stdout, &bytes.Buffer{})
	if !strings.Contains(stdout.String(), "systemMessage") || !strings.Contains(stdout.String(), "too many sessions were active") {
		t.Errorf("the reply to a prompt is %q, want a message", stdout.String())
	}
	warm := NewWarm(WarmOptions{State: place.State, Keep: func(context.Context, []spool.Made, []Notice) error { return nil }})
	home, _ := os.UserHomeDir()
	reply, err := warm.Answer(t.Context(), &client.Question{Agent: "claude-code", Root: root, Home: home, Payload: prompt})
	if err != nil || string(reply.Stdout) != stdout.String() {
		t.Errorf("the daemon's reply is %s, %v, want %s", reply.Stdout, err, stdout.String())
	}
	var records []byte
	files, _ := filepath.Glob(filepath.Join(place.Spool(), "*.jsonl"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, data...)
	}
	if n := bytes.Count(records, []byte(`"error":"cannot keep the root of this session`)); n != 2 {
		t.Errorf("%d Records say so, want 2:\n%s", n, records)
	}
}

// A new session looks at the roots of few others, however many there are. Once it listed
// and sorted them all.
func TestNewSessionLooksAtFewOthers(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git")
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

// However an ID is spelled, it names a file of its own in the store.
func TestSpellingOfSessions(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git", "q/.git")
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
	// No ID, no root: nothing is stored under the empty name.
	p.Dirs(in("", filepath.Join(dir, "q")), true)
	if n := len(stored(t, p)); n != len(ids) {
		t.Errorf("an event without a session stored a root")
	}
}

// A root from a time at which the clock was ahead does not stay until then.
func TestRootOfTheFuture(t *testing.T) {
	t.Parallel()
	dir := tree(t, "p/.git")
	p := Place{State: filepath.Join(dir, "state")}
	ids := neighbors(3, "11")
	for _, id := range ids[:2] {
		p.Dirs(in(id, filepath.Join(dir, "p")), true)
	}
	age(t, p, -60*24*time.Hour)
	p.Dirs(in(ids[0], dir), true) // is in use
	p.Dirs(in(ids[2], dir), true) // is new, so it looks at the others
	for _, file := range stored(t, p) {
		info, err := os.Lstat(file)
		if err != nil || info.ModTime().After(time.Now().Add(time.Hour)) {
			t.Errorf("%v, %v is still of the future", info.ModTime(), err)
		}
	}
}

// In the directory of another project its policy applies too, if it is trusted, and can
// only add guards there. Once the root's policies were the only ones.
func TestTrustedAboveTheWorkingDirectory(t *testing.T) {
	t.Parallel()
	dir := tree(t, "mine/.git", "work/other/.git", "work/other/sub", "untrusted/.git")
	trusted(t, dir, "mine")
	trusted(t, dir, "work")
	root := trusted(t, dir, "work/other")
	if err := os.WriteFile(filepath.Join(dir, "untrusted", ProjectPolicy), []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string, guards bool) Dir { return Dir{Path: filepath.Join(dir, name), GuardsOnly: guards} }
	p.Dirs(in("s", filepath.Join(dir, "mine")), true)
	for cwd, want := range map[string][]Dir{
		"mine":           {at("mine", false)},
		"work/other/sub": {at("mine", false), at("work/other", true), at("work", true)},
		"work":           {at("mine", false), at("work", true)},
		"untrusted":      {at("mine", false)},
		".":              {at("mine", false)},
	} {
		if diff := cmp.Diff(want, p.Dirs(in("s", filepath.Join(dir, cwd)), true)); diff != "" {
			t.Errorf("in %s (-want +got)\n%s", cwd, diff)
		}
	}
	for _, d := range p.Files(nil, p.DirsOf(filepath.Join(dir, "work/other"))) {
		if d.NoAllow != (d.Path == filepath.Join(dir, "work", ProjectPolicy)) {
			t.Errorf("%s: its allow has no effect: %t", d.Path, d.NoAllow)
		}
	}
	if out, _ := call(root, "s", filepath.Join(dir, "work/other/sub"), "deploy"); !strings.Contains(out, "not from work/other") {
		t.Errorf("the answer is %q, want the block of the other project", out)
	}
}

// A grant lets a project's policy allow in its own sessions. A session of another project
// only gets its guards.
func TestOtherProjectsAllowNothing(t *testing.T) {
	t.Parallel()
	dir := tree(t, "mine/.git", "other/.git", "root")
	root := filepath.Join(dir, "root")
	p, err := Locate(root, "")
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "other", ProjectPolicy)
	write(p.Policy, "version: 1\ngrants: [{source: '**', may: [allow]}]\n")
	write(file, "version: 1\nhooks:\n  - {name: fine, on: tool.before, match: {command: [make]}, allow: fine}\n")
	x, errs := policy.Examine(file, filepath.Dir(file), policy.Shelf{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if err := p.Trusts().Keep(x); err != nil {
		t.Fatal(err)
	}
	if out, stderr := call(root, "at home", filepath.Join(dir, "other"), "make"); !strings.Contains(out, `"allow"`) {
		t.Errorf("its own session: %q, %q, want allow", out, stderr)
	}
	p.Dirs(&grapnel.Event{Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "guest", CWD: filepath.Join(dir, "mine")}}, true)
	if out, _ := call(root, "guest", filepath.Join(dir, "other"), "make"); strings.Contains(out, `"allow"`) {
		t.Errorf("another project's session: %q, want no allow", out)
	}
	if !slices.ContainsFunc(p.Dirs(&grapnel.Event{Agent: grapnel.Agent{Name: "claude-code"}, Session: grapnel.Session{ID: "guest", CWD: filepath.Join(dir, "other")}}, false), func(d Dir) bool { return d.GuardsOnly }) {
		t.Error("the other project's policy does not apply at all")
	}
}
