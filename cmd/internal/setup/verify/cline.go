package verify

import (
	"maps"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// Cline is the driver of the Cline CLI, which has no permission prompts in this mode. Its hooks are
// programs in a directory, named after events.
var Cline = &Agent{
	ID:       "cline",
	Binary:   "cline",
	Settings: ".cline/hooks/PreToolUse.sh",
	Deadline: 3 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call { return call("run_commands", "commands", []any{command}) },
		Write: func(path, content string) model.Call { return call("editor", "path", path, "new_text", content) },
		Read:  func(path string) model.Call { return call("read_files", "files", []any{object{"path": path}}) },
		Edit: func(path, from, to string) model.Call {
			return call("editor", "path", path, "old_text", from, "new_text", to)
		},
		Task: func(prompt string) model.Call {
			return call("spawn_agent", "systemPrompt", "You help.", "task", prompt)
		},
	},
	files: func(w *World) map[string]string {
		settings := filepath.Join(w.Home, ".cline", "data", "settings")
		files := w.repository()
		maps.Copy(files, map[string]string{
			filepath.Join(settings, "global-settings.json"): indented(object{"telemetryOptOut": true, "autoUpdateEnabled": false}),
			filepath.Join(settings, "providers.json"): indented(object{
				"version": 1, "lastUsedProvider": "openai-compatible",
				"providers": object{"openai-compatible": object{
					"settings":  object{"provider": "openai-compatible", "apiKey": "dummy", "model": "fake-1", "baseUrl": w.Model.URL + "/v1"},
					"updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual",
				}},
			}),
		})
		return files
	},
	env: func(*World) []string {
		return []string{
			"CLINE_NO_AUTO_UPDATE=1",
			"CLINE_TELEMETRY_DISABLED=1",
			"E2E_TEST=true", // the only way to prevent it from fetching feature flags
		}
	},
	args: func(w *World, prompt string) []string {
		args := []string{"-P", "openai-compatible", "-m", "fake-1", "-k", "dummy", "--json"}
		return append(append(args, w.Flags...), prompt)
	},
	answer: func(stdout string) string {
		type line struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		last := ""
		for l := range jsonLines[line](stdout) {
			if l.Type == "run_result" {
				last = l.Text
			}
		}
		return last
	},
	daemon: "--cline-hub-daemon",
}
