package dialect_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/dialect"
)

func TestOfProcess(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		// exe | name | arguments
		"/home/u/.local/share/claude/versions/2.1.295|claude|claude --resume":                                                       "Claude Code",
		"/usr/bin/node|claude|claude":                                                                                               "Claude Code",
		"/usr/bin/node|node|node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js -p x":                                       "Claude Code",
		"/p/node_modules/@openai/codex/vendor/x86_64-unknown-linux-musl/codex/codex|codex|codex exec":                               "Codex CLI",
		"/usr/bin/codex-x86_64-unknown-linux-musl|codex-x86_64-un|codex":                                                            "Codex CLI",
		"/usr/bin/node|node|node --no-warnings=DEP0040 /usr/local/bin/gemini --yolo":                                                "Gemini CLI",
		"/usr/bin/node|MainThread|/usr/bin/node /x/@google/gemini-cli/dist/index.js":                                                "Gemini CLI",
		"/usr/bin/node|node|node -r source-map-support/register /x/gemini.js":                                                       "Gemini CLI",
		"/usr/bin/node|node|node /x/bin/qwen":                                                                                       "Qwen Code",
		"/usr/bin/node|node|node /x/@github/copilot/index.js":                                                                       "GitHub Copilot CLI",
		"/home/u/.local/share/cursor-agent/versions/2026.1/node|node|/home/u/.local/bin/cursor-agent --use-system-ca /x/y/index.js": "Cursor",
		"/usr/bin/droid|droid|droid":                                                                                                "Factory Droid",
		"/usr/bin/crush|crush|crush run":                                                                                            "Crush",
		"/usr/bin/node|node|node /x/node_modules/cline/dist/cli.mjs":                                                                "Cline CLI",
		"/home/u/.opencode/bin/opencode|opencode|opencode":                                                                          "OpenCode",
		"/usr/bin/bun|bun|bun run /x/node_modules/opencode-ai/bin/opencode":                                                         "OpenCode",
		"/usr/bin/node|openclaw-gatewa|openclaw-gateway":                                                                            "OpenClaw",
		"/usr/bin/agy|agy|agy": "Antigravity CLI",
		"/usr/bin/kiro-cli-chat|kiro-cli-chat|kiro-cli-chat chat": "Kiro CLI",
		`C:\Users\u\AppData\Roaming\npm\Claude.EXE|claude.exe|`:   "Claude Code",
		"/bin/dash|claude|/bin/sh /tmp/x/claude":                  "Claude Code",
		"/bin/bash||bash /tmp/x/gemini.sh":                        "Gemini CLI",
		"||-claude":                                               "Claude Code",
		"||":                                                      "",
		"/usr/bin/bash|bash|-bash":                                "",
		"/usr/bin/bash|bash|bash -c claude":                       "",
		"/usr/bin/vim|vim|vim claude":                             "",
		"/usr/bin/node|node|node server.js claude":                "",
		"/usr/share/code/code|code|/usr/share/code/code --ms-enable-electron-run-as-node /x/claude":                                   "",
		"/usr/share/cursor/cursor|cursor|/usr/share/cursor/cursor":                                                                    "",
		"/usr/share/windsurf/windsurf|windsurf|windsurf":                                                                              "",
		"/opt/kiro/kiro|kiro|kiro":                                                                                                    "",
		"/usr/bin/antigravity|antigravity|antigravity":                                                                                "",
		"/home/u/.local/bin/kiro-cli-term|kiro-cli-term|bash (kiro-cli-term)":                                                         "",
		"/home/u/.cursor-server/bin/linux-x64/1/node|node|/home/u/.cursor-server/bin/linux-x64/1/node /home/u/.cursor-server/main.js": "",
		"/x/node|node|node /home/u/.vscode-server/bin/1/out/server-main.js":                                                           "",
		"/x/node|node|node /home/u/.vscode/extensions/github.copilot-1.3/dist/language-server.js":                                     "",
		"/usr/bin/tmux|tmux: server|tmux new -s claude":                                                                               "",
		"/usr/sbin/sshd|sshd|sshd: u@pts/0":                                                                                           "",
	} {
		parts := strings.Split(line, "|")
		if got := dialect.OfProcess(parts[0], parts[1], strings.Fields(parts[2])); got != want {
			t.Errorf("OfProcess(%s) = %q, want %q", line, got, want)
		}
	}
}

// Each agent that is no editor has a name for its processes.
func TestProcesses(t *testing.T) {
	t.Parallel()
	for _, d := range dialect.All() {
		if setup := d.Setup(); setup != nil && (len(setup.Processes) == 0) != (d.Name == "windsurf" || d.Name == "kiro") {
			t.Errorf("%s: processes %q", d.Name, setup.Processes)
		}
	}
}
