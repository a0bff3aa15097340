//go:build system && unix

package hookcmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/hooktest"
)

// A test of a policy shows the reply that agents get: package hooktest gives the same reply with
// the same files, packs, project roots and programs.
func TestHooktestAnswersAlike(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	project := tree(t, "p/.git", "p/sub")
	const text = `
version: 1
use: [destructive, secrets]
hooks:
  - {name: no-push, on: tool.before, match: {command: git push}, block: "Not from here."}
  - {name: ours, on: tool.before, match: {path: "sub/*.go"}, ask: "sure?"}
  - {name: prompts, on: prompt.before, context: be kind}
  - {name: who, on: tool.before, match: {command: who}, run: 'echo "$PWD $GRAPNEL_HOOK $GRAPNEL_ROOT" >&2; exit 2'}
  - {name: theirs, on: tool.before, match: {command: id}, speaks: claude, run: 'grep -q "\"tool_name\":\"Bash\"" && echo "$CLAUDE_PROJECT_DIR" >&2 && exit 2'}
  - {name: broken, on: tool.before, match: {command: ls}, run: exit 7, on_error: closed}
`
	file := filepath.Join(root, "grapnel.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := hooktest.Policy(t, file, nil)
	blocked := 0
	for _, d := range []*dialect.Dialect{dialect.ClaudeCode(), dialect.GeminiCLI()} {
		for _, ev := range []string{"git push", "who", "id", "ls", "pwd", "rm -rf /", "cat ../p/sub/a.go"} {
			shell := hooktest.Shell(ev)
			shell.Session.CWD = filepath.Join(project, "p", "sub")
			payload, err := d.WriteEvent(shell)
			if err != nil {
				t.Fatal(err)
			}
			payload = bytes.ReplaceAll(payload, []byte(hooktest.Shell("").Session.CWD), []byte(shell.Session.CWD))
			var stdout, stderr bytes.Buffer
			exit := Main([]string{d.Name, "--root", root}, bytes.NewReader(payload), &stdout, &stderr)
			got := hooktest.Agent(t, engine, d.Name, string(payload))
			if got.Exit != exit || string(got.Stdout) != stdout.String() || string(got.Stderr) != stderr.String() {
				t.Errorf("%s %s: hooktest says %s %s %d, grapnel-hook %s %s %d", d.Name, ev, got.Stdout, got.Stderr, got.Exit, &stdout, &stderr, exit)
			}
			if strings.Contains(stdout.String(), "deny") {
				blocked++
			}
		}
		for _, payload := range []string{"", `{"hook_event_name":"PreToolUse"`, `{"hook_event_name":"UserPromptSubmit","session_id":"s","cwd":"/","prompt":"hi"}`} {
			var stdout, stderr bytes.Buffer
			exit := Main([]string{d.Name, "--root", root}, strings.NewReader(payload), &stdout, &stderr)
			got := hooktest.Agent(t, engine, d.Name, payload)
			if got.Exit != exit || string(got.Stdout) != stdout.String() || string(got.Stderr) != stderr.String() {
				t.Errorf("%s %s: hooktest says %s %s %d, grapnel-hook %s %s %d", d.Name, payload, got.Stdout, got.Stderr, got.Exit, &stdout, &stderr, exit)
			}
		}
	}
	if blocked < 10 {
		t.Errorf("only %d answers are a block", blocked)
	}
}
