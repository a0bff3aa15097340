// Package agents runs real coding agents in tests: it installs pinned versions
// from npm, and drives each of them headless in a world of its own against the
// fake model of package model.
//
//	err := agents.Install(ctx, agents.All...)   // once, while there is a network
//	w := agents.NewWorld(t, agents.ClaudeCode)  // fresh home, project and model
//	res := w.Run(t, "Go on.",
//		model.Do(w.Shell("touch a.txt")),
//		model.Say("all done"))
//	// res.Files has "a.txt", res.Requests has what the model was told
//
// It does not judge: what an agent should have done is for the test to say. It
// does not isolate either beyond a private home and an environment built from
// nothing; package offline takes the network away.
package agents

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/test/e2e/model"
)

// An Agent is one coding agent in one version, with everything a test needs to
// know about starting it and reading it.
type Agent struct {
	ID      string // Grapnel's name for it
	Package string // on npm
	Version string // exactly this one; another version may be another protocol

	// Settings is the user's settings file, relative to the home directory.
	Settings string
	// Quiet is the least that Settings must hold for a run without questions
	// and without traffic; "" when the agent needs no such file.
	Quiet string

	npmFlags []string
	program  string // glob below the npm prefix that matches exactly what is executed
	needs    string // the interpreter of program; "" when it is native

	env   func(w *World) []string
	args  func(w *World, prompt string) []string
	shell func(command string) model.Call
	write func(path, content string) model.Call
	read  func(path string) model.Call
	// answer finds the agent's final words in its standard output.
	answer func(stdout string) string
	// shown leaves out of its standard output what no person gets to see; nil means
	// that all of it is for people.
	shown func(stdout string) string
}

// ClaudeCode is Anthropic's agent, a native binary that npm fetches for the
// platform at hand. The package's own "bin" is a stub that only works after an
// install script.
var ClaudeCode = &Agent{
	ID:       "claude-code",
	Package:  "@anthropic-ai/claude-code",
	Version:  "2.1.329",
	Settings: ".claude/settings.json",
	program:  "node_modules/@anthropic-ai/claude-code-*/claude",
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
			args = append(args, "--allowedTools=Bash,Write,Read,Agent")
		}
		return append(append(args, w.Flags...), "--", prompt)
	},
	shell: func(command string) model.Call {
		return model.Call{Tool: "Bash", Input: map[string]any{"command": command, "description": "as planned"}}
	},
	write: func(path, content string) model.Call {
		return model.Call{Tool: "Write", Input: map[string]any{"file_path": path, "content": content}}
	},
	read: func(path string) model.Call {
		return model.Call{Tool: "Read", Input: map[string]any{"file_path": path}}
	},
	answer: func(stdout string) string {
		result := ""
		for text := range strings.Lines(stdout) {
			if line := readClaudeLine(text); line.Type == "result" {
				result = line.Result
			}
		}
		return result
	},
	// The stream tells a test what each hook said, word for word.
	shown: func(stdout string) string {
		var b strings.Builder
		for text := range strings.Lines(stdout) {
			if line := readClaudeLine(text); !strings.HasPrefix(line.Subtype, "hook_") {
				b.WriteString(text)
			}
		}
		return b.String()
	},
}

// A claudeLine is a line of Claude Code's output, as far as anybody here looks.
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Result  string `json:"result"`
}

// readClaudeLine returns the zero line for one that is no JSON.
func readClaudeLine(text string) (line claudeLine) {
	if json.Unmarshal([]byte(text), &line) != nil {
		return claudeLine{}
	}
	return line
}

// GeminiCLI is Google's agent, a JavaScript bundle.
var GeminiCLI = &Agent{
	ID:       "gemini-cli",
	Package:  "@google/gemini-cli",
	Version:  "0.61.0",
	Settings: ".gemini/settings.json",
	Quiet: `{
  "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false}
}
`,
	npmFlags: []string{"--omit=optional"}, // native add-ons that headless runs do without
	program:  "node_modules/@google/gemini-cli/bundle/gemini.js",
	needs:    "node",
	env: func(w *World) []string {
		return []string{
			"GEMINI_API_KEY=dummy",
			"GOOGLE_GEMINI_BASE_URL=" + w.Model.URL,
			"GEMINI_CLI_HOME=" + w.Home,
			"GEMINI_CLI_NO_RELAUNCH=true", // otherwise it starts itself once more
			"GEMINI_CLI_SYSTEM_SETTINGS_PATH=" + filepath.Join(w.Root, "no-system-settings.json"),
		}
	},
	args: func(w *World, prompt string) []string {
		mode := "yolo"
		if w.Cautious {
			mode = "default"
		}
		// Naming the model keeps its router from asking which one to take.
		args := []string{"-m", "gemini-2.5-flash", "--approval-mode", mode, "-o", "json"}
		return append(append(args, w.Flags...), "-p", prompt)
	},
	shell: func(command string) model.Call {
		return model.Call{Tool: "run_shell_command", Input: map[string]any{"command": command, "description": "as planned"}}
	},
	write: func(path, content string) model.Call {
		return model.Call{Tool: "write_file", Input: map[string]any{"file_path": path, "content": content}}
	},
	read: func(path string) model.Call {
		return model.Call{Tool: "read_file", Input: map[string]any{"file_path": path}}
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

// All lists the agents this package knows.
var All = []*Agent{ClaudeCode, GeminiCLI}

// String returns the ID, so that subtests are named after agents.
func (a *Agent) String() string { return a.ID }

// command returns the program and the arguments that start the agent installed
// below prefix.
func (a *Agent) command(prefix string, args ...string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(prefix, filepath.FromSlash(a.program)))
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s: want one file %s below %s, found %d", a.ID, a.program, prefix, len(found))
	}
	argv := append([]string{found[0]}, args...)
	if a.needs != "" {
		interpreter, err := lookPath(a.needs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.ID, err)
		}
		argv = append([]string{interpreter}, argv...)
	}
	return argv, nil
}
