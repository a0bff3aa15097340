// Package hookfiles reads the hook files of other systems: a file here for each format. What
// it finds are hooks in the words of a policy, and what a policy cannot say of them.
package hookfiles

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/shell"
	"github.com/grapnel-dev/grapnel/internal/tree"
	"github.com/grapnel-dev/grapnel/policy/policyfile"
)

// The tables of other systems' languages, copied once: a file of hooks is compared with
// them many times, and nothing here changes them.
var (
	claudeCode = sync.OnceValue(dialect.ClaudeCode)
	geminiCLI  = sync.OnceValue(dialect.GeminiCLI)
	flyto      = sync.OnceValue(dialect.Flyto)
	miniclaw   = sync.OnceValue(dialect.Miniclaw)
)

// A Format is a kind of file that another system keeps its hooks in, by the name
// that `load:` has for it.
type Format struct {
	Name  string
	Agent string // whose id; it runs these files by itself, so its events do not reach the hooks. Empty = none does

	// Where the files are: doublestar patterns, in the order in which the system
	// reads them. Those of a user are below the home directory and beside the policy
	// file, those of a project beside its policy file; managed ones are absolute.
	User, Project, Managed []string

	preset string // whose Defaults its hooks get; empty = that of its name

	// Parse reads all files of one `load:` entry. It is pure, never panics, and says
	// what is wrong entry by entry: what is wrong is left out, the rest stays.
	Parse func(files []File) Found
}

// Names are what `load:` knows.
var Names = []string{"claude-code", "gemini-cli", "miniclaw", "flyto", "openclaw", "ironclaw"}

// All are those of the formatNames: a function, so that only programs hold them that
// call it.
func All() []*Format {
	return []*Format{claudeFormat, geminiFormat, miniclawFormat, flytoFormat, openclawFormat, ironClawFormat}
}

// A File is one file of a format.
type File struct {
	Path    string // absolute
	Name    string // below the directory it was found in, with slashes: hooks/hooks.json
	Source  grapnel.Source
	Data    []byte
	Own     bool   // it is where its system looks for it, and holds what is in force: that system runs its hooks by itself
	WorkDir string // if it works in this directory; empty = in any
}

// Found is what the files of one entry hold.
type Found struct {
	Hooks  []Hook              // in the order in which the system would run them
	Broken []*policyfile.Error // files that could not be read at all: no hook of them is there. At most one for each
	Errors []*policyfile.Error // entries that are left out, in order
	Notes  []*policyfile.Error // entries that are kept, and of which something does not count
}

// A Hook is one hook of a foreign file: what a policy could say of it too, and
// what only its own system can say.
type Hook struct {
	policyfile.Hook          // Name, Line, On, Priority, Timeout, OnError, Run (with Speaks); Match where a policy's words say the same
	FileIndex       int      // index of its file
	At              string   // where it stands in it: hooks.PreToolUse[0].hooks[1]
	Lost            []string // what a policy cannot say of it, a clause each: "the matcher \"mcp__.*\" ..."

	Matcher    grapnel.Matcher // beside Match; nil = none
	Handler    grapnel.Hook    // a rule that only its system has; Phase is then phase. nil = Run or webhook
	Phase      grapnel.Phase
	Rule       *IronClawRule // what hook was made of; nil = no rule of IronClaw's
	Webhook    *Webhook
	Sequential bool
	Off        bool // it does not run: it is wrong, one of another file does the same, or its file is loaded already
	Key        string
}

// A Webhook is an address that is told of events and has no say in them.
type Webhook struct {
	Name        string              `json:"name"` // of the hook, with its source: it is part of the body
	URL         string              `json:"url"`
	Headers     map[string]string   `json:"headers,omitempty"`
	Timeout     policyfile.Duration `json:"timeout,omitempty"`
	MaxInFlight int                 `json:"max_in_flight,omitempty"`
	Body        string              `json:"body,omitempty"` // whose words the body is in: ironclaw
}

// Find returns the format of a name, or nil.
func Find(name string) *Format {
	for _, f := range All() {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// PresetRow is the preset of the system, or one that says nothing.
func (f *Format) PresetRow() grapnel.Preset {
	names := []string{f.preset, f.Name}
	if d, ok := dialect.Find(f.Name); ok {
		names = append(names, d.Aliases...)
	}
	for _, name := range names {
		if preset, ok := grapnel.FindPreset(name); ok {
			return preset
		}
	}
	return grapnel.Preset{}
}

// Read parses files, leaves out our own entries, and sees to the names: where the
// system lets a hook replace another of its name it does, elsewhere the second is
// called name #2. Names are unique in a source.
func (f *Format) Read(files []File) Found {
	all := f.Parse(files)
	names := f.PresetRow().Names
	type name struct {
		file int
		name string
	}
	at, taken := map[name]int{}, map[name]int{}
	var hooks []Hook
	for _, h := range all.Hooks {
		if h.Run != nil && ownCommand(h.Run) {
			continue
		}
		h.Name = cmp.Or(h.Name, h.At, f.Name)
		key := name{h.FileIndex, h.Name}
		taken[key]++
		first, replaces := at[key]
		switch n := taken[key]; {
		case replaces && names == grapnel.NamesReplace:
			hooks[first] = h
			continue
		case n > 1:
			h.Name = fmt.Sprintf("%s #%d", h.Name, n)
		}
		if h.Off { // it was counted: how hooks are called depends on their own file only
			continue
		}
		at[key] = len(hooks)
		hooks = append(hooks, h)
	}
	all.Hooks = hooks
	return all
}

// ownCommand reports whether a command is what "grapnel install" writes: as a hook of ours it
// would answer each event twice, and start itself.
func ownCommand(c *policyfile.Command) bool {
	line := CommandLine(c)
	plain := strings.NewReplacer(`"`, "", "'", "", `\`, "", "\n", "").Replace(line)
	if !strings.Contains(plain, "grapnel") && !strings.Contains(line, "$'") { // to parse each line of each file takes longer than all else
		return false
	}
	script := shell.Parse(line)
	n := len(script.Commands)
	if n == 0 {
		return false
	}
	last := script.Commands[n-1]
	switch {
	case n != 1+len(last.Via): // there is more in the line than what runs it
		return false
	case last.Name == "grapnel":
		return len(last.Args) > 0 && last.Args[0].Text == "hook"
	case runtime.GOOS == "windows" && strings.HasSuffix(last.Name, "grapnel-hook"): // behind a drive and backslashes
		return true
	default:
		return last.Name == "grapnel-hook"
	}
}

// CommandLine is the command as a shell would be given it.
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

// What a program says that reads no hook files of other systems.
const (
	CannotRead = "this program cannot read files in the words of other systems"
	LinkHint   = "a Go program that does imports github.com/grapnel-dev/grapnel/policy/foreign"
)

// ParseTOML parses TOML; nil = this program has no parser.
var ParseTOML func([]byte) (*tree.Node, *tree.Error)

// ReadTOML reads a file of TOML.
func ReadTOML(data []byte) (*tree.Node, *tree.Error) {
	if ParseTOML == nil {
		return nil, &tree.Error{Line: 1, Col: 1, Msg: CannotRead + ": " + LinkHint}
	}
	return ParseTOML(data)
}

// ErrorIn is what is wrong with a file.
func ErrorIn(file string, err *tree.Error) *policyfile.Error {
	return &policyfile.Error{File: file, Line: err.Line, Col: err.Col, Msg: err.Msg}
}
