//go:build system && unix

package docs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadInput tests the statements of concepts.md that the scripts of cmd/grapnel do not cover:
// failures that are treated as open, and the arguments of programs.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const guarded = `version: 1
hooks:
  - {name: guard, on: [tool.before, prompt.before, agent.after], match: {text: never}, block: no}
  - {name: narrow, on: toolset.before, set: {mode: any}}
`
	for name, test := range map[string]struct {
		policy string
		agent  string
		event  string
		broken bool // no Record can be written
		stdout string
		stderr string
		exit   int
	}{
		"a prompt that cannot be read, guarded": {
			policy: guarded, agent: "claude-code", event: `{"hook_event_name":"UserPromptSubmit",`, stdout: `"decision":"block"`, stderr: "not valid JSON",
		},
		"a stop that cannot be read, guarded": {
			policy: guarded, agent: "claude-code", event: `{"hook_event_name":"Stop",`, stdout: `{"systemMessage":"grapnel: hook `, stderr: "not valid JSON",
		},
		"a tool without a name, not guarded": {
			policy: "version: 1\n", agent: "claude-code", event: `{"hook_event_name":"PreToolUse","tool_name":5}`, stderr: "tool_name is not a string", exit: 1,
		},
		"any output would be an answer": {
			policy: guarded, agent: "gemini-cli", event: `{"hook_event_name":"BeforeToolSelection",`,
		},
		"bytes that are no UTF-8 are passed on": {
			policy: `version: 1
hooks:
  - name: see
    on: tool.before
    run: |
      LC_ALL=C grep -q "$(printf '"input":{"command":"ls \377"}')" && echo the bytes came >&2
      exit 2
`,
			agent: "claude-code", event: "{\"hook_event_name\":\"PreToolUse\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"ls \xff\"}}",
			stdout: `"permissionDecisionReason":"the bytes came"`,
		},
		"strict without a Record, a tool": {
			policy: "version: 1\nstrict: true\n", agent: "claude-code", broken: true,
			event: `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`, stdout: `"permissionDecision":"deny"`, stderr: "no Record was stored",
		},
		"strict without a Record, a prompt": {
			policy: "version: 1\nstrict: true\n", agent: "claude-code", broken: true,
			event: `{"hook_event_name":"UserPromptSubmit","prompt":"hello"}`, stdout: `{"systemMessage":"grapnel: no Record was stored`, stderr: "no Record was stored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.WriteFile(filepath.Join(root, "grapnel.yaml"), []byte(test.policy), 0o600); err != nil {
				t.Fatal(err)
			}
			if test.broken {
				if err := os.WriteFile(filepath.Join(root, "state"), []byte("a file where the directory should be"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "grapnel-hook"), test.agent, "--root", root)
			cmd.Env = []string{"PATH=" + bin, "HOME=" + root}
			cmd.Stdin = strings.NewReader(test.event)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			exit := 0
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				exit = failed.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if exit != test.exit || !containsOrEmpty(stdout.String(), test.stdout) || !containsOrEmpty(stderr.String(), test.stderr) {
				t.Errorf("grapnel-hook %s < %q\nexit %d, stdout %s\nstderr %s\nwant exit %d, stdout with %q, stderr with %q",
					test.agent, test.event, exit, stdout.String(), stderr.String(), test.exit, test.stdout, test.stderr)
			}
		})
	}
}

// containsOrEmpty reports whether a text contains part. If part is empty, the text must be empty.
func containsOrEmpty(text, part string) bool {
	if part == "" {
		return text == ""
	}
	return strings.Contains(text, part)
}
