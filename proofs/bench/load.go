package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// otherHooks is the number of hooks of a file that do not match the event.
const otherHooks = 20

// A hookFile writes a hook file of another system: n hooks that do not match the event, and one
// that does.
type hookFile struct {
	format, file string
	write        func(n int) string
}

// ruleFiles have a rule that blocks the event.
var ruleFiles = []hookFile{{"ironclaw", "bundle.json", func(n int) string {
	return `{"rules": [` + list(n, `{"name": "other-%d", "points": ["beforeToolCall"], "when_regex": "never-%[1]d", "reject_reason": "no"}`,
		`{"name": "it", "points": ["beforeToolCall"], "when_regex": "npm ci", "reject_reason": "no"}`) + `]}`
}}}

// commandFiles have a command that runs and has no opinion.
var commandFiles = []hookFile{
	{"claude-code", "settings.json", func(n int) string {
		return `{"hooks": {"PreToolUse": [` + list(n, `{"matcher": "Other%d", "hooks": [{"type": "command", "command": "true"}]}`,
			`{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}`) + `]}}`
	}},
	{"gemini-cli", "settings.json", func(n int) string {
		return `{"hooks": {"BeforeTool": [` + list(n, `{"matcher": "other_%d", "hooks": [{"type": "command", "command": "true"}]}`,
			`{"matcher": "run_shell_command", "hooks": [{"type": "command", "command": "true"}]}`) + `]}}`
	}},
	{"flyto", "flyto-hooks.json", func(n int) string {
		return `[` + list(n, `{"type": "stop", "command": "echo %d"}`, `{"type": "pre_tool_use", "command": "true"}`) + `]`
	}},
	{"miniclaw", "settings.json", func(n int) string {
		return `{"hooks": {"pre_tool": [` + list(n, `{"tool_pattern": "other_%d", "command": "true"}`, `{"command": "true"}`) + `]}}`
	}},
}

// list joins n copies of other, each with its number, and one.
func list(n int, other, one string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(other, i))
	}
	return strings.Join(append(all, one), ",\n")
}

func setupLoadRules(ctx context.Context, s *setup) error {
	return s.load(ctx, ruleFiles, true, "  - {name: it, on: tool.before, match: {command: npm ci}, block: no}\n")
}

func setupLoadCommands(ctx context.Context, s *setup) error {
	return s.load(ctx, commandFiles, false, "  - {name: it, on: tool.before, match: {tool: shell}, run: 'true'}\n")
}

// setupLoadModules sets up a module of OpenClaw, which the daemon keeps running in Node.js, and makes
// sure that the daemon answers. The module blocks, so that an answer without it cannot pass.
func setupLoadModules(ctx context.Context, s *setup) error {
	static, err := s.staticShell()
	if err != nil {
		return err
	}
	p := s.paths[0]
	p.reference, p.floor = static, static
	const name = "openclaw-module"
	dir, err := s.tempDir(name)
	if err != nil {
		return err
	}
	for file, text := range map[string]string{
		"openclaw-hooks.json": `{"before-tool-call": "guard.mjs"}`,
		"guard.mjs":           `export default () => ({ block: true, blockReason: "no" })`,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	policy := fmt.Sprintf("version: 1\nload: [{format: openclaw, file: %q}]\n", filepath.Join(dir, "openclaw-hooks.json"))
	d, err := s.daemon(ctx, name, policy)
	if err != nil {
		return err
	}
	root, err := s.root(name, policy)
	if err != nil {
		return err
	}
	hook, err := s.program("grapnel-hook "+name, []string{s.exe("grapnel-hook"), "claude-code", "--root", root}, "Bash", shellInput())
	if err != nil {
		return err
	}
	for range 2 { // the first event starts Node.js
		if err := expect(ctx, hook, blocked, true); err != nil {
			return err
		}
	}
	health, err := d.Health(ctx)
	if err == nil && health.Answered != 2 {
		err = fmt.Errorf("the daemon answered %d of 2 events: %s", health.Answered, d.Output())
	}
	p.subject = hook.wall()
	return err
}

// load sets up a hook in our own format, and next to it each file with the same hook, without
// and with other hooks.
func (s *setup) load(ctx context.Context, files []hookFile, blocks bool, ours string) error {
	static, err := s.staticShell()
	if err != nil {
		return err
	}
	for _, p := range s.paths {
		p.reference, p.floor = static, static
	}
	s.paths[0].subject, s.paths[0].err = s.loadSeries(ctx, "ours-"+files[0].format, "version: 1\nhooks:\n"+ours, blocks)
	for i, f := range files {
		for j, n := range []int{0, otherHooks} {
			path := s.paths[1+2*i+j]
			path.subject, path.err = s.loadFile(ctx, f, n, blocks)
		}
	}
	return nil
}

func (s *setup) loadFile(ctx context.Context, f hookFile, n int, blocks bool) (*series, error) {
	name := fmt.Sprintf("%s-%d", f.format, n)
	dir, err := s.tempDir(name)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, f.file)
	if err := os.WriteFile(file, []byte(f.write(n)), 0o600); err != nil {
		return nil, err
	}
	return s.loadSeries(ctx, name, fmt.Sprintf("version: 1\nload: [{format: %s, file: %q}]\nhooks:\n", f.format, file), blocks)
}

// loadSeries makes sure that the hook of a policy answers, and that a canary behind it blocks.
func (s *setup) loadSeries(ctx context.Context, name, policy string, blocks bool) (*series, error) {
	policy += fmt.Sprintf(rule, 0, "match: {command: "+canaryCommand+"}", "block: "+canaryReason)
	root, err := s.root(name, policy)
	if err != nil {
		return nil, err
	}
	argv := []string{s.exe("grapnel-hook"), "claude-code", "--root", root}
	canary, err := s.program("grapnel-hook "+name, argv, "Bash", map[string]any{"command": canaryCommand})
	if err != nil {
		return nil, err
	}
	if err := expect(ctx, canary, blocked, true); err != nil {
		return nil, err
	}
	p, err := s.program("grapnel-hook "+name, argv, "Bash", shellInput())
	if err != nil {
		return nil, err
	}
	return p.wall(), expect(ctx, p, blocked, blocks)
}
