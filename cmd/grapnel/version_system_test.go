//go:build system

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program that was built in a checkout names its commit.
func TestVersionNamesCommit(t *testing.T) {
	t.Parallel()
	head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("this test needs a checkout with git: %v", err)
	}
	program := filepath.Join(t.TempDir(), "grapnel.exe") // the name that also Windows can run
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	// The default of -buildvcs, even if the user has switched it off. -trimpath shares the build
	// cache with continuous integration.
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
	var got build
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if want := strings.TrimSpace(string(head)); err != nil || got.Commit != want {
		t.Errorf("commit %q, %v; want %q", got.Commit, err, want)
	}
}
