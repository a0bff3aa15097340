package install

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
)

// A Scope is the kind of settings that an installation is in.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // all projects of the user
	Project Scope = "project" // one project, for all users of its files
	Managed Scope = "managed" // all users of the machine; only root can write and remove it
)

// An Agent is an agent that Grapnel can be installed into: a dialect whose Setup names where the
// agent stores its hooks. All knowledge about an agent is in its dialect.
type Agent struct {
	*dialect.Dialect
	Setup *dialect.Setup
}

// Agents returns the agents that Grapnel can be installed into.
func Agents() []Agent {
	var agents []Agent
	for _, d := range dialect.All() {
		if setup := d.Setup(); setup != nil {
			agents = append(agents, Agent{d, setup})
		}
	}
	return agents
}

// Lookup finds an agent by its name or one of its aliases. The error matches ErrUsage and lists
// the known names.
func Lookup(name string) (Agent, error) { return lookup(Agents(), name) }

func lookup(agents []Agent, name string) (Agent, error) {
	var known []string
	for _, a := range agents {
		if name == a.Name || slices.Contains(a.Aliases, name) {
			return a, nil
		}
		known = append(known, a.Name)
	}
	return Agent{}, usagef("unknown agent %q, use one of %s", name, strings.Join(known, ", "))
}

// Settings returns the absolute path of the file with the agent's hooks in a scope. For User,
// base is the home directory; for Project, the root of the project; for Managed, it is / except
// in tests. The file need not exist. If the agent has no such scope, the error matches ErrUsage.
func (a Agent) Settings(scope Scope, base string, env func(string) string) (string, error) {
	rel := map[Scope]string{User: a.Setup.User, Project: a.Setup.Project, Managed: a.managed()}[scope]
	switch {
	case scope != User && scope != Project && scope != Managed:
		return "", scopeError(scope)
	case rel == "":
		var scopes []string
		for _, s := range []struct {
			scope Scope
			file  string
		}{{User, a.Setup.User}, {Project, a.Setup.Project}, {Managed, a.managed()}} {
			if s.file != "" {
				scopes = append(scopes, string(s.scope))
			}
		}
		return "", usagef("%s has no %s hooks here, use --scope %s", a.Title, scope, strings.Join(scopes, " and "))
	}
	return a.below(scope, base, rel, env)
}

// below returns the path of a file of the agent. rel is written as in Setup.
func (a Agent) below(scope Scope, base, rel string, env func(string) string) (string, error) {
	what := map[Scope]string{User: "the home directory", Project: "the project directory", Managed: "the root of the system"}[scope]
	if rest, inside := strings.CutPrefix(rel, a.Setup.Moves); scope == User && a.Setup.MovedBy != "" && inside && env(a.Setup.MovedBy) != "" {
		base, rel, what = env(a.Setup.MovedBy), rest, "$"+a.Setup.MovedBy
	}
	if !filepath.IsAbs(base) {
		return "", fmt.Errorf("cannot find the settings of %s: %s must be an absolute path, got %q", a.Title, what, base)
	}
	if volume := filepath.VolumeName(filepath.FromSlash(rel)); volume != "" { // a Windows path
		if base == systemRoot {
			return filepath.FromSlash(rel), nil
		}
		rel = strings.TrimPrefix(filepath.FromSlash(rel), volume)
	}
	return filepath.Join(base, filepath.FromSlash(rel)), nil
}

// systemRoot is the base directory of a managed installation.
const systemRoot = "/"

// managed returns the file of the managed scope on this system; "" = not supported.
func (a Agent) managed() string {
	switch runtime.GOOS {
	case "darwin":
		return a.Setup.Managed[1]
	case "windows":
		return a.Setup.Managed[2]
	}
	return a.Setup.Managed[0]
}

// Detected reports whether the agent seems to be in use: the directory of the user's settings
// exists, or the program is on PATH.
func (a Agent) Detected(home string, env func(string) string) bool {
	dir := a.Setup.Dir
	if dir == "" {
		first, rest, _ := strings.Cut(a.Setup.User, "/")
		if dir = first; first == ".config" {
			second, _, _ := strings.Cut(rest, "/")
			dir = first + "/" + second
		}
	}
	if dir != "" {
		if name, err := a.below(User, home, dir, env); err == nil {
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				return true
			}
		}
	}
	return lookPath(a.Setup.Program, env) != ""
}

