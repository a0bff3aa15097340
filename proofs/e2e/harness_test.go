//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
)

// Hooks that block calls that mention forbidden.txt, in the formats of the agents.
const (
	byExit = `#!/bin/sh
case "$(cat)" in *forbidden.txt*) echo "not that file" >&2; exit 2;; esac
`
	byAnswer = `#!/bin/sh
case "$(cat)" in *forbidden.txt*) echo '%s';; esac
`
	byOpenCode = `export const guard = async () => ({
  "tool.execute.before": async (input, output) => {
    if (JSON.stringify(output.args).includes("forbidden.txt")) throw new Error("not that file")
  },
})
`
	byOpenClaw = `export default {
  id: "guard", name: "guard", description: "guard",
  register(api) {
    api.on("before_tool_call", async (event) => {
      if (JSON.stringify(event.params).includes("forbidden.txt")) return { block: true, blockReason: "not that file" }
    })
  },
}
`
)

// nativeHook installs such a hook for every tool of an agent, without Grapnel.
var nativeHook = map[string]func(t *testing.T, w *agents.World){
	agents.ClaudeCode.ID: func(t *testing.T, w *agents.World) {
		w.WriteFile(t, w.SettingsFile(), `{"hooks": {"PreToolUse": [{"hooks": [`+command(t, w, byExit, 20)+`]}]}}`)
	},
	agents.GeminiCLI.ID: func(t *testing.T, w *agents.World) {
		script := command(t, w, fmt.Sprintf(byAnswer, `{"decision": "deny", "reason": "not that file"}`), 20000)
		set(t, w, "hooks", `{"BeforeTool": [{"matcher": "*", "hooks": [`+script+`]}]}`)
	},
	agents.Codex.ID: func(t *testing.T, w *agents.World) {
		w.WriteFile(t, w.SettingsFile(), `{"hooks": {"PreToolUse": [{"hooks": [`+command(t, w, byExit, 20)+`]}]}}`)
	},
	agents.QwenCode.ID: func(t *testing.T, w *agents.World) {
		set(t, w, "hooks", `{"PreToolUse": [{"matcher": "*", "hooks": [`+command(t, w, byExit, 20)+`]}]}`)
	},
	agents.Droid.ID: func(t *testing.T, w *agents.World) {
		set(t, w, "hooks", `{"PreToolUse": [{"hooks": [`+command(t, w, byExit, 20)+`]}]}`)
	},
	agents.CopilotCLI.ID: func(t *testing.T, w *agents.World) {
		script := fmt.Sprintf(byAnswer, `{"permissionDecision": "deny", "permissionDecisionReason": "not that file"}`)
		w.WriteFile(t, filepath.Join(w.Root, "hook.sh"), script)
		w.WriteFile(t, w.SettingsFile(), fmt.Sprintf(`{"version": 1, "hooks": {"preToolUse": [{"type": "command", "bash": %q, "timeoutSec": 20}]}}`, filepath.Join(w.Root, "hook.sh")))
	},
	agents.OpenCode.ID: func(t *testing.T, w *agents.World) { w.WriteFile(t, w.SettingsFile(), byOpenCode) },
	agents.OpenClaw.ID: func(t *testing.T, w *agents.World) {
		dir := filepath.Join(w.Root, "guard")
		w.WriteFile(t, filepath.Join(dir, "index.js"), byOpenClaw)
		w.WriteFile(t, filepath.Join(dir, "package.json"), `{"name": "guard", "version": "1.0.0", "type": "module", "openclaw": {"extensions": ["./index.js"]}}`)
		w.WriteFile(t, filepath.Join(dir, "openclaw.plugin.json"), `{"id": "guard", "name": "guard", "description": "guard", "version": "1.0.0", "configSchema": {"type": "object", "additionalProperties": false, "properties": {}}}`)
		set(t, w, "plugins", fmt.Sprintf(`{"allow": ["guard"], "slots": {"memory": "none"}, "load": {"paths": [%q]}, "entries": {"guard": {"enabled": true, "config": {}}}}`, dir))
	},
	agents.Cline.ID: func(t *testing.T, w *agents.World) {
		w.WriteFile(t, w.SettingsFile(), fmt.Sprintf(byAnswer, `{"cancel": true, "errorMessage": "not that file"}`))
	},
	agents.Crush.ID: func(t *testing.T, w *agents.World) {
		w.WriteFile(t, filepath.Join(w.Root, "hook.sh"), byExit)
		set(t, w, "hooks", fmt.Sprintf(`{"PreToolUse": [{"name": "guard", "command": %q, "timeout": 20}]}`, filepath.Join(w.Root, "hook.sh")))
	},
}

