//go:build system && unix

package weight

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Users install Grapnel with "go install". Tests and benchmarks build it with "make build", which
// adds no flags, so that a measured program is an installed one.
func TestMakeBuildIsGoInstall(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--dry-run", "build", "BIN=out/")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	if want := "go build -o 'out/' ./cmd/..."; err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("make build runs %q, %v, want %q", out, err, want)
	}
}
