package verify

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/shell"
)

// Codex is the driver of OpenAI's agent with a model that calls its tools one by one.
var Codex = codex("", "gpt-5.5", Tools{
	Shell: func(command string) model.Call { return call("exec_command", "cmd", command) },
	Write: func(path, content string) model.Call {
		return model.Call{Tool: "apply_patch", Raw: addFile(path, content)}
	},
	Read: func(path string) model.Call { return call("exec_command", "cmd", "cat "+shell.Quote(path)) },
	Edit: func(path, from, to string) model.Call {
		return model.Call{Tool: "apply_patch", Raw: updateLine(path, from, to)}
	},
})

// CodexCode is Codex with one of the newer models, which have a single tool. It runs JavaScript,
// and the script calls the other tools.
var CodexCode = codex("code", "gpt-6-astra", Tools{
	Shell: func(command string) model.Call { return script("exec_command", object{"cmd": command}) },
	Write: func(path, content string) model.Call { return script("apply_patch", addFile(path, content)) },
	Read: func(path string) model.Call {
		return script("exec_command", object{"cmd": "cat " + shell.Quote(path)})
	},
	Edit: func(path, from, to string) model.Call { return script("apply_patch", updateLine(path, from, to)) },
})

// script returns the call of the JavaScript tool that calls tool and prints the result.
func script(tool string, input any) model.Call {
	return model.Call{Tool: "exec", Raw: fmt.Sprintf("const r = await tools.%s(%s); text(JSON.stringify(r))", tool, strings.TrimSpace(indented(input)))}
}

func codex(variant, name string, tools Tools) *Agent {
	return &Agent{
		ID:       "codex",
		Variant:  variant,
		Binary:   "codex",
		Settings: ".codex/hooks.json",
		Deadline: 3 * time.Minute,
		Tools:    tools,
		files: func(w *World) map[string]string {
			return map[string]string{filepath.Join(w.Home, ".codex", "config.toml"): fmt.Sprintf(`model = %q
model_provider = "fake"
check_for_update_on_startup = false
web_search = "disabled"

[analytics]
enabled = false

[feedback]
enabled = false

[otel]
exporter = "none"

[features]
apps = false
plugins = false
remote_plugin = false

[model_providers.fake]
name = "fake"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`, name, w.Model.URL)}
		},
		env: func(w *World) []string { return []string{"CODEX_HOME=" + filepath.Join(w.Home, ".codex")} },
		args: func(w *World, prompt string) []string {
			args := []string{"exec", "--json", "--skip-git-repo-check", "-C", w.Project}
			if !w.Untrusting {
				args = append(args, "--dangerously-bypass-hook-trust")
			}
			if !w.Cautious {
				args = append(args, "--dangerously-bypass-approvals-and-sandbox")
			}
			return append(append(args, w.Flags...), "--", prompt)
		},
		answer: func(stdout string) string {
			type line struct {
				Type string `json:"type"`
				Item struct {
					Type string `json:"type"`
					Text string `json:"text"`
				} `json:"item"`
			}
			last := ""
			for l := range jsonLines[line](stdout) {
				if l.Type == "item.completed" && l.Item.Type == "agent_message" {
					last = l.Item.Text
				}
			}
			return last
		},
	}
}

// addFile returns the patch that creates a file. The file always ends with a newline.
func addFile(path, content string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*** Begin Patch\n*** Add File: %s\n", path)
	for line := range strings.Lines(content) {
		fmt.Fprintf(&b, "+%s\n", strings.TrimSuffix(line, "\n"))
	}
	b.WriteString("*** End Patch\n")
	return b.String()
}

// updateLine returns the patch that replaces a line.
func updateLine(path, from, to string) string {
	return fmt.Sprintf("*** Begin Patch\n*** Update File: %s\n@@\n-%s\n+%s\n*** End Patch\n", path, from, to)
}
