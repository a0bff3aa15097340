//go:build system && linux

package weight

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modules = "grapnel-modules.txt"

// Each start of grapnel runs the initializers of all its modules. So a new module must be visible in
// a review. The list has a comment with the cost of each group.
func TestLinkedModules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(modules)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	slices.Sort(want)
	format := "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
	got := strings.Fields(golist(t, "linux", "-deps", "-f", format, module+"/cmd/grapnel"))
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("modules linked into grapnel (-%s +now):\n%s"+
			"Measure what the new one adds to a start (GODEBUG=inittrace=1 grapnel version), and write it into the list.", modules, diff)
	}
}

// initializing limits the work of a program's initializers by measures that, unlike time, are the
// same in each run.
type initializing struct {
	each, total int            // bytes that a package, and all together, may allocate
	more        map[string]int // packages that may allocate more than each
	pages       int            // pages that a start may touch in addition to the pages of a minimal program; each further thread of the runtime, on a busy machine, touches some
}

var initializers = map[string]initializing{
	"grapnel-hook": {each: 16 << 10, total: 80 << 10, pages: 200, more: map[string]int{
		"github.com/dlclark/regexp2/syntax": 32 << 10, // tables of Unicode classes: 0.15 ms
	}},
	"grapnel": {each: 24 << 10, total: 656 << 10, pages: 900, more: map[string]int{
		"github.com/prometheus/procfs":                   112 << 10, // compiles regular expressions: 0.2 ms
		"github.com/prometheus/client_golang/prometheus": 80 << 10,  // registers collectors: 0.3 ms
		"github.com/dlclark/regexp2/syntax":              32 << 10,  // tables of Unicode classes: 0.15 ms
		"encoding/gob":                                   32 << 10,  // nats.go has a codec that uses it: 0.14 ms
		"github.com/klauspost/compress/flate":            32 << 10,  // websockets of nats.go: 0.02 ms
		"github.com/charmbracelet/ultraviolet":           28 << 10,  // tables that the linker keeps, as html/template can call every method
	}},
}

// Go runs the initializers of all linked packages before main. A package that fills maps,
// compiles regular expressions or builds objects there slows down every start.
func TestInitializers(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "./cmd/grapnel", "./cmd/grapnel-hook", "./proofs/bench/static")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, limit := range initializers {
		t.Run(name+" allocates little", func(t *testing.T) {
			t.Parallel()
			total := 0
			for pkg, n := range initBytes(t, filepath.Join(bin, name)) {
				total += n
				if most := max(limit.each, limit.more[pkg]); n > most {
					t.Errorf("the initializers of %s allocate %d bytes, limit %d", pkg, n, most)
				}
			}
			if total > limit.total {
				t.Errorf("the initializers allocate %d bytes together, limit %d", total, limit.total)
			}
		})
	}
	// An initializer can also fill a global array, which allocates nothing. go-runewidth v0.0.27
	// filled an array of 2 MB: it took 27 ms of each start of grapnel. The first use of each page
	// is a page fault, and the number of page faults hardly depends on other programs.
	for name, limit := range initializers {
		t.Run(name+" touches few pages", func(t *testing.T) {
			t.Parallel()
			got := pageFaults(t, filepath.Join(bin, name), "--help") - pageFaults(t, filepath.Join(bin, "static"))
			if got > limit.pages {
				t.Errorf("its start touches %d pages more than that of a minimal program, limit %d", got, limit.pages)
			}
		})
	}
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes, \d+ allocs$`)

// initBytes runs a program and returns the bytes that initializers allocate, by package.
func initBytes(t *testing.T, program string) map[string]int {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, "--help")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	allocated := map[string]int{}
	for _, m := range initLine.FindAllStringSubmatch(stderr.String(), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		allocated[m[1]] += n
	}
	if len(allocated) < 10 {
		t.Fatalf("%s: only %d initializers found in its output:\n%s", cmd, len(allocated), &stderr)
	}
	return allocated
}

// pageFaults returns the minimum number of page faults of several runs with an empty stdin.
func pageFaults(t *testing.T, program string, args ...string) int {
	t.Helper()
	least := 0
	for range 10 {
		cmd := exec.CommandContext(t.Context(), program, args...)
		_ = cmd.Run() // the minimal program rejects an empty event
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok || cmd.ProcessState.ExitCode() < 0 {
			t.Fatalf("%s: %s", cmd, cmd.ProcessState)
		}
		if n := int(usage.Minflt); least == 0 || n < least {
			least = n
		}
	}
	return least
}
