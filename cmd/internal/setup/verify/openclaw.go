package verify

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// OpenClaw is the driver of OpenClaw, run once and without its gateway. Its hooks are plugins.
var OpenClaw = &Agent{
	ID:       "openclaw",
	Binary:   "openclaw",
	Settings: ".openclaw/openclaw.json",
	Deadline: 5 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call { return call("exec", "command", command) },
		Write: func(path, content string) model.Call { return call("write", "path", path, "content", content) },
		Read:  func(path string) model.Call { return call("read", "path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("edit", "path", path, "edits", []any{object{"oldText": from, "newText": to}})
		},
	},
	files: func(w *World) map[string]string {
		return map[string]string{w.SettingsFile(): indented(object{
			"models": object{"mode": "replace", "providers": object{"fake": object{
				"baseUrl": w.Model.URL + "/v1", "apiKey": "dummy", "api": "openai-completions",
				"models": []any{object{
					"id": "fake-1", "name": "fake-1", "reasoning": false, "input": []any{"text"}, "contextWindow": 200000, "maxTokens": 8000,
				}},
			}}},
			"agents":    object{"defaults": object{"model": object{"primary": "fake/fake-1"}, "workspace": w.Project, "skipBootstrap": true}},
			"tools":     object{"profile": "coding", "exec": object{"security": "full", "ask": "off"}},
			"update":    object{"checkOnStart": false},
			"telemetry": object{"enabled": false},
			"plugins":   object{"slots": object{"memory": "none"}},
		})}
	},
	env: func(w *World) []string {
		return []string{"OPENCLAW_CONFIG_PATH=" + w.SettingsFile(), "OPENCLAW_NO_AUTO_UPDATE=1"}
	},
	args: func(w *World, prompt string) []string {
		return append(append([]string{"agent", "--local", "--session-id", "s1", "--json"}, w.Flags...), "-m", prompt)
	},
	answer: func(stdout string) string {
		var out struct {
			Payloads []struct {
				Text string `json:"text"`
			} `json:"payloads"`
		}
		_, after, ok := strings.Cut(stdout, "{") // notices may precede it
		if !ok || json.NewDecoder(strings.NewReader("{"+after)).Decode(&out) != nil || len(out.Payloads) == 0 {
			return ""
		}
		return out.Payloads[len(out.Payloads)-1].Text
	},
}
