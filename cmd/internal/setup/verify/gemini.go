package verify

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// GeminiCLI is the driver of Google's agent.
var GeminiCLI = &Agent{
	ID:          "gemini-cli",
	Binary:      "gemini",
	Settings:    ".gemini/settings.json",
	MarksErrors: true,
	Deadline:    3 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call {
			return call("run_shell_command", "command", command, "description", "as planned")
		},
		Write: func(path, content string) model.Call {
			return call("write_file", "file_path", path, "content", content)
		},
		Read: func(path string) model.Call { return call("read_file", "file_path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("replace", "file_path", path, "old_string", from, "new_string", to, "instruction", "as planned")
		},
		Task: func(prompt string) model.Call {
			return call("invoke_agent", "agent_name", "generalist", "prompt", prompt)
		},
		Done: func(text string) model.Step {
			return model.Do(call("complete_task", "result", object{"response": text}))
		},
	},
	files: func(w *World) map[string]string {
		return map[string]string{w.SettingsFile(): `{
  "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false}
}
`}
	},
	env: func(w *World) []string {
		return []string{
			"GEMINI_API_KEY=dummy",
			"GOOGLE_GEMINI_BASE_URL=" + w.Model.URL,
			"GEMINI_CLI_HOME=" + w.Home,
			"GEMINI_CLI_NO_RELAUNCH=true", // otherwise it starts itself again
			"GEMINI_CLI_SYSTEM_SETTINGS_PATH=" + filepath.Join(w.Root, "no-system-settings.json"),
		}
	},
	args: func(w *World, prompt string) []string {
		mode := "yolo"
		if w.Cautious {
			mode = "default"
		}
		// With a named model, its router does not choose one.
		args := []string{"-m", "gemini-2.5-flash", "--approval-mode", mode, "-o", "json"}
		return append(append(args, w.Flags...), "-p", prompt)
	},
	answer: func(stdout string) string {
		var out struct {
			Response string `json:"response"`
		}
		if json.Unmarshal([]byte(stdout), &out) != nil {
			return ""
		}
		return out.Response
	},
}
