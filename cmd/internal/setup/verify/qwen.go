package verify

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// QwenCode is the driver of Alibaba's agent, a fork of Gemini CLI. It has the longest start-up
// time: up to 40 s on a busy machine.
var QwenCode = &Agent{
	ID:       "qwen-code",
	Binary:   "qwen",
	Settings: ".qwen/settings.json",
	Deadline: 5 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call {
			return call("run_shell_command", "command", command, "is_background", false)
		},
		Write: func(path, content string) model.Call {
			return call("write_file", "file_path", path, "content", content)
		},
		Read: func(path string) model.Call { return call("read_file", "file_path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("edit", "file_path", path, "old_string", from, "new_string", to)
		},
		Task: func(prompt string) model.Call {
			return call("agent", "description", "help", "prompt", prompt, "subagent_type", "general-purpose", "run_in_background", false)
		},
	},
	files: func(w *World) map[string]string {
		return map[string]string{w.SettingsFile(): indented(object{
			"$version":  4, // otherwise it rewrites the file
			"security":  object{"auth": object{"selectedType": "openai"}, "folderTrust": object{"enabled": false}},
			"general":   object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
			"privacy":   object{"usageStatisticsEnabled": false},
			"telemetry": object{"enabled": false},
			"model":     object{"name": "fake-1"},
			// It would send a separate request after each turn, including tools.
			"memory": object{"enableManagedAutoMemory": false},
		})}
	},
	env: func(w *World) []string {
		return []string{
			"OPENAI_API_KEY=dummy",
			"OPENAI_BASE_URL=" + w.Model.URL + "/v1",
			"OPENAI_MODEL=fake-1",
			"QWEN_CODE_SYSTEM_SETTINGS_PATH=" + filepath.Join(w.Root, "no-system-settings.json"),
			"QWEN_CODE_SYSTEM_DEFAULTS_PATH=" + filepath.Join(w.Root, "no-system-defaults.json"),
		}
	},
	args: func(w *World, prompt string) []string {
		args := append([]string{"-o", "stream-json"}, w.Flags...)
		if w.Cautious { // required to get a permission prompt
			return append(args, "--approval-mode", "default", "--input-format", "stream-json")
		}
		return append(args, "--approval-mode", "yolo", "-p", prompt)
	},
	stdin: func(w *World, prompt string) string {
		if !w.Cautious {
			return ""
		}
		line, err := json.Marshal(object{
			"type": "user", "session_id": "s", "parent_tool_use_id": nil,
			"message": object{"role": "user", "content": prompt},
		})
		if err != nil {
			panic("verify: " + err.Error()) // only strings, so encoding cannot fail
		}
		return string(line) + "\n"
	},
	answer: func(stdout string) string {
		result := ""
		for line := range jsonLines[claudeLine](stdout) { // its output has the same format
			if line.Type == "result" {
				result = line.Result
			}
		}
		return result
	},
}
