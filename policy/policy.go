// Package policy turns files of hooks into Specs.
//
// [Parse] reads one file and says everything that is wrong with it, with line and
// column. [Load] is what programs use: it reads the files in force, keeps the last
// valid content of each as a snapshot, and never lets a typo open a gate.
//
//	set := policy.Load(policy.Request{Files: files, Snapshots: dir, Command: newCommand})
//	engine, err := grapnel.New(set.Specs, nil)
//
// The package starts no programs: how a `run:` or a `worker:` becomes a hook is the
// caller's.
package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
)

// Policy is one file of hooks as plain data: what it says, with nothing compiled.
type Policy struct {
	Version  int        `json:"version"`
	Pack     *PackInfo  `json:"pack,omitempty"`   // the file is a pack
	Use      []Use      `json:"use,omitempty"`    // packs, beside the hooks
	Strict   bool       `json:"strict,omitempty"` // programs fail closed unless they say otherwise
	Hooks    []Hook     `json:"hooks,omitempty"`
	Load     []LoadFrom `json:"load,omitempty"`     // hook files of other systems
	Records  *Records   `json:"records,omitempty"`  // what is kept of firings
	Redact   *Redact    `json:"redact,omitempty"`   // what hooks that are trusted less do not see
	Secrets  *Secrets   `json:"secrets,omitempty"`  // what counts as one
	Networks []Word     `json:"networks,omitempty"` // addresses, as 10.0.0.0/8, that outbound requests may reach although they are forbidden
	Grants   []Grant    `json:"grants,omitempty"`   // what policies of projects and plugins may do; only a user and root say that
	Vouches  []Vouch    `json:"trust,omitempty"`    // policies of projects that need not be looked at; likewise

	OnlyManaged bool `json:"use_only_managed,omitempty"` // no policy but managed ones counts; only root says that

	Defaults struct {
		Timeout Duration `json:"timeout,omitempty"`
		OnError string   `json:"on_error,omitempty"`
	} `json:"defaults,omitzero"` // the sandbox is in each Command
	State string `json:"-"` // directory of the files of hooks that name none; see Request.State

	newHTTP, newNotify func(HTTP) (grapnel.Hook, error) // see Request
}

// Hook is one entry of a file. Exactly one of the actions is set.
type Hook struct {
	Name     string         `json:"name,omitempty"`
	Line     int            `json:"line,omitempty"`
	On       []grapnel.Kind `json:"on,omitempty"`
	Match    *Match         `json:"match,omitempty"`
	Except   []Match        `json:"except,omitempty"`
	When     string         `json:"when,omitempty"`
	After    []After        `json:"after,omitempty"` // what has to have happened before, in this order
	Mode     string         `json:"mode,omitempty"`  // enforce, observe
	OnError  string         `json:"on_error,omitempty"`
	Priority *int           `json:"priority,omitempty"`
	Timeout  Duration       `json:"timeout,omitempty"`
	Message  string         `json:"message,omitempty"`  // for the person, beside a decision
	Incident string         `json:"incident,omitempty"` // what happened without it, or the family of such things; for people who read the file

	Decide  string                            `json:"decide,omitempty"` // block, ask, allow
	Reason  string                            `json:"reason,omitempty"`
	Advice  []string                          `json:"advice,omitempty"` // commands to run instead; a part of the reason
	Context *Context                          `json:"context,omitempty"`
	Replace []Replacement                     `json:"replace,omitempty"`
	Mask    []string                          `json:"mask,omitempty"`   // ids of the rules whose secrets are masked, globs
	Fields  []grapnel.Field                   `json:"fields,omitempty"` // of replace and mask; empty = all text
	Set     map[grapnel.Field]json.RawMessage `json:"set,omitempty"`    // whole fields
	Places  []Place                           `json:"places,omitempty"` // of a set, inside of fields
	Limit   *Limit                            `json:"limit,omitempty"`
	Run     *Command                          `json:"run,omitempty"`  // a worker too
	HTTP    *HTTP                             `json:"http,omitempty"` // a notify too
	Builtin *Builtin                          `json:"builtin,omitempty"`
}

// program is what the hook starts, or nil.
func (h *Hook) program() *Command {
	if h.Context != nil {
		return h.Context.Run
	}
	return h.Run
}

