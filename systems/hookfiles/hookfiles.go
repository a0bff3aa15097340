// Package hookfiles has the common parts of the readers of all systems' hook files: a reader that reports
// problems with their positions, and the conversion to hooks of a policy, which lists the parts that a
// policy cannot express. Each system's own reader is in systems/NAME/hookfile.
//
// It is exported because package policy needs it, and is not an API: it may change in any version.
package hookfiles

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/jsregexp"
	"github.com/grapnel-dev/grapnel/internal/presets"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
	"github.com/grapnel-dev/grapnel/shell"
)

// NameChars are the characters in names of tools.
const NameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// A Format describes the hook files of another system. Its name is the format name in `load:`.
type Format struct {
	Name  string
	Agent string // ID of the agent that runs these files itself, so that Grapnel does not run their hooks for its events; empty = none

	// Places of the files: patterns of internal/glob, in the order in which the system reads them.
	// Patterns of a user are relative to the home directory and to the directory of the policy
	// file. Patterns of a project are relative to the directory of its policy file. Managed
	// patterns are absolute.
	User, Project, Managed []string

	Preset string // name of the preset whose Defaults its hooks get; empty = the preset with the format's name

	// Start returns the hooks that the system itself starts, in addition to the hooks in its files;
	// nil = none. They observe, and write below a directory. If wanted, one is a session summary.
	Start func(dir string, summary bool) []grapnel.Spec

	// Events returns the system's events whose names a policy can use in `on:`, too; nil = the
	// events of the dialect with the name of the format. A policy may write - for _ in them.
	Events func() []Event

	// Parse parses all files of one `load:` entry. It is a pure function and never panics. It skips
	// invalid entries, and reports an error for each, and entries that run Grapnel itself. A brief
	// result is for one event, so most of its hooks will not run: it can leave out Notes, and gives
	// hooks a function Complete.
	Parse func(files []File, brief bool) Found
}

// An Event is an event of a system, with the canonical events that it includes.
type Event struct {
	Name  string
	Kinds []grapnel.Kind
}

// A File is one file of a format.
type File struct {
	Path    string // absolute
	Name    string // path below the search directory, with slashes: hooks/hooks.json
	Source  grapnel.Source
	Data    []byte
	Own     bool   // the content in force, at the place where its system reads it: that system runs its hooks itself
	WorkDir string // ... but only if it works in this directory; empty = in all directories
}

// Found contains the hooks in the files of one `load:` entry.
type Found struct {
	Own    int                 // number of skipped entries that run Grapnel itself
	Order  map[string]string   // by file: which priorities run first, for systems whose files differ in it
	Hooks  []Hook              // in the order in which the system would run them
	Broken []*policyfile.Error // files that cannot be read, so that none of their hooks is known; at most one error per file
	Errors []*policyfile.Error // skipped entries, in file order
	Notes  []*policyfile.Error // used entries with parts that are ignored
}

// A Hook is one hook of a foreign file: the policyfile.Hook, and the parts that only its own system
// can express.
type Hook struct {
	policyfile.Hook          // Name, Line, On, Priority, Timeout, OnError, Run (with Speaks); Match if a policy match is equivalent
	FileIndex       int      // index of its file
	At              string   // position in the file: hooks.PreToolUse[0].hooks[1]
	Unsupported     []string // parts that a policy cannot express, one clause each: "the matcher \"mcp__.*\" ..."

	Matcher    grapnel.Matcher // in addition to Match; nil = none
	All        bool            // Matcher matches every event in On
	Reads      bool            // Matcher reads the input of a tool, which another hook may change
	Tools      []string        // for Import, instead of Match.Tool: the tools that the author means by an unanchored name; nil = Match.Tool
	Handler    grapnel.Hook    // a rule that only its system has, which runs in Phase; nil = see Run or Webhook
	Phase      grapnel.Phase
	Rule       Rule // the rule that Handler was built from; nil = no rule
	Webhook    *policyfile.Webhook
	Sequential bool
	File       *HandlerFile // nil = it runs no file that Grapnel can check
	Start      []string     // starts the program instead of Run.Args, which are for people; nil = Run.Args
	Off        bool         // the hook does not run: it is invalid, equal to a hook of another file, or its file is already loaded
	Key        string

	// Complete sets Match, Tools and Unsupported of a hook whose own matcher fits; nil = they are set.
	// They follow from the matcher, and take longer than all the rest.
	Complete func(h *Hook)
}

