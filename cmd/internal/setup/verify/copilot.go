package verify

import (
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// CopilotCLI is the driver of GitHub's agent.
var CopilotCLI = &Agent{
	ID:       "copilot-cli",
	Binary:   "copilot",
	Settings: ".copilot/hooks/hooks.json",
	Deadline: 3 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call { return call("bash", "command", command, "description", "as planned") },
		Write: func(path, content string) model.Call { return call("create", "path", path, "file_text", content) },
		Read:  func(path string) model.Call { return call("view", "path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("edit", "path", path, "old_str", from, "new_str", to)
		},
		Task: func(prompt string) model.Call {
			return call("task", "name", "helper", "description", "help", "prompt", prompt, "agent_type", "general-purpose", "mode", "sync")
		},
	},
	env: func(w *World) []string {
		return []string{
			"COPILOT_OFFLINE=true",
			"COPILOT_AUTO_UPDATE=false",
			"COPILOT_MODEL=fake-model",
			"COPILOT_PROVIDER_BASE_URL=" + w.Model.URL + "/v1",
			"COPILOT_PROVIDER_API_KEY=dummy",
		}
	},
	args: func(w *World, prompt string) []string {
		args := []string{"--disable-client-telemetry", "--no-auto-update", "--output-format", "json"}
		if !w.Cautious {
			args = append(args, "--allow-all-tools")
		}
		if !w.Untrusting {
			args = append(args, "--trust-folder")
		}
		return append(append(args, w.Flags...), "-p", prompt)
	},
	unpacks: ".cache/copilot",
	answer: func(stdout string) string {
		type line struct {
			Type string `json:"type"`
			Data struct {
				Content string `json:"content"`
			} `json:"data"`
		}
		last := ""
		for l := range jsonLines[line](stdout) {
			if l.Type == "assistant.message" && l.Data.Content != "" {
				last = l.Data.Content
			}
		}
		return last
	},
}
