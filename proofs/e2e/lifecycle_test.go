//go:build e2e

package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/agents"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/offline"
)

// tree returns the contents of the files below a directory, by name.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// wayOut is the last line of a block in agents that show no messages.
var wayOut = regexp.MustCompile(`grapnel: rule [\w-]+ blocked this call; a person can allow it with [\\"]*grapnel allow[\\"]* in another terminal`)

// Installation keeps existing entries, a second installation changes nothing, and uninstallation
// restores every byte. The user's own hook runs in addition to Grapnel, and alone afterwards.
func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		g := unguarded(t, a, "version: 1\nhooks:\n  - {name: no-touching, on: tool.before, match: {command: touch guarded.txt}, block: that is GUARDED}\n")
		nativeHook[a.ID](t, g.World)
		original := tree(t, g.Home)
		g.grapnel(t, "install", a.ID, "--yes")
		installed := tree(t, g.Home)
		if maps.Equal(installed, original) {
			t.Fatal("install changed nothing")
		}
		g.grapnel(t, "install", a.ID, "--yes")
		if diff := cmp.Diff(installed, tree(t, g.Home)); diff != "" {
			t.Errorf("a second install changed something (-first +second):\n%s", diff)
		}
		g.uninstall(t, a.ID)
		if diff := cmp.Diff(original, tree(t, g.Home)); diff != "" {
			t.Errorf("uninstall left something (-before +after):\n%s", diff)
		}

		// The call for nativeHook comes last, because the hook ends the run of Cline.
		plan := func(n string) []model.Step {
			return []model.Step{
				model.Do(g.Shell("touch guarded.txt")),
				model.Do(g.Shell("echo free > free" + n + ".txt")),
				model.Do(g.Shell("echo no > forbidden.txt")),
				model.Answer("all done"),
			}
		}
		g.grapnel(t, "install", a.ID, "--yes")
		res := g.Run(t, "Do as planned.", plan("1")...)
		wantFile(t, res, "guarded.txt", "")
		wantFile(t, res, "free1.txt", "free\n")
		wantFile(t, res, "forbidden.txt", "")
		seen := withoutCache(t, res.Requests)
		for i := range seen {
			seen[i].Body = wayOut.ReplaceAll(seen[i].Body, nil)
		}
		if found := seen.Around("rapnel"); found != "" {
			t.Errorf("apart from the block, the model notices that Grapnel is there: %s", found)
		}
		g.uninstall(t, "--all")
		if got, want := g.ReadFile(t, g.SettingsFile()), original[g.SettingsFile()]; got != want {
			t.Errorf("after uninstall the settings are\n%q\nwant\n%q", got, want)
		}
		res = g.Run(t, "Do as planned.", plan("2")...)
		wantFile(t, res, "free2.txt", "free\n")
		wantFile(t, res, "forbidden.txt", "")
		if _, there := res.Files["guarded.txt"]; !there {
			t.Error("without Grapnel guarded.txt is not written")
		}
	})
}

