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

// A program that was built in a checkout names its commit. If the go command must not ask git, the
// commit is unknown.
func TestVersionNamesCommit(t *testing.T) {
	t.Parallel()
	head, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("this test needs a checkout with git: %v", err)
	}
	for flag, want := range map[string]string{"": strings.TrimSpace(string(head)), "-buildvcs=false": "unknown"} {
		program := filepath.Join(t.TempDir(), "grapnel.exe") // the name that also Windows can run
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
		// The default of -buildvcs, even if the user has switched it off. -trimpath shares the
		// build cache with continuous integration.
		cmd.Env = append(os.Environ(), strings.TrimSpace("GOFLAGS=-trimpath "+flag))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
		var got build
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil || got.Commit != want {
			t.Errorf("built with %q: commit %q, %v; want %q", flag, got.Commit, err, want)
		}
	}
}
