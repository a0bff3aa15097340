//go:build system && unix

package weight

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs are the commands that users install.
var programs = []string{"grapnel", "grapnel-hook"}

// Users install Grapnel with "go install". Tests and benchmarks build it with "make build".
// Both commands must give the same bytes, so that a measured program is an installed one.
func TestMakeBuildIsGoInstall(t *testing.T) {
	t.Parallel()
	made, installed := t.TempDir(), t.TempDir()
	command(t, nil, "make", "--no-print-directory", "build", "BIN="+made+"/")
	command(t, []string{"GOBIN=" + installed}, "go", "install", "./cmd/...")
	for _, name := range programs {
		a, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(installed, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: make build gives %d bytes, go install gives %d bytes with other content", name, len(a), len(b))
		}
	}
}

// command runs a command line at the top of the repository.
func command(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
