package verify

import (
	"encoding/json"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// Droid is the driver of Factory's agent. With a model of the user's own it
// needs no account.
var Droid = &Agent{
	ID:       "factory-droid",
	Binary:   "droid",
	Settings: ".factory/settings.json",
	Deadline: 3 * time.Minute,
	Tools: Tools{
		// In a run without a user, Droid asks nothing before a call of low risk.
		Shell: func(command string) model.Call {
			return call("Execute", "command", command, "summary", "as planned", "riskLevelReason", "a test", "riskLevel", "high")
		},
		Write: func(path, content string) model.Call { return call("Create", "file_path", path, "content", content) },
		Read:  func(path string) model.Call { return call("Read", "file_path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("Edit", "file_path", path, "old_str", from, "new_str", to, "change_all", false)
		},
	},
	files: func(w *World) map[string]string {
		return map[string]string{w.SettingsFile(): indented(object{
			"customModels": []any{object{
				"model": "fake-1", "displayName": "fake-1", "baseUrl": w.Model.URL + "/v1", "apiKey": "dummy",
				"provider": "generic-chat-completion-api", "maxOutputTokens": 8000,
			}},
		})}
	},
	args: func(w *World, prompt string) []string {
		args := []string{"exec", "-m", "custom:fake-1", "-o", "json"}
		if !w.Cautious {
			args = append(args, "--auto", "high")
		}
		return append(append(args, w.Flags...), prompt)
	},
	contacts: ".factory.ai:443",
	answer: func(stdout string) string {
		var result struct {
			Result string `json:"result"`
		}
		_ = json.Unmarshal([]byte(stdout), &result) // "" if a hook ended the turn
		return result.Result
	},
}
