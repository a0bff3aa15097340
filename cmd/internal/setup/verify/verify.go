// Package verify drives a real agent headless against a scripted model on loopback.
//
//	p, err := verify.Find(verify.Codex)       // the agent that is installed here
//	w, err := verify.NewWorld(p, "")          // new home, project and model
//	defer w.Remove()
//	res, err := w.Run(ctx, "Go on.",
//		model.Do(w.Shell("touch a.txt")),
//		model.Say("all done"))
//	// res.Files has "a.txt", res.Requests has the requests to the model
//
// Each agent has a driver in a separate file. It defines how to configure the address of the model,
// the settings that disable prompts and network requests, the names of the tools, and where the
// final message is in the output.
//
// Run does not judge its result; the caller compares it with the expected actions. [Check] does
// judge: it installs Grapnel into such worlds and compares how the agent handles each word of a
// verdict with the promise of the tables of its dialect, see [Claim].
//
// The package installs no agent. Its only isolation is a private home and a new environment: the
// agent has its usual access to the machine, but the model requests only the actions that the
// caller planned.
package verify

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/cmd/internal/setup/verify/model"
)

// An Agent is the driver of one agent: the data that is needed to run it headless.
type Agent struct {
	ID      string // Grapnel's name for the agent
	Variant string // distinguishes values with the same ID; "" for the default
	Binary  string // its name on PATH

	// Settings is the file with the user's hooks, relative to the home directory, with slashes on
	// every system. For agents that read a directory it is a file in that directory.
	Settings string

	// MarksErrors reports that the agent marks failed calls for the model, so that
	// model.ToolResult.IsError is meaningful. For other agents only the text shows a failure.
	MarksErrors bool

	// Deadline is the maximum duration of a run on a busy machine.
	Deadline time.Duration

	Tools Tools

	// files returns the initial files of a new world, by absolute name. A name that ends in a slash
	// is a directory. files and env are nil if the agent needs none.
	files func(w *World) map[string]string
	env   func(w *World) []string
	args  func(w *World, prompt string) []string
	stdin func(w *World, prompt string) string // nil = an empty input
	// prepare is called before each run; nil = no preparation.
	prepare func(ctx context.Context, w *World) error
	// unpacks is a directory below the home directory that the agent fills at its first start;
	// Program.Cache replaces it. "" = none.
	unpacks string
	// answer finds the agent's final message in its standard output.
	answer func(stdout string) string
	// shown removes from the standard output the parts that users do not see; nil = users see all
	// of it.
	shown func(stdout string) string
	// daemon is a command line argument that identifies a process which survives a run and would
	// serve the next run with the old configuration; "" = none.
	daemon string
	// contacts is the suffix of the hosts that the agent tries to reach with any settings, for
	// telemetry and flags; "" = none. The proxy refuses these requests.
	contacts string
}

// Tools are the calls by which a model uses an agent's tools. Paths are absolute and may contain
// "..". A tool that the agent does not have is nil. Every agent has Shell, Write and Read, if
// necessary implemented through the shell.
type Tools struct {
	Shell func(command string) model.Call
	Write func(path, content string) model.Call // of a file that does not exist yet
	Read  func(path string) model.Call
	Edit  func(path, from, to string) model.Call // replaces one line of a file that was read before
	Task  func(prompt string) model.Call         // starts a sub-agent and waits for it
	// TaskUnseen reports that no hook sees the actions of a sub-agent.
	TaskUnseen bool
	// Done is the step by which a sub-agent ends its work; nil = model.Say.
	Done func(text string) model.Step
}

// All lists the agents that this package knows.
var All = []*Agent{ClaudeCode, GeminiCLI, Codex, CodexCode, QwenCode, CopilotCLI, OpenCode, OpenClaw, Cline, Crush, Droid}

// Lookup returns the agent with this ID, without a variant.
func Lookup(id string) (*Agent, error) {
	i := slices.IndexFunc(All, func(a *Agent) bool { return a.ID == id && a.Variant == "" })
	if i < 0 {
		var ids []string
		for _, a := range All {
			if a.Variant == "" {
				ids = append(ids, a.ID)
			}
		}
		return nil, fmt.Errorf("%s cannot be run against a model on loopback; these can: %s", id, strings.Join(ids, ", "))
	}
	return All[i], nil
}

// String returns the ID and the variant, for names of subtests.
func (a *Agent) String() string {
	if a.Variant != "" {
		return a.ID + "-" + a.Variant
	}
	return a.ID
}

// A Program is an installed agent.
type Program struct {
	Agent *Agent
	// Command is the command line before the agent's arguments: a program, or an interpreter and
	// its file. Paths are absolute.
	Command []string
	// Version is the installed version; "" = the program is asked when the version is needed.
	Version string
	// Cache is a directory with the files that the agent would otherwise unpack in every world
	// (Copilot CLI: 235 MB, 6 s); "" = no cache. Worlds may share it.
	Cache string
}

// Find returns the agent that is found on PATH.
func Find(a *Agent) (Program, error) {
	path, err := exec.LookPath(a.Binary)
	if err != nil {
		return Program{}, fmt.Errorf("%s is not installed: %w", a.ID, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return Program{}, err
	}
	return Program{Agent: a, Command: []string{path}}, nil
}

// AskVersion starts the program in a temporary world and returns its version.
func (p Program) AskVersion(ctx context.Context) (version string, err error) {
	w, err := NewWorld(p, "")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Remove()) }()
	return w.askVersion(ctx)
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?`)

func (w *World) askVersion(ctx context.Context) (string, error) {
	out, err := w.Exec(ctx, slices.Concat(w.Program.Command, []string{"--version"})...)
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", w.Agent.ID, err)
	}
	version := versionNumber.FindString(out.Stdout)
	if version == "" || out.Exit != 0 {
		return "", fmt.Errorf("ask %s for its version: %s --version: exit %d, %q", w.Agent.ID, strings.Join(w.Program.Command, " "), out.Exit, lastLines(out.Stdout+out.Stderr, 5))
	}
	return version, nil
}