// command writes a script next to the project, and returns the settings entry for it in the form
// that most agents use.
func command(t *testing.T, w *agents.World, script string, timeout int) string {
	t.Helper()
	path := filepath.Join(w.Root, "hook.sh")
	w.WriteFile(t, path, script)
	return fmt.Sprintf(`{"type": "command", "command": %q, "timeout": %d}`, path, timeout)
}

// set changes a member of the agent's settings file.
func set(t *testing.T, w *agents.World, member, value string) {
	t.Helper()
	var settings map[string]json.RawMessage
	if err := json.Unmarshal([]byte(w.ReadFile(t, w.SettingsFile())), &settings); err != nil {
		t.Fatal(err)
	}
	settings[member] = json.RawMessage(value)
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	w.WriteFile(t, w.SettingsFile(), string(b))
}

// Tests the harness itself, without Grapnel: a native hook of the agent blocks one of two calls,
// and every observation that the scenarios use shows it.
func TestHarnessSeesWhatAnAgentDoes(t *testing.T) {
	t.Parallel()
	for _, a := range agents.All {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			w := agents.NewWorld(t, a)
			nativeHook[a.ID](t, w)
			res := w.Run(t, "Do as planned.",
				model.Do(w.Shell("echo one > a.txt"), w.Write("b.txt", "two\n")),
				model.Do(w.Shell("echo no > forbidden.txt")),
				model.Do(w.Read("b.txt")),
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
			if res.Exit != 0 {
				t.Errorf("exit %d, want 0", res.Exit)
			}
			if a == agents.Cline {
				wantAborted(t, res)
				return
			}
			results := res.Requests.ToolResults()
			if len(results) != 4 {
				t.Fatalf("the model was told %d tool results, want 4: %+v", len(results), results)
			}
			if blocked := results[2]; blocked.IsError != a.MarksErrors || !strings.Contains(blocked.Text, "not that file") {
				t.Errorf("of the blocked call the model was told %+v, want an error with the reason", blocked)
			}
			if read := results[3]; !strings.Contains(read.Text, "two") {
				t.Errorf("of reading the model was told %+v, want the content", read)
			}
			for i, r := range results {
				if i != 2 && r.IsError {
					t.Errorf("of a free call the model was told the error %+v", r)
				}
			}
			if n := len(res.Requests.MainRequests()); n != 4 {
				t.Errorf("%d main requests, want 4", n)
			}
			if want := "all of it is done now"; res.Answer != want {
				t.Errorf("answer %q, want %q", res.Answer, want)
			}
		})
	}
}

// Cline's hooks cannot refuse a call. They can end the whole run, and the model does not get the
// reason.
func wantAborted(t *testing.T, res verify.Result) {
	t.Helper()
	if results := res.Requests.ToolResults(); len(results) != 2 {
		t.Errorf("the model was told %+v, want the two results before the blocked call", results)
	}
	if n := len(res.Requests.MainRequests()); n != 2 || res.Answer != "" {
		t.Errorf("%d main requests and the answer %q, want the end after the second", n, res.Answer)
	}
	if !strings.Contains(res.Stdout, `"aborted"`) {
		t.Errorf("nothing says that the run was aborted:\n%s", res.Shown)
	}
}