// Context is text that is added to what the model sees: one of these.
type Context struct {
	Text string   `json:"text,omitempty"`
	File string   `json:"file,omitempty"` // relative to the policy file
	Run  *Command `json:"run,omitempty"`  // that writes it
}

// Place is a place inside of a field that is an object, and what is put there: an
// object is laid over the one that is there, and null takes away what is.
type Place struct {
	Field grapnel.Field   `json:"field"`
	Path  []string        `json:"path"`
	Value json.RawMessage `json:"value"`
}

// Replacement is one pattern of a `replace:`.
type Replacement struct {
	Pattern string `json:"pattern"`           // RE2
	With    string `json:"with"`              // $1 is the first group
	Literal string `json:"literal,omitempty"` // occurs in every match; the pattern compiles only where it is found
}

// Command is a program of a `run:` or a `worker:`. [Command.Dialect] is what it speaks.
type Command struct {
	Name    string        `json:"name"` // of the hook
	Line    string        `json:"line,omitempty"`
	Args    []string      `json:"args,omitempty"`   // instead of Line: without a shell
	Worker  bool          `json:"worker,omitempty"` // it can be kept running, and asked about one event after the other
	Env     []string      `json:"env,omitempty"`    // variables let through although they look like secrets
	Async   bool          `json:"async,omitempty"`
	Speaks  string        `json:"speaks,omitempty"`  // whose hook it is: the dialect of its input and answer; empty = plain
	Context bool          `json:"context,omitempty"` // it is that of a Context
	Asked   bool          `json:"asked,omitempty"`   // it is that of a session summary
	Sandbox *Sandbox      `json:"sandbox,omitempty"` // what it is held to; nil = nothing
	Vars    []string      `json:"-"`                 // further variables, NAME=value, of a hook that was loaded from an agent's configuration
	Dir     string        `json:"-"`                 // of the policy file
	Scope   grapnel.Scope `json:"-"`                 // of the policy file
}

// Match says for which events a hook is meant. A list means any of, several keys
// mean all of; Not takes away.
type Match struct {
	Tool     []string  `json:"tool,omitempty"`
	Command  []string  `json:"command,omitempty"`
	Shell    []string  `json:"shell,omitempty"`
	Path     []string  `json:"path,omitempty"`
	Reads    []string  `json:"reads,omitempty"`
	Writes   []string  `json:"writes,omitempty"`
	URL      []string  `json:"url,omitempty"`
	Host     []string  `json:"host,omitempty"`
	Content  []Pattern `json:"content,omitempty"`
	Prompt   []Pattern `json:"prompt,omitempty"`
	Text     []Pattern `json:"text,omitempty"`
	Secret   []string  `json:"secret,omitempty"` // ids of rules, globs
	Agent    []string  `json:"agent,omitempty"`
	MCP      []string  `json:"mcp,omitempty"`
	Mode     []string  `json:"mode,omitempty"`
	Subagent []string  `json:"subagent,omitempty"`
	Failed   *bool     `json:"failed,omitempty"` // how a call ended
	Not      *Match    `json:"not,omitempty"`
}

// Pattern is a piece of text to look for: as it stands, or /RE2/.
type Pattern struct {
	Text    string `json:"text"`
	Literal string `json:"literal,omitempty"` // occurs in every match of a /RE2/; empty = unknown
	Near    string `json:"near,omitempty"`    // instead: what tells it from afar, see nearTexts
}

// Duration is a time span that files write with a unit.
type Duration time.Duration

// String is 1m30s, and 1m without what is nothing.
func (d Duration) String() string { return shortly(time.Duration(d)) }

// MarshalText writes 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads 1m30s.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Error is one thing that is wrong in a policy file.
type Error struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Msg  string `json:"message"`
	Hint string `json:"hint,omitempty"` // the way out, where it is known

	gone bool // the file does not exist
}

// Error returns FILE:LINE:COL: message (hint).
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Col)
	}
	text += ": " + e.Msg
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return oneLine(text)
}

// oneLine is a message that quotes files and their names: who writes those says nothing
// on a line of their own, and nothing to a terminal.
func oneLine(text string) string {
	return strings.Map(printed, text)
}

func printed(c rune) rune {
	if unicode.IsControl(c) {
		return unicode.ReplacementChar
	}
	return c
}
