package docs

import (
	"path/filepath"
	"testing"
)

// The page that adds an agent shows what stands in that agent's file.
func TestAddingAnAgentIsKiro(t *testing.T) {
	t.Parallel()
	kiro := unindented(readPage(t, filepath.Join("..", "dialect", "kiro.go")))
	madeOf(t, "adding-an-agent.md", []string{kiro}, 4)
}
