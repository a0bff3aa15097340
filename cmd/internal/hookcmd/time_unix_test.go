//go:build system && unix

package hookcmd

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Hooks in the format of agents that always send a time also get one from agents that never do.
func TestHooksGetTheTime(t *testing.T) {
	t.Parallel()
	for _, speaks := range []string{"gemini", "qwen", "copilot"} {
		root := t.TempDir()
		seen := filepath.Join(root, "seen")
		policy := "version: 1\nhooks:\n  - {name: see, on: tool.before, speaks: " + speaks + ", run: cat > '" + seen + "'}\n"
		if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		payload := `{"session_id":"s","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`
		var stdout bytes.Buffer
		if exit := Main([]string{"codex", "--root", root}, strings.NewReader(payload), &stdout, io.Discard); exit != 0 {
			t.Fatalf("exit %d, stdout %s", exit, &stdout)
		}
		given, err := os.ReadFile(seen)
		if err != nil || !regexp.MustCompile(`"timestamp":("20\d\d-|\d{13})`).Match(given) {
			t.Errorf("a hook of %s is given %s, %v", speaks, given, err)
		}
	}
}
