package install

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Scope says whose settings an installation goes into.
type Scope string

// The scopes. Managed layers are not written yet.
const (
	User    Scope = "user"    // every project of the user
	Project Scope = "project" // one project, for everybody who has its files
)

// An Agent is a row of the table of agents: what has to be known of an agent to
// put entries into its settings and to take them out again.
type Agent struct {
	Name    string   // in policies, on command lines, in records
	Title   string   // as its makers write it
	Aliases []string // short forms of Name that people may type
	Program string   // what is looked up on PATH

	Folder      string // holds settings.json, below the home directory and below a project
	MovedBy     string // variable that moves the settings of the user
	MovesFolder bool   // the variable names Folder itself; otherwise the directory above it

	Comments bool          // the agent's parser accepts comments; trailing commas are fatal to all of them
	Unit     time.Duration // of a timeout in the settings

	// Anonymous is set where other agents load the same file. The command then
	// does not say who calls it and for what: the payload does.
	Anonymous bool
	Matcher   string // of our groups; empty leaves it out
	Label     string // name of our entries; empty leaves it out

	OnFailure      bool   // an entry can ask for a block when the hook fails
	OnFailureSince string // first version that heeds it

	// Before this version, an event that the agent does not know made it ignore
	// the whole file, the permission rules in it included. Empty: never did.
	StrictBefore string

	Events []Event // in the order of a session

	// notes names what in a settings file switches hooks off or changes how
	// they run.
	notes func(*document) []string
}

// An Event is one event of an agent, by the agent's own name.
type Event struct {
	Name string

	// Not says why the event is installed only when a policy listens to it.
	// Empty: it is part of the default set.
	Not string
	// Never says why the event is not installed at all.
	Never string

	// Since is the first version that knows the event; empty means not before
	// Agent.StrictBefore.
	Since      string
	Longest    time.Duration // the agent waits no longer; zero: no such limit
	FailClosed bool          // asked to block on failure, where the user wants that and the agent can
}

// agents is the table. Facts come from Claude Code 2.1.329 and Gemini CLI
// 0.61.0, tried live, and from the changelog of Claude Code for Since.
var agents = []Agent{
	{
		Name: "claude-code", Title: "Claude Code", Aliases: []string{"claude"}, Program: "claude",
		Folder: ".claude", MovedBy: "CLAUDE_CONFIG_DIR", MovesFolder: true,
		Unit:      time.Second,
		Anonymous: true, // Cursor runs the hooks it finds here, too
		OnFailure: true, OnFailureSince: "2.1.295",
		StrictBefore: "2.1.101",
		notes:        claudeNotes,
		Events: []Event{
			{Name: "SessionStart", Since: "1.0.62"},
			{Name: "Setup", Since: "2.1.10"},
			{Name: "InstructionsLoaded", Since: "2.1.69", Not: "fires for every instruction file of every session and takes no answer"},
			{Name: "UserPromptSubmit", Since: "1.0.54", FailClosed: true},
			{Name: "UserPromptExpansion"},
			{Name: "MessageDisplay", Not: "would start a process for every message that is shown"},
			{Name: "PreToolUse", Since: "1.0.38", FailClosed: true},
			{Name: "PermissionRequest", Since: "2.0.45", FailClosed: true},
			{Name: "PermissionDenied", Since: "2.1.89"},
			{Name: "PostToolUse", Since: "1.0.38"},
			{Name: "PostToolUseFailure"},
			{Name: "PostToolBatch"},
			{Name: "Notification", Since: "1.0.38"},
			{Name: "SubagentStart", Since: "2.0.43"},
			{Name: "SubagentStop", Since: "1.0.41"},
			{Name: "Stop", Since: "1.0.38"},
			{Name: "StopFailure", Since: "2.1.78"},
			{Name: "TaskCreated", Since: "2.1.84"},
			{Name: "TaskCompleted", Since: "2.1.33"},
			{Name: "TeammateIdle", Since: "2.1.33"},
			{Name: "PreCompact", Since: "1.0.48"},
			{Name: "PostCompact", Since: "2.1.76"},
			{Name: "PreModelSwitch"},
			{Name: "PostModelSwitch"},
			{Name: "ConfigChange", Since: "2.1.49"},
			{Name: "CwdChanged", Since: "2.1.83"},
			{Name: "FileChanged", Since: "2.1.83", Not: "its matcher is the list of files to watch, and a general entry has none"},
			{Name: "DirectoryAdded"},
			{Name: "WorktreeCreate", Never: "an entry replaces the agent's own git work, and without a path from it the session ends"},
			{Name: "WorktreeRemove", Since: "2.1.50"},
			{Name: "Elicitation", Since: "2.1.76"},
			{Name: "ElicitationResult", Since: "2.1.76"},
			{Name: "SessionEnd", Since: "1.0.85", Longest: 3 * time.Second}, // the person waits for the shell prompt
		},
	},
	{
		Name: "gemini-cli", Title: "Gemini CLI", Aliases: []string{"gemini"}, Program: "gemini",
		Folder: ".gemini", MovedBy: "GEMINI_CLI_HOME",
		Comments: true,
		Unit:     time.Millisecond,
		Matcher:  "*",
		notes:    geminiNotes,
		Label:    "grapnel", // /hooks disable and hooksConfig.disabled know entries by it
		Events: []Event{
			{Name: "SessionStart"},
			{Name: "BeforeAgent"},
			{Name: "PreCompress", Not: "fires before every call of the model, compressed or not"},
			{Name: "BeforeModel", Not: "would start a process for every call of the model"},
			{Name: "BeforeToolSelection", Not: "any answer rewrites the tool configuration of the call"},
			{Name: "AfterModel", Not: "would start a process for every chunk of a response"},
			{Name: "BeforeTool"},
			{Name: "Notification"},
			{Name: "AfterTool"},
			{Name: "AfterAgent"},
			{Name: "SessionEnd"},
		},
	},
}