// A Rule is a hook of a file that runs nothing.
type Rule interface {
	// AsPolicy converts the rule to hooks of a policy, which have the other fields of base, and
	// describes the differences.
	AsPolicy(base policyfile.Hook) (hooks []policyfile.Hook, unsupported []string)

	// Replaces reports whether the rule replaces parts of a text. Text that it only adds does not
	// count.
	Replaces() bool
}

// A HandlerFile is the file that a hook runs.
type HandlerFile struct {
	Path      string // absolute
	Module    bool   // JavaScript or TypeScript, which Node.js runs; otherwise a program
	Hook      string // name of the hook
	Line, Col int    // in the hook file
}

// PresetRow returns the row of the system, or an empty row.
func (f *Format) PresetRow() presets.Row {
	row, _ := presets.Find(cmp.Or(f.Preset, f.Name))
	return row
}

// Read parses files and makes names unique within a source.
// If the system lets a hook replace an earlier one with the same name, Read does the same.
// Otherwise it renames the second hook to "name #2".
func (f *Format) Read(files []File, brief bool) Found {
	all := f.Parse(files, brief)
	names := f.PresetRow().Names
	type name struct {
		file int
		name string
	}
	at, taken := map[name]int{}, map[name]int{}
	hooks := all.Hooks[:0]
	for _, h := range all.Hooks {
		h.Name = cmp.Or(h.Name, h.At, f.Name)
		key := name{h.FileIndex, h.Name}
		taken[key]++
		first, replaces := at[key]
		switch n := taken[key]; {
		case replaces && names == presets.NamesReplace:
			hooks[first] = h
			continue
		case n > 1:
			h.Name = fmt.Sprintf("%s #%d", h.Name, n)
		}
		if h.Off { // counted above: the names of hooks depend only on their own file
			continue
		}
		at[key] = len(hooks)
		hooks = append(hooks, h)
	}
	all.Hooks = hooks
	return all
}

var unquoted = strings.NewReplacer(`"`, "", "'", "", `\`, "", "\n", "")

// ownCommand reports whether "grapnel install" wrote this command. As a hook of Grapnel, the
// command would answer each event a second time and start itself again.
func ownCommand(c *policyfile.Command) bool {
	line := CommandLine(c)
	plain := unquoted.Replace(line)
	if !strings.Contains(plain, "grapnel") && !strings.Contains(line, "$'") { // fast check first: parsing every line of every file takes longer than everything else
		return false
	}
	script := shell.Parse(line)
	n := len(script.Commands)
	if n == 0 {
		return false
	}
	last := script.Commands[n-1]
	switch {
	case n != 1+len(last.Via): // the line contains other commands
		return false
	case last.Name == "grapnel":
		return len(last.Args) > 0 && last.Args[0].Text == "hook"
	case runtime.GOOS == "windows" && strings.HasSuffix(last.Name, "grapnel-hook"): // the path contains a drive and backslashes
		return true
	default:
		return last.Name == "grapnel-hook"
	}
}

// CommandLine returns the command as a shell command line.
func CommandLine(c *policyfile.Command) string {
	if c.Args == nil {
		return c.Line
	}
	var words []string
	for _, arg := range c.Args {
		words = append(words, shell.Quote(arg))
	}
	return strings.Join(words, " ")
}

// A Search reports whether a text contains a match. An error wraps [grapnel.ErrUndecided].
type Search = func(text string) (bool, error)

// SearchJS returns a function that searches like new RegExp(pattern).test(text). It needs no engine
// for alternatives of names, and compiles those with .* with RE2, which is quicker and gives them the
// same meaning.
func SearchJS(pattern string) (Search, error) {
	if strings.Trim(pattern, NameChars+"|") == "" {
		names := strings.Split(pattern, "|")
		return func(text string) (bool, error) {
			return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(text, name) }), nil
		}, nil
	}
	if strings.Trim(strings.ReplaceAll(pattern, ".*", ""), NameChars+"^$|") == "" {
		re, err := regexp.Compile(strings.ReplaceAll(pattern, ".*", `[^\n\r\x{2028}\x{2029}]*`))
		if err != nil {
			return nil, err
		}
		return func(text string) (bool, error) { return re.MatchString(text), nil }, nil
	}
	return jsregexp.Compile(pattern)
}

// MayMatch returns a function that reports whether a text may contain a match.
func MayMatch(search Search) func(text string) bool {
	return func(text string) bool {
		ok, err := search(text)
		return ok || err != nil
	}
}

// ErrorIn converts a parse error of a file to a policyfile.Error.
func ErrorIn(file string, err *tree.Error) *policyfile.Error {
	return &policyfile.Error{File: file, Line: err.Line, Col: err.Col, Msg: err.Msg}
}
