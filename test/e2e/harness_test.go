//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/test/e2e/agents"
	"github.com/grapnel-dev/grapnel/test/e2e/model"
)

// nativeHook holds, per agent, settings with one hook before every tool, and a
// script in that agent's language which blocks what mentions forbidden.txt.
var nativeHook = map[string]struct{ settings, script string }{
	agents.ClaudeCode.ID: {
		settings: `{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": %q, "timeout": 20}]}]}}`,
		script: `#!/bin/sh
case "$(cat)" in *forbidden.txt*) echo "not that file" >&2; exit 2;; esac
`,
	},
	agents.GeminiCLI.ID: {
		settings: strings.TrimSuffix(agents.GeminiCLI.Quiet, "\n}\n") +
			`, "hooks": {"BeforeTool": [{"matcher": "*", "hooks": [{"type": "command", "command": %q, "timeout": 20000}]}]}}`,
		script: `#!/bin/sh
case "$(cat)" in *forbidden.txt*) echo '{"decision": "deny", "reason": "not that file"}';; esac
`,
	},
}

// The harness itself, without Grapnel: an agent's own hook blocks one of two
// calls, and every observation the scenarios rest on shows it.
func TestHarnessSeesWhatAnAgentDoes(t *testing.T) {
	t.Parallel()
	for _, a := range agents.All {
		t.Run(a.ID, func(t *testing.T) {
			t.Parallel()
			w := agents.NewWorld(t, a)
			script := w.Root + "/hook.sh"
			w.WriteFile(t, script, nativeHook[a.ID].script)
			w.WriteFile(t, w.SettingsFile(), fmt.Sprintf(nativeHook[a.ID].settings, script))
			res := w.Run(t, "Do as planned.",
				model.Do(w.Shell("echo no > forbidden.txt")),
				model.Do(w.Shell("echo one > a.txt"), w.Write("b.txt", "two\n")),
				model.Step{Text: "all of it is done now", Chunks: 3},
			)
			if _, written := res.Files["forbidden.txt"]; written {
				t.Error("forbidden.txt was written although the hook blocked it")
			}
			for name, want := range map[string]string{"a.txt": "one\n", "b.txt": "two\n"} {
				if got := res.Files[name]; got != want {
					t.Errorf("%s holds %q, want %q", name, got, want)
				}
			}
			results := res.Requests.ToolResults()
			if len(results) != 3 {
				t.Fatalf("the model was told %d tool results, want 3: %+v", len(results), results)
			}
			if blocked := results[0]; !blocked.IsError || !strings.Contains(blocked.Text, "not that file") {
				t.Errorf("of the blocked call the model was told %+v, want an error with the reason", blocked)
			}
			for _, r := range results[1:] {
				if r.IsError {
					t.Errorf("of a free call the model was told the error %+v", r)
				}
			}
			if n := len(res.Requests.MainRequests()); n != 3 {
				t.Errorf("%d main requests, want 3", n)
			}
			if want := "all of it is done now"; res.Answer != want {
				t.Errorf("answer %q, want %q", res.Answer, want)
			}
			if res.Exit != 0 {
				t.Errorf("exit %d, want 0", res.Exit)
			}
		})
	}
}
