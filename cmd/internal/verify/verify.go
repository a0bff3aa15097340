// Package verify drives a real agent headless against a scripted model on
// loopback.
//
//	p, err := verify.Find(verify.Codex)       // the agent as it is installed here
//	w, err := verify.NewWorld(p, "")          // fresh home, project and model
//	defer w.Remove()
//	res, err := w.Run(ctx, "Go on.",
//		model.Do(w.Shell("touch a.txt")),
//		model.Say("all done"))
//	// res.Files has "a.txt", res.Requests has what the model was told
//
// What has to be known of an agent for that is a file of its own: how it is told
// where its model is, which settings keep it from asking and from calling home,
// what its tools are called, and where in its output its last words stand.
//
// A run is not judged: what an agent should have done is for the caller to say. [Check]
// does judge: it installs Grapnel into such worlds and compares what the agent makes of
// each word of a verdict with what the tables of its dialect promise, see [Claim].
//
// The package installs no agent, and it does not isolate beyond a private home and an
// environment built from nothing: what an agent may do to the machine, it may do
// here as well, except that the model asks for what the caller planned.
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

	"github.com/grapnel-dev/grapnel/cmd/internal/verify/model"
)

// An Agent is what must be known of one agent to run it headless.
type Agent struct {
	ID      string // Grapnel's name for it
	Variant string // what sets it apart from another value with the same ID; "" for the plain one
	Binary  string // its name on PATH

	// Settings is the file that holds the user's hooks, below the home directory,
	// slashes on every system. For agents that read a directory it is a file in there.
	Settings string

	// MarksErrors says that the model sees from a mark whether a call failed, so that
	// model.ToolResult.IsError means something. Elsewhere only the text tells.
	MarksErrors bool

	// Deadline is how long a run may take on a busy machine.
	Deadline time.Duration

	Tools Tools

	// files returns what stands in a new world, by absolute name. A name that ends in a
	// slash is a directory. Like env, it is nil when the agent wants none.
	files func(w *World) map[string]string
	env   func(w *World) []string
	args  func(w *World, prompt string) []string
	stdin func(w *World, prompt string) string // nil means an empty input
	// prepare is called before each run; nil when there is nothing to do.
	prepare func(ctx context.Context, w *World) error
	// unpacks is a directory below the home directory that the agent fills when it starts
	// for the first time; Program.Cache takes its place. "" when there is none.
	unpacks string
	// answer finds the agent's final words in its standard output.
	answer func(stdout string) string
	// shown leaves out of its standard output what no person gets to see; nil means
	// that all of it is for people.
	shown func(stdout string) string
	// daemon is an argument by which a process is known that outlives a run and would
	// serve the next one as it was configured for the first; "" when there is none.
	daemon string
}

// Tools are the calls by which a model uses an agent's tools. Paths are absolute
// and may have detours in them. A tool that an agent does not have is nil; all have
// Shell, Write and Read, if need be by a detour through the shell.
type Tools struct {
	Shell func(command string) model.Call
	Write func(path, content string) model.Call // a file that is not there yet
	Read  func(path string) model.Call
	Edit  func(path, from, to string) model.Call // of a file that was read before, of one line
	Task  func(prompt string) model.Call         // a sub-agent, which is waited for
	// TaskUnseen says that no hook sees what a sub-agent does.
	TaskUnseen bool
	// Done is the step by which a sub-agent ends its work; nil means model.Say.
	Done func(text string) model.Step
}

// All lists the agents this package knows.
var All = []*Agent{ClaudeCode, GeminiCLI, Codex, CodexCode, QwenCode, CopilotCLI, OpenCode, OpenClaw, Cline, Crush}

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

// String returns the ID and the variant, so that subtests are named after agents.
func (a *Agent) String() string {
	if a.Variant != "" {
		return a.ID + "-" + a.Variant
	}
	return a.ID
}

// A Program is an agent as it is installed somewhere.
type Program struct {
	Agent *Agent
	// Command is what is executed before the agent's arguments: a program, or an
	// interpreter and its file. Paths are absolute.
	Command []string
	// Version is the one that is installed; "" means it is asked for when it matters.
	Version string
	// Cache is a directory that keeps what the agent would unpack anew in every world
	// (Copilot CLI: 235 MB, 6 s); "" means that it does. It may be shared.
	Cache string
}

// Find returns the agent that the user's PATH leads to.
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

// AskVersion starts the program in a world of its own and asks for its version.
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
