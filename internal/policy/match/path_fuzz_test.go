package match

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// links returns a directory with files, directories and symbolic links of all types.
func links(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"l": "a/b", "m": "../" + filepath.Base(dir) + "/d", "a/n": "../none/../d", "o": "o", "p": "q/x", "q": "p", "r": filepath.Join(dir, "a"), "s": "a/f", "d/up": "..",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	return dir
}

// slowRealPath resolves every component, as the system would.
func slowRealPath(name string) string {
	const sep = string(filepath.Separator)
	volume := filepath.VolumeName(name)
	real, todo := volume+sep, strings.Split(name[len(volume):], sep)
	for n := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, part)
		target, err := os.Readlink(next)
		if err != nil || n == maxLinks {
			real = next
			continue
		}
		n++
		if filepath.IsAbs(target) {
			real = volume + sep
		}
		todo = append(strings.Split(target, sep), todo...)
	}
	return real
}

// FuzzRealPath: skipping system calls does not change the result.
func FuzzRealPath(f *testing.F) {
	for _, name := range []string{
		"", "a/b/../../d/./x", "l/../..", "l/c/none/../../f", "m/new", "a/n/x", "o/x", "p/../q", "r/b/c", "s/x/../y", "s/..", "none/l", "none/../l", "../../..", "d/up/d/up/l",
		strings.Repeat("d/up/", 50) + "l", strings.Repeat("x", 300) + "/../l", "a\x00b/../l", "d//up///a",
	} {
		f.Add(name)
	}
	dir := links(f)
	f.Fuzz(func(t *testing.T, name string) {
		name = dir + string(filepath.Separator) + name
		if len(name) > 4096 {
			return
		}
		if got, want := RealPath(name), slowRealPath(name); got != want {
			t.Errorf("RealPath(%q) = %q, want %q", name, got, want)
		}
		ev := &grapnel.Event{Session: grapnel.Session{CWD: dir}}
		for _, path := range ResolvePath(name, ev, (&Facts{Event: ev}).RealDir) {
			if !filepath.IsAbs(path) || path != filepath.Clean(path) {
				t.Errorf("a reading of %q is %q", name, path)
			}
		}
	})
}

// allocated returns the number of bytes that f allocates. No other goroutine may run.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Regression: the work for paths from a model grows with their size. A hundred names of 32 KiB
// took half a minute, and a working directory of megabytes never ended. The test measures the
// work by the allocated memory.
func TestManyLongPaths(t *testing.T) { // it measures the memory of the process
	for name, tt := range map[string]struct {
		cwd, path string
		n         int
	}{
		"long":     {"/p", strings.Repeat("/a", MaxPath/2-1), 100},
		"loop":     {links(t), strings.Repeat("o/", MaxPath/4), 100},
		"too long": {"/p", strings.Repeat("a/", MaxPath), 20},
		"far away": {strings.Repeat("/a", 1<<20), "x", 1000},
	} {
		t.Run(name, func(t *testing.T) {
			ev := &grapnel.Event{Session: grapnel.Session{CWD: tt.cwd}, Tool: &grapnel.Tool{}}
			for range tt.n {
				ev.Tool.Paths = append(ev.Tool.Paths, grapnel.Path{Path: tt.path})
			}
			var real []Path
			bytes := allocated(func() { real = (&Facts{Event: ev}).Paths() })
			if most := 100 * uint64(len(tt.cwd)+tt.n*len(tt.path)); bytes > most {
				t.Errorf("%d paths of %d bytes need %d bytes of memory, want at most %d", tt.n, len(tt.path), bytes, most)
			}
			if len(real) < tt.n {
				t.Errorf("%d paths of %d bytes have %d readings", tt.n, len(tt.path), len(real))
			}
		})
	}
}

// If there are too many paths to check in time, the rules for paths fail, and fail closed.
func TestTooManyPaths(t *testing.T) {
	t.Parallel()
	m, err := (&FactCache{}).Matcher(&policyfile.Match{Path: []string{"**/.env"}}, nil, "", Reading{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		n    int
		path string
		fits bool
	}{
		"many": {maxPaths, "x", true}, "too many": {maxPaths + 1, "x", false},
		"long": {64, strings.Repeat("x", 4<<10), true}, "too long": {65, strings.Repeat("x", 4<<10), false},
	} {
		ev := &grapnel.Event{Session: grapnel.Session{CWD: "/p"}, Tool: &grapnel.Tool{}}
		for range tt.n {
			ev.Tool.Paths = append(ev.Tool.Paths, grapnel.Path{Path: tt.path})
		}
		if _, err := m.Match(ev, nil); (err == nil) != tt.fits {
			t.Errorf("%s: %v, want an error: %v", name, err, !tt.fits)
		}
	}
}

// Shell lines that would take seconds to parse are an error for rules about commands or paths,
// which fail closed.
func TestTooLongShellLines(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		match policyfile.Match
		looks bool
	}{
		"command": {policyfile.Match{Command: []string{"rm -rf"}}, true}, "shell": {policyfile.Match{Shell: []string{"unknown"}}, true},
		"path": {policyfile.Match{Path: []string{"**/.env"}}, true}, "tool": {policyfile.Match{Tool: []string{"shell"}}, false},
	} {
		m, err := (&FactCache{}).Matcher(&tt.match, nil, "", Reading{})
		if err != nil {
			t.Fatal(err)
		}
		for size, fits := range map[int]bool{MaxShellBytes: true, MaxShellBytes + 1: !tt.looks} {
			line := strings.Repeat("x", size/2)
			ev := &grapnel.Event{Tool: &grapnel.Tool{Class: grapnel.ClassShell, Commands: []string{line, strings.Repeat("y", size-len(line))}}}
			if _, err := m.Match(ev, nil); (err == nil) != fits {
				t.Errorf("%s, %d bytes: %v, want an error: %v", name, size, err, !fits)
			}
		}
	}
}

// FuzzNearPath: if a pattern matches a path of a call, the path passes the quick test.
func FuzzNearPath(f *testing.F) {
	for _, pair := range [][2]string{
		{"**/.env", "a/.env"},
		{"l/**", "a/b/c"},
		{"a/b/*", "l/c"},
		{"/l/c", "a/b/c"},
		{"/{a,d}/{f,up/l}", "d/up/l"},
		{"/r/b/[bc]", "l/c"},
		{"/*/b/", "a/b/c"},
		{"a?b/{x,{y,z}}/w", "a-b/z/w"},
		{"./a//b", "a/b"},
		{"/l/../d", "a/d"},
		{"../x", "../x"},
		{`a\*b`, "a*b"},
		{"{a,b", "a"},
		{"[a", "a"},
		{"[!a]*.go", "b.go"},
		{"a,b}", "a,b}"},
		{".", "."},
		{"/", "a"},
	} {
		f.Add(pair[0], pair[1])
	}
	dir := links(f)
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern)+len(name) > 256 {
			return
		}
		ev := &grapnel.Event{Session: grapnel.Session{CWD: dir, Root: dir}, Tool: &grapnel.Tool{Paths: []grapnel.Path{{Path: name}}}}
		facts := &Facts{Event: ev}
		for _, pattern := range []string{pattern, dir + pattern, "**/" + pattern} {
			for _, p := range facts.Paths() {
				if p.Match(pattern) && (!facts.nearPath(pattern) || !strings.Contains(facts.joinedPaths(), firstPiece(pattern))) {
					t.Errorf("%q matches %q, and is not near %q", pattern, p.Real, facts.joinedPaths())
				}
			}
		}
	})
}
