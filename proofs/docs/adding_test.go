//go:build system

// These tests start no program. They read and parse every page and package, which the race detector
// makes ten times slower.

package docs

import (
	"path/filepath"
	"testing"
)

// The code on the page about adding an agent is the code in that agent's file.
func TestAddingAnAgentIsKiro(t *testing.T) {
	t.Parallel()
	kiro := unindented(readPage(t, filepath.Join("..", "dialect", "kiro.go")))
	madeOf(t, "adding-an-agent.md", []string{kiro}, 4)
}