// All agents share one home, each with a hook of the user. One command installs Grapnel into all,
// another removes it, and the home is then unchanged.
func TestUninstallAll(t *testing.T) {
	t.Parallel()
	g := unguarded(t, agents.ClaudeCode, noTouching)
	for name, content := range map[string]string{
		".claude/settings.json":             "{\r\n  \"hooks\" :{ \"Stop\":[] },\r\n\"env\": { \"ODD\": \"caf\\u00e9 <&> é\" }}",
		".gemini/settings.json":             "// mine\n{ \"general\": {\"enableAutoUpdate\":false} /* quiet */\n}\n",
		".codex/hooks.json":                 `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}`,
		".qwen/settings.json":               "{}",
		".copilot/hooks/mine.json":          `{"version": 1, "hooks": {}}`,
		".openclaw/openclaw.json":           "{\n  // mine\n  \"plugins\": {\"allow\": [\"mine\"],   \"load\": {\"paths\": []}}\n}\n",
		".config/opencode/plugins/mine.js":  "export const mine = async () => ({})\n",
		".config/crush/crush.json":          `{"hooks": {"PreToolUse": []}}` + "\n",
		".cline/hooks/PreToolUse":           "#!/bin/sh\necho '{}'\n",
		".cursor/hooks.json":                `{"version": 1, "hooks": {"stop": []}}`,
		".factory/settings.json":            `{"hooks": {}}`,
		".codeium/windsurf/hooks.json":      `{"hooks": {}}`,
		".gemini/config/hooks.json":         `{"mine": {"Stop": [{"command": "true"}]}}`,
		"Documents/notes/not-of-any-agent.": "notes\n",
	} {
		g.WriteFile(t, filepath.Join(g.Home, filepath.FromSlash(name)), content)
	}
	original := tree(t, g.Home)
	names := []string{
		"claude-code", "gemini-cli", "codex", "qwen-code", "copilot-cli", "openclaw", "opencode", "crush", "cline", "cursor", "factory-droid", "windsurf",
		"antigravity",
	}
	g.grapnel(t, append([]string{"install", "--yes"}, names...)...)
	installed := tree(t, g.Home)
	var changed []string
	for name := range installed {
		if installed[name] != original[name] {
			changed = append(changed, name)
		}
	}
	if len(changed) < len(names) {
		t.Errorf("install changed %q, want at least one file of each of %d agents", changed, len(names))
	}
	g.grapnel(t, append([]string{"install", "--yes"}, names...)...)
	if diff := cmp.Diff(installed, tree(t, g.Home)); diff != "" {
		t.Errorf("a second install changed something (-first +second):\n%s", diff)
	}
	g.uninstall(t, "--all")
	if diff := cmp.Diff(original, tree(t, g.Home)); diff != "" {
		t.Errorf("uninstall left something (-before +after):\n%s", diff)
	}
}

// The effect on a call if grapnel-hook itself does not answer: true = the call runs.
type unanswered struct{ killed, hung, gone bool }

// open is the behavior of most agents.
var open = unanswered{true, true, true}

// failures is the documented behavior of the agents, with and without --fail-closed.
var failures = map[string]unanswered{
	agents.ClaudeCode.ID:             open,
	agents.ClaudeCode.ID + " closed": {},
	agents.GeminiCLI.ID:              {killed: true, hung: true}, // the shell's exit code for a missing program blocks
	agents.Codex.ID:                  open,
	agents.QwenCode.ID:               open,
	agents.CopilotCLI.ID:             {hung: true}, // every exit code except 0 denies
	agents.Cline.ID:                  open,
	agents.Droid.ID:                  open,
	agents.Crush.ID:                  open,
	agents.OpenClaw.ID:               open,
	agents.OpenClaw.ID + " closed":   {},
	agents.OpenCode.ID:               open,
	agents.OpenCode.ID + " closed":   {},
}

// waitsLong lists the agents that wait longer for a hook than a test may run.
var waitsLong = map[string]string{
	agents.Cline.ID:     "120 seconds, which nothing changes",
	agents.GeminiCLI.ID: "for ever: it asks a hook that is late to end, which one that is stopped does not hear, and never kills it",
	agents.OpenCode.ID:  "58 seconds, so that the slowest policy can answer",
}

// grapnel-hook is killed while it judges, hangs, or is missing: the agent behaves as documented.
// After a kill it works again. In plugins, which keep it running, one kill does not bypass a
// guard: the next process judges the call.
func TestHookProgramFails(t *testing.T) {
	t.Parallel()
	eachAgent(t, func(t *testing.T, a *agents.Agent) {
		for _, flag := range []string{"", "--fail-closed"} {
			name := a.ID
			if flag != "" {
				name += " closed"
			}
			want, ok := failures[name]
			if !ok || a.Variant != "" {
				continue
			}
			t.Run("with "+flag, func(t *testing.T) {
				t.Parallel()
				testHookProgramFails(t, a, flag, want)
			})
		}
	})
}

