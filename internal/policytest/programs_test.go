//go:build system

package policytest_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/policytest"
)

// Every test begins at the same time, which programs get too. Time passes only where the test
// gives one.
func TestClock(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the line is for a POSIX shell")
	}
	file := read(t, `
version: 1
hooks:
  - {name: slow, on: tool.before, match: {command: make}, run: "sleep 1.1; grep -o '\"time\":\"[^\"]*' >&2; exit 2"}
  - {name: once, on: tool.before, match: {command: make}, limit: {count: 1, per: 1s}}
`, `
version: 1
tests:
  - {before: [make], command: make, want: {decision: block, rule: once}}
  - {before: [make], command: make, later: 1s, want: {decision: block, rule: slow, reason: "2026-01-01T12:00:01Z"}}
`)
	all(t, 2, run(t, file, nil))
}

// Programs really run, in a directory of the test and with its files. Later tests do not see
// their changes.
func TestPrograms(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the lines are for a POSIX shell")
	}
	dir := put(t, map[string]string{
		"grapnel.yaml": `
version: 1
hooks:
  - {name: count, on: tool.after, match: {tool: write}, run: 'ls >&2; echo x > left; exit 2'}
  - {name: look, on: tool.before, match: {path: "src/**"}, block: not in src}
  - {name: audit, on: tool.before, builtin: audit}
`,
		"data/one.txt": "1", "data/sub/two.txt": "2",
		"grapnel_test.yaml": `
version: 1
tests:
  - {name: nothing there, tool: write, path: a, output: ok, want: {decision: block, reason: blocked by hook}}
  - {name: files, tool: write, path: a, output: ok, files: {b.txt: b, c/d.txt: d}, want: {decision: block, reason: "/^b.txt\nc$/"}}
  - {name: again, tool: write, path: a, output: ok, files: {b.txt: b}, want: {reason: "/^b.txt$/"}}
  - {name: copies, tool: write, path: a, output: ok, files: {x: {from: data}, y.txt: {from: data/one.txt}}, want: {reason: "/^x\ny.txt$/"}}
  - {name: it is the project, tool: write, path: src/main.go, files: {src/main.go: package main}, want: block}
`,
	})
	file := loaded(t, filepath.Join(dir, "grapnel_test.yaml"))
	all(t, 5, run(t, file, &policytest.Options{Parallel: 1}))
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"data", "grapnel.yaml", "grapnel_test.yaml"}; !slices.Equal(names, want) {
		t.Errorf("there is now %v, want %v", names, want)
	}
}

// A test that exceeds its time limit is broken and reports the limit.
func TestTimeout(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the line is for a POSIX shell")
	}
	file := read(t, "version: 1\nhooks: [{name: slow, on: tool.before, run: 'sleep 60'}]\n", test("command: make, want: none"))
	got := run(t, file, &policytest.Options{Timeout: 50 * time.Millisecond})
	if len(got) != 1 || got[0] != "error; the test took longer than 50ms" {
		t.Errorf("got %q", got)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for name, tt := range runTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && strings.Contains(name, "program fails") {
				t.Skip("the line is for a POSIX shell")
			}
			file := read(t, house, "version: 1\ntests:\n  - "+tt.test+"\n")
			if got := run(t, file, nil); len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("%s\ngot  %q\nwant %q", tt.test, got, tt.want)
			}
		})
	}
}
