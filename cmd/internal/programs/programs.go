// Package programs gives system tests the programs of this repository:
//
//	dir, remove, err := programs.Dir(programs.Plain)
//	defer remove()
//	cmd := exec.Command(filepath.Join(dir, "grapnel-hook"), "claude-code")
//
// "make test-system" builds them once for all packages and names their directory in the
// environment variable GRAPNEL_TEST_PROGRAMS. Without it, Dir builds them, so that
// "go test -tags system ./proofs/docs" works too.
package programs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// A Variant selects the build flags of the programs. It is also the name of their directory below
// GRAPNEL_TEST_PROGRAMS.
type Variant string

// The variants.
const (
	Plain  Variant = "plain"  // as "make build" does, except for ancestor.Runner
	Race   Variant = "race"   // with the race detector
	Faults Variant = "faults" // with the kill points of internal/fault
)

var flags = map[Variant][]string{
	Plain:  nil,
	Race:   {"-race"},
	Faults: {"-tags=faults"},
}

// Dir returns a directory that holds grapnel and grapnel-hook. The caller must call remove
// when it no longer needs them.
func Dir(v Variant) (dir string, remove func(), err error) {
	if built := os.Getenv("GRAPNEL_TEST_PROGRAMS"); built != "" {
		dir = filepath.Join(built, string(v))
		_, err = os.Stat(dir)
		return dir, func() {}, err
	}
	all, err := os.MkdirTemp("", "grapnel-programs-")
	if err != nil {
		return "", nil, err
	}
	dir, remove = filepath.Join(all, string(v)), func() { _ = os.RemoveAll(all) }
	if err := Build(v, dir); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// Build builds the programs into a directory.
func Build(v Variant, dir string) error {
	// An agent can run the tests: commands for persons do not look above the test that runs them.
	args := append([]string{"build", "-ldflags=-X github.com/grapnel-dev/grapnel/cmd/internal/hookcmd/ancestor.Runner=.test"}, flags[v]...)
	args = append(args, "-o", dir+string(filepath.Separator),
		"github.com/grapnel-dev/grapnel/cmd/grapnel", "github.com/grapnel-dev/grapnel/cmd/grapnel-hook")
	cmd := exec.Command("go", args...)
	if v != Race { // as on a machine without a C compiler; the programs start a sixth faster
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the programs: %w\n%s", err, out)
	}
	return nil
}

// Write writes a program that can be started at once. A process that starts while the file is
// open would keep it open, and the system does not run a file that is open for writing.
func Write(t testing.TB, file, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o755)
	}
	if err == nil {
		err = os.Chmod(file, 0o755) // the file may have existed with another mode
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Draining reports whether a detached drain, which a hook has started, runs for a root in or below a
// directory. It writes there, so a test that removes the directory must wait. Without /proc, Draining
// returns false.
func Draining(dir string) bool {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(processes, func(name string) bool {
		args, _ := os.ReadFile(name) // empty for a process that has ended
		return bytes.Contains(args, []byte("--drain\x00")) && bytes.Contains(args, []byte(dir))
	})
}