// timeouts matches the time that an agent waits, in seconds or milliseconds.
var timeouts = regexp.MustCompile(`("timeout(?:Sec)?": ?)(?:60|3600)(000)?\b`)

func testHookProgramFails(t *testing.T, a *agents.Agent, flag string, want unanswered) {
	g := unguarded(t, a, "")
	g.bin = filepath.Join(g.Root, "bin")
	if err := os.Mkdir(g.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"grapnel", "grapnel-hook"} {
		if err := os.Link(offline.Program(t, name), filepath.Join(g.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	hook := filepath.Join(g.bin, "grapnel-hook")
	g.WriteFile(t, filepath.Join(g.kit, "grapnel.yaml"), fmt.Sprintf(`
version: 1
hooks:
  - {name: guard, on: tool.before, match: {command: [touch first.txt, touch second.txt, touch once.txt]}, block: that is GUARDED}
  - {name: dies-once, on: tool.before, match: {command: touch once.txt}, run: "test -e '%[1]s' || { touch '%[1]s'; kill -9 $PPID; }"}
  - {name: dies, on: tool.before, match: {command: touch killed.txt}, run: kill -9 $PPID}
  - {name: hangs, on: tool.before, match: {command: touch hung.txt}, run: kill -STOP $PPID}
  - {name: goes, on: tool.after, match: {tool: shell, command: echo going}, run: "rm -f '%[2]s'; kill -9 $PPID"}
`, filepath.Join(g.Root, "died"), hook))
	args := []string{"install", a.ID, "--yes"}
	if flag != "" {
		args = append(args, flag)
	}
	g.grapnel(t, args...)
	for name, content := range tree(t, g.Home) {
		if short := timeouts.ReplaceAllString(content, "${1}5$2"); short != content {
			g.WriteFile(t, name, short)
		}
	}
	// A plugin does not restart a process at once after two kills. Until then either all calls or
	// no calls are blocked.
	warm := a == agents.OpenClaw || a == agents.OpenCode
	steps := []model.Step{model.Do(g.Shell("touch first.txt"))}
	if warm {
		steps = append(steps, model.Do(g.Shell("touch once.txt")))
	}
	kills, hangs := !warm || flag == "", waitsLong[a.ID] == "" && (!warm || flag == "")
	if hangs {
		steps = append(steps, model.Do(g.Shell("touch hung.txt")))
	}
	if kills {
		steps = append(steps, model.Do(g.Shell("touch killed.txt")), model.Do(g.Shell("sleep 1")))
	}
	steps = append(steps, model.Do(g.Shell("touch second.txt")))
	res := g.Run(t, "Do as planned.", append(steps,
		model.Do(g.Shell("echo going > going.txt")),
		model.Do(g.Shell("touch gone.txt")),
		model.Answer("all done"),
	)...)
	wantFile(t, res, "first.txt", "")
	wantFile(t, res, "second.txt", "")
	wantFile(t, res, "once.txt", "")
	wantFile(t, res, "going.txt", "going\n")
	for name, happens := range map[string]bool{"killed.txt": want.killed && kills, "hung.txt": want.hung && hangs, "gone.txt": want.gone} {
		if _, happened := res.Files[name]; happened != happens {
			t.Errorf("%s was written: %v, want %v", name, happened, happens)
		}
	}
	if _, err := os.Stat(hook); err == nil {
		t.Error("grapnel-hook was not taken away, so nothing is known of that")
	}
	// Checks that the calls were judged, not only that an answer is missing.
	guarded := 2
	if warm {
		guarded = 3
	}
	if blocks := strings.Count(strings.Join(g.records(t).of("tool.before").decisions(), " "), "block"); blocks != guarded {
		t.Errorf("%d calls were blocked by the guard, want %d", blocks, guarded)
	}
}
