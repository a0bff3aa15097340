package verify

import (
	"maps"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// Crush is the driver of Charm's agent, which asks for no permission in this mode.
var Crush = &Agent{
	ID:       "crush",
	Binary:   "crush",
	Settings: ".config/crush/crush.json",
	Deadline: 3 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call { return call("bash", "command", command, "description", "as planned") },
		Write: func(path, content string) model.Call { return call("write", "file_path", path, "content", content) },
		Read:  func(path string) model.Call { return call("view", "file_path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("edit", "file_path", path, "old_string", from, "new_string", to)
		},
		Task:       func(prompt string) model.Call { return call("agent", "prompt", prompt) },
		TaskUnseen: true,
	},
	files: func(w *World) map[string]string {
		fake := object{"provider": "fake", "model": "fake-1"}
		files := w.repository()
		maps.Copy(files, map[string]string{w.SettingsFile(): indented(object{
			"options": object{"disable_metrics": true, "disable_provider_auto_update": true, "disable_default_providers": true},
			"models":  object{"large": fake, "small": fake},
			"providers": object{"fake": object{
				"type": "openai-compat", "base_url": w.Model.URL + "/v1", "api_key": "dummy",
				"models": []any{object{"id": "fake-1", "name": "fake-1", "context_window": 200000, "default_max_tokens": 8000}},
			}},
		})})
		return files
	},
	env: func(*World) []string {
		return []string{"CRUSH_DISABLE_METRICS=1", "CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1"}
	},
	args: func(w *World, prompt string) []string {
		return append(append([]string{"run", "--quiet"}, w.Flags...), prompt)
	},
	answer: strings.TrimSpace,
}
