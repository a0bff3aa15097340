package verify

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// OpenCode is the driver of OpenCode. Its hooks are plugins.
var OpenCode = &Agent{
	ID:       "opencode",
	Binary:   "opencode",
	Settings: ".config/opencode/plugins/hooks.js",
	Deadline: 5 * time.Minute,
	Tools: Tools{
		Shell: func(command string) model.Call { return call("bash", "command", command, "description", "as planned") },
		Write: func(path, content string) model.Call { return call("write", "filePath", path, "content", content) },
		Read:  func(path string) model.Call { return call("read", "filePath", path) },
		Edit: func(path, from, to string) model.Call {
			return call("edit", "filePath", path, "oldString", from, "newString", to)
		},
		Task: func(prompt string) model.Call {
			return call("task", "description", "help", "prompt", prompt, "subagent_type", "general")
		},
	},
	files: func(w *World) map[string]string {
		files := w.repository()
		maps.Copy(files, map[string]string{filepath.Join(opencodeDir(w), "opencode.json"): indented(object{
			"autoupdate": false, "share": "disabled", "lsp": false, "formatter": false,
			"model": "fake/fake-1", "small_model": "fake/fake-1", "enabled_providers": []any{"fake"},
			"permission": object{"edit": "allow", "bash": "allow"},
			"provider": object{"fake": object{
				"npm": "@ai-sdk/openai-compatible", "name": "fake",
				"options": object{"baseURL": w.Model.URL + "/v1", "apiKey": "dummy"},
				"models":  object{"fake-1": object{"name": "fake-1", "tool_call": true, "limit": object{"context": 200000, "output": 8000}}},
			}},
		})})
		return files
	},
	env: func(w *World) []string {
		env := []string{
			"OPENCODE_DISABLE_AUTOUPDATE=1",
			"OPENCODE_DISABLE_MODELS_FETCH=1",
			"OPENCODE_DISABLE_SHARE=1",
			"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
			"OPENCODE_DISABLE_CLAUDE_CODE=1",
			"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		}
		if w.Cautious {
			env = append(env, `OPENCODE_PERMISSION={"edit":"ask","bash":"ask"}`)
		}
		return env
	},
	args: func(w *World, _ string) []string { return append([]string{"run"}, w.Flags...) },
	// OpenCode would quote a prompt with a space on the command line, and escape the quotes inside
	// it.
	stdin: func(_ *World, prompt string) string { return prompt },
	// OpenCode loads plugins only after it has installed the package for writing plugins in every
	// directory that may contain some, which fails without a network. It accepts a lock file that
	// names the package as proof of the installation.
	prepare: func(ctx context.Context, w *World) error {
		if w.Program.Version == "" {
			version, err := w.askVersion(ctx)
			if err != nil {
				return err
			}
			w.Program.Version = version
		}
		lock := indented(object{"packages": object{"": object{"dependencies": object{"@opencode-ai/plugin": w.Program.Version}}}})
		for _, dir := range []string{opencodeDir(w), filepath.Join(w.Home, ".opencode"), filepath.Join(w.Project, ".opencode")} {
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			if err := os.MkdirAll(filepath.Join(dir, "node_modules"), 0o700); err != nil {
				return err
			}
			if err := write(filepath.Join(dir, "package-lock.json"), lock); err != nil {
				return err
			}
		}
		return nil
	},
	answer: strings.TrimSpace,
}

func opencodeDir(w *World) string { return filepath.Join(w.Home, ".config", "opencode") }
