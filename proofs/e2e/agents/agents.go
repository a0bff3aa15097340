// Package agents provides the real agents for the end-to-end tests: it installs pinned versions,
// and gives each test a separate [World] in which an agent runs.
//
//	err := agents.Install(ctx, agents.All...)   // once, while there is a network
//	w := agents.NewWorld(t, agents.ClaudeCode)  // fresh home, project and model
//	res := w.Run(t, "Go on.",
//		model.Do(w.Shell("touch a.txt")),
//		model.Say("all done"))
//	// res.Files has "a.txt", res.Requests has the requests to the model
//
// The package does not judge the agent's behavior. The test does.
package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify"
	"github.com/grapnel-dev/grapnel/cmd/proofs/e2e/npm"
)

// An Agent is one agent in one version, and where to get it.
type Agent struct {
	*verify.Agent

	Version string // exact version, because another version may use another protocol
	Package string // on npm; "" = the agent must be on this machine; @ at the end = npm's name for the platform

	npmFlags []string
	program  string // glob below the npm prefix that matches only the executable; @ = npm's name for the platform
	node     string // version of Node.js that runs program, or "any" for the one on PATH; "" = native program
	binVar   string // environment variable with the path of the agent on this machine
}

// The agents. The program that an npm package declares is often a stub that needs an install
// script, so each agent names its own executable.
var (
	ClaudeCode = &Agent{
		Agent: verify.ClaudeCode, Version: "2.1.330", Package: "@anthropic-ai/claude-code",
		program: "node_modules/@anthropic-ai/claude-code-*/claude",
	}
	// ClaudeCodeNode20 is the version that npm installs on Node.js 20: newer ones need Node.js 22.
	ClaudeCodeNode20 = &Agent{
		Agent: verify.ClaudeCode, Version: "2.1.197", Package: ClaudeCode.Package, program: ClaudeCode.program,
	}
	GeminiCLI = &Agent{
		Agent: verify.GeminiCLI, Version: "0.61.0", Package: "@google/gemini-cli",
		npmFlags: []string{"--omit=optional"}, // native add-ons that headless runs do not need
		program:  "node_modules/@google/gemini-cli/bundle/gemini.js", node: "any",
	}
	Codex = &Agent{
		Agent: verify.Codex, Version: "0.169.0", Package: "@openai/codex",
		program: "node_modules/@openai/codex-@/vendor/*/bin/codex",
	}
	CodexCode = &Agent{
		Agent: verify.CodexCode, Version: Codex.Version, Package: Codex.Package, program: Codex.program,
	}
	QwenCode = &Agent{
		Agent: verify.QwenCode, Version: "0.24.4", Package: "@qwen-code/qwen-code",
		npmFlags: []string{"--omit=optional", "--force"}, // npm of an older Node.js would refuse the package
		program:  "node_modules/@qwen-code/qwen-code/cli.js", node: "22.23.3",
	}
	CopilotCLI = &Agent{
		Agent: verify.CopilotCLI, Version: "1.0.102", Package: "@github/copilot",
		program: "node_modules/@github/copilot-@/copilot",
	}
	OpenCode = &Agent{
		Agent: verify.OpenCode, Version: "1.18.33", Package: "opencode-ai",
		program: "node_modules/opencode-@/bin/opencode",
	}
	OpenClaw = &Agent{
		Agent: verify.OpenClaw, Version: "2026.9.6", Package: "openclaw",
		npmFlags: []string{"--omit=dev"},
		program:  "node_modules/openclaw/openclaw.mjs", node: "26.10.0",
	}
	Cline = &Agent{
		Agent: verify.Cline, Version: "3.0.65", Package: "cline",
		program: "node_modules/@cline/cli-@/bin/cline",
	}
	Droid = &Agent{
		// Its package without a platform in the name is older.
		Agent: verify.Droid, Version: "0.225.2", Package: "@factory/cli-@", program: "node_modules/@factory/cli-@/bin/droid",
	}
	Crush = &Agent{Agent: verify.Crush, binVar: "CRUSH_BIN"} // its npm package only downloads a release
)

// All lists the agents of this package. Agents that start fast come first.
var All = []*Agent{ClaudeCode, Codex, CodexCode, Crush, CopilotCLI, Droid, GeminiCLI, Cline, OpenCode, QwenCode, OpenClaw}

// ChoiceVar names the environment variable that lists the agents to test, by ID and separated by
// commas; unset means all. Other agents are neither installed nor run.
const ChoiceVar = "GRAPNEL_E2E_AGENTS"

// NotRun returns the reason why no test runs this agent, or "" if tests run it.
func (a *Agent) NotRun() string {
	if choice := os.Getenv(ChoiceVar); choice != "" && !slices.Contains(strings.Split(choice, ","), a.ID) {
		return "not among " + ChoiceVar + "=" + choice
	}
	if a.Package == "" {
		if _, err := a.Program(""); err != nil {
			return err.Error()
		}
	}
	return ""
}

// Program returns the agent that is installed below cache, or on this machine if the agent does
// not come from npm.
func (a *Agent) Program(cache string) (verify.Program, error) {
	if a.Package == "" {
		if path := os.Getenv(a.binVar); path != "" {
			path, err := filepath.Abs(path)
			return verify.Program{Agent: a.Agent, Command: []string{path}}, err
		}
		p, err := verify.Find(a.Agent)
		if err != nil {
			err = fmt.Errorf("%w (set %s to its program)", err, a.binVar)
		}
		return p, err
	}
	return a.below(cache, a.prefix(cache))
}

// ofPlatform replaces @ after a hyphen by npm's name for the platform.
func ofPlatform(name string) string { return strings.ReplaceAll(name, "-@", "-"+npm.Platform()) }

// below returns the agent that npm installed under prefix.
func (a *Agent) below(cache, prefix string) (verify.Program, error) {
	program, err := npm.One(prefix, ofPlatform(a.program))
	if err != nil {
		return verify.Program{}, fmt.Errorf("%s: %w", a.ID, err)
	}
	p := verify.Program{Agent: a.Agent, Command: []string{program}, Version: a.Version, Cache: prefix + ".unpacked"}
	switch a.node {
	case "":
		return p, nil
	case "any":
		program, err = npm.LookPath("node")
	default:
		program, err = npm.FindNode(cache, a.node)
	}
	if err != nil {
		return verify.Program{}, fmt.Errorf("%s: %w", a.ID, err)
	}
	p.Command = slices.Insert(p.Command, 0, program)
	return p, nil
}
