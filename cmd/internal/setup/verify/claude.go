package verify

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// ClaudeCode is the driver of Anthropic's agent. It needs no settings to avoid prompts and network
// requests.
var ClaudeCode = &Agent{
	ID:          "claude-code",
	Binary:      "claude",
	Settings:    ".claude/settings.json",
	MarksErrors: true,
	Deadline:    3 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call {
			return call("Bash", "command", command, "description", "as planned")
		},
		Write: func(path, content string) model.Call {
			return call("Write", "file_path", path, "content", content)
		},
		Read: func(path string) model.Call { return call("Read", "file_path", path) },
		Edit: func(path, from, to string) model.Call {
			return call("Edit", "file_path", path, "old_string", from, "new_string", to)
		},
		Task: func(prompt string) model.Call {
			return call("Agent", "description", "help", "prompt", prompt, "subagent_type", "general-purpose", "run_in_background", false)
		},
	},
	env: func(w *World) []string {
		return []string{
			"ANTHROPIC_BASE_URL=" + w.Model.URL,
			"ANTHROPIC_API_KEY=dummy",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_TELEMETRY=1",
			"DISABLE_ERROR_REPORTING=1",
			"DISABLE_AUTOUPDATER=1",
			"SHELL=/bin/bash",
		}
	},
	args: func(w *World, prompt string) []string {
		args := []string{"-p", "--output-format", "stream-json", "--verbose", "--include-hook-events"}
		if !w.Cautious {
			args = append(args, "--allowedTools=Bash,Write,Read,Edit,Agent")
		}
		return append(append(args, w.Flags...), "--", prompt)
	},
	answer: func(stdout string) string {
		result := ""
		for line := range jsonLines[claudeLine](stdout) {
			if line.Type == "result" {
				result = line.Result
			}
		}
		return result
	},
	// The stream contains the complete output of each hook.
	shown: func(stdout string) string {
		var b strings.Builder
		for text := range strings.Lines(stdout) {
			var line claudeLine
			if json.Unmarshal([]byte(text), &line) != nil || !strings.HasPrefix(line.Subtype, "hook_") {
				b.WriteString(text)
			}
		}
		return b.String()
	},
}

// A claudeLine is a line of Claude Code's output, with only the members that this package reads.
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Result  string `json:"result"`
}