// lookPath finds a program on the PATH of env. It ignores relative entries of PATH: a program in
// a project is not the agent.
func lookPath(program string, env func(string) string) string {
	if program == "" {
		return ""
	}
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

// event returns the event of the agent with a name as in a settings file; nil if it does not
// exist.
func (a Agent) event(name string) *dialect.EventRow {
	for i := range a.Events {
		if a.sameEvent(a.Events[i].Native, name) {
			return &a.Events[i]
		}
	}
	return nil
}

// sameEvent reports whether the agent treats both names as the same event.
func (a Agent) sameEvent(x, y string) bool {
	return x == y || a.Setup.Fold && folded(x) == folded(y)
}

func folded(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
}

// May returns why an event cannot be installed; nil if it can.
func (a Agent) May(event string) error {
	switch ev := a.Row(event); {
	case ev == nil || ev.Native != event:
		return usagef("%s has no event %q%s", a.Title, event, a.didYouMean(event))
	case ev.Never:
		return usagef("%s is not installed for %s: %s", event, a.Title, ev.Why)
	}
	return nil
}

// Knows reports whether a version of the agent has an event of its table. An unknown version ("")
// is treated as Setup.StrictBefore.
func (a Agent) Knows(version, event string) bool {
	ev := a.event(event)
	return ev != nil && (ev.Since == "" || !Older(cmp.Or(version, a.Setup.StrictBefore), ev.Since))
}

// Newer returns the events that an installation does not have, because the version of the agent was
// older or unknown when it was made.
func (a Agent) Newer(asked, installed []string, was, is string) []string {
	events, _, _ := a.choose(asked, is)
	return slices.DeleteFunc(events, func(event string) bool { return a.Knows(was, event) || slices.Contains(installed, event) })
}

// choose returns the events to install: the default set and the events in asked, without events
// that the version does not know. The agent would report these at each start, or ignore the whole
// file.
func (a Agent) choose(asked []string, version string) (events, notes []string, err error) {
	for _, name := range asked {
		if err := a.May(name); err != nil {
			return nil, nil, err
		}
	}
	var unknown []string
	for _, ev := range a.Events {
		switch {
		case ev.Never || !ev.Install && !slices.Contains(asked, ev.Native):
		case !a.Knows(version, ev.Native):
			unknown = append(unknown, ev.Native)
		default:
			events = append(events, ev.Native)
		}
	}
	if len(unknown) > 0 && version != "" { // otherwise a note explains the unknown version
		notes = append(notes, fmt.Sprintf(`%s %s does not know %s: after an update, run "grapnel install %s" again`,
			a.Title, version, strings.Join(unknown, ", "), a.Name))
	}
	return events, notes, nil
}

// wait returns the timeout of an event in the agent's settings: a multiple of the agent's unit.
// approve is the time for a person's answer, by kind of event.
func (a Agent) wait(event string, timeout time.Duration, approve map[grapnel.Kind]time.Duration) time.Duration {
	ev := a.event(event)
	if ev != nil && a.asks(ev) {
		timeout = max(timeout, a.Setup.AskTimeout)
	}
	if ev != nil && a.Setup.AskTimeout > 0 && approve[ev.Kind] > 0 { // the timeout of a plugin is fixed
		timeout = max(timeout, approve[ev.Kind]+replyMargin)
	}
	if ev != nil && ev.Wait > 0 {
		timeout = min(timeout, ev.Wait)
	}
	unit := cmp.Or(a.Setup.Unit, time.Millisecond)
	return (timeout + unit - 1) / unit * unit
}

// asks reports whether a hook of the event may ask a person.
func (a Agent) asks(ev *dialect.EventRow) bool {
	c, ok := grapnel.ContractOf(ev.Kind)
	return ok && c.Permit || ev.Contract != nil && ev.Contract.Permit
}

// closes reports whether an entry can make the agent block when the hook fails.
func (a Agent) closes() bool { return strings.Contains(a.Setup.Entry, "$closed") }

// Older reports whether version a is before version b; both are like 2.1.329.
func Older(a, b string) bool {
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

// didYouMean suggests the event that differs only in case or separators, because users write
// pre_tool_use and pretooluse.
func (a Agent) didYouMean(name string) string {
	for _, ev := range a.Events {
		if folded(ev.Native) == folded(name) {
			return fmt.Sprintf(" (did you mean %q?)", ev.Native)
		}
	}
	return ""
}