// Agents returns the table of agents that Grapnel can be installed into.
func Agents() []Agent { return slices.Clone(agents) }

// Lookup finds an agent by its name or one of its aliases. The error matches
// ErrUsage and names those there are.
func Lookup(name string) (Agent, error) {
	var known []string
	for _, a := range agents {
		if name == a.Name || slices.Contains(a.Aliases, name) {
			return a, nil
		}
		known = append(known, a.Name)
	}
	return Agent{}, usagef("unknown agent %q, there are %s", name, strings.Join(known, ", "))
}

// Settings returns the absolute path of the file that holds the agent's
// settings of the scope. The file need not exist.
func (a Agent) Settings(scope Scope, home, project string, env func(string) string) (string, error) {
	folder, what := filepath.Join(home, a.Folder), "the home directory"
	switch moved := env(a.MovedBy); {
	case scope == Project:
		folder, what = filepath.Join(project, a.Folder), "the project directory"
	case scope != User:
		return "", scopeError(scope)
	case moved != "" && a.MovesFolder:
		folder, what = moved, "$"+a.MovedBy
	case moved != "":
		folder, what = filepath.Join(moved, a.Folder), "$"+a.MovedBy
	}
	if !filepath.IsAbs(folder) {
		return "", fmt.Errorf("cannot find the settings of %s: %s must be an absolute path, got %q", a.Title, what, folder)
	}
	return filepath.Join(folder, "settings.json"), nil
}

// Detected reports whether the agent seems to be in use: the directory of the
// user's settings exists, or the program is on PATH.
func (a Agent) Detected(home string, env func(string) string) bool {
	if file, err := a.Settings(User, home, "", env); err == nil {
		if info, err := os.Stat(filepath.Dir(file)); err == nil && info.IsDir() {
			return true
		}
	}
	return lookPath(a.Program, env) != ""
}

// lookPath finds a program on the PATH of env. Relative entries of PATH are
// left out: what a project contains is not the agent.
func lookPath(program string, env func(string) string) string {
	names := []string{program}
	if runtime.GOOS == "windows" {
		names = []string{program + ".exe", program + ".cmd", program + ".bat"}
	}
	for _, dir := range filepath.SplitList(env("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, name := range names {
			name = filepath.Join(dir, name)
			if info, err := os.Stat(name); err == nil && runnable(info) {
				return name
			}
		}
	}
	return ""
}

func runnable(info os.FileInfo) bool {
	return info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0)
}

// event finds an event of the agent; nil if there is none of that name.
func (a Agent) event(name string) *Event {
	for i := range a.Events {
		if a.Events[i].Name == name {
			return &a.Events[i]
		}
	}
	return nil
}

// may says why an event cannot be installed; nil if it can.
func (a Agent) may(event string) error {
	switch ev := a.event(event); {
	case ev == nil:
		return usagef("%s has no event %q%s", a.Title, event, didYouMean(event, a.Events))
	case ev.Never != "":
		return usagef("%s is not installed for %s: %s", event, a.Title, ev.Never)
	}
	return nil
}

// choose returns the events to install: the default set and those asked for,
// without what the version does not know if that would harm. A version that is
// not known ("") counts as a current one.
func (a Agent) choose(asked []string, version string) (events, notes []string, err error) {
	for _, name := range asked {
		if err := a.may(name); err != nil {
			return nil, nil, err
		}
	}
	strict := version != "" && a.StrictBefore != "" && older(version, a.StrictBefore)
	var unknown []string
	for _, ev := range a.Events {
		isAsked := slices.Contains(asked, ev.Name)
		switch {
		case ev.Never != "" || ev.Not != "" && !isAsked:
		case strict && (ev.Since == "" || older(version, ev.Since)):
			if isAsked {
				unknown = append(unknown, ev.Name)
			}
		default:
			events = append(events, ev.Name)
		}
	}
	if len(unknown) > 0 {
		notes = append(notes, fmt.Sprintf("%s %s does not know %s, and would ignore its whole settings file if it were named there: update %s",
			a.Title, version, strings.Join(unknown, ", "), a.Title))
	}
	return events, notes, nil
}

// wait is how long the agent shall wait for the hook at an event: a whole
// number of the agent's unit.
func (a Agent) wait(event string, timeout time.Duration) time.Duration {
	if ev := a.event(event); ev != nil && ev.Longest > 0 {
		timeout = min(timeout, ev.Longest)
	}
	return (timeout + a.Unit - 1) / a.Unit * a.Unit
}

// older reports whether version a comes before version b, both like 2.1.329.
func older(a, b string) bool {
	return slices.Compare(numbers(a), numbers(b)) < 0
}

func numbers(version string) []int {
	var ns []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		ns = append(ns, n)
	}
	return ns
}

// didYouMean offers the event that differs only in case or separators: people
// write pre_tool_use and pretooluse.
func didYouMean(name string, events []Event) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	for _, ev := range events {
		if plain(ev.Name) == plain(name) {
			return fmt.Sprintf(" (did you mean %q?)", ev.Name)
		}
	}
	return ""
}
