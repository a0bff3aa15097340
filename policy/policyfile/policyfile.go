// Package policyfile holds the content of a policy file as plain data: hooks, matches,
// actions and settings, as people write them. Nothing in it is compiled or checked;
// package policy parses, checks and builds it.
package policyfile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/circuit"
	"github.com/grapnel-dev/grapnel/internal/secret"
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

// Program is what the hook starts, or nil.
func (h *Hook) Program() *Command {
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
func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

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
	return OneLine(text)
}

// OneLine is a message that quotes files and their names: who writes those says nothing
// on a line of their own, and nothing to a terminal.
func OneLine(text string) string {
	return strings.Map(printed, text)
}

func printed(c rune) rune {
	if unicode.IsControl(c) {
		return unicode.ReplacementChar
	}
	return c
}

// After is an `after:`: what has to have happened for a hook to count. Of several each
// comes after the one before it.
type After struct {
	Happening
	Within Duration   `json:"within,omitempty"` // how long ago at most; 0 = in the whole session
	Times  int        `json:"times,omitempty"`  // how often at least; 0 = once
	Same   string     `json:"same,omitempty"`   // of sameWords: what it has in common with what the hook judges; empty = nothing
	Until  *Happening `json:"until,omitempty"`  // what makes it forgotten
	By     []string   `json:"by,omitempty"`     // of limitBy: whose events belong together; empty = those of a session
}

// Happening says for which events something is meant, as a hook does.
type Happening struct {
	Event  []grapnel.Kind `json:"event"`
	Match  *Match         `json:"match,omitempty"`
	Except []Match        `json:"except,omitempty"`
	When   string         `json:"when,omitempty"`
}

// Builtin is a hook that comes with Grapnel, of a `builtin:`. The program that a
// session summary asks is the hook's Run.
type Builtin struct {
	Name string `json:"name"`           // audit, logging, session-summary
	File string `json:"file,omitempty"` // of audit and logging: where the lines go; empty = in Request.State
	Into string `json:"into,omitempty"` // of session-summary: the directory; empty = the session's root
}

// Grant is one entry of `grants:`, by which a person says what the policies of projects
// and the hooks of plugins may do beside blocking, asking, changing, telling and
// counting.
type Grant struct {
	Source Word   `json:"source"` // a pattern of the file's real path, or of that of its directory
	May    []Word `json:"may"`    // all that they may: allow, run, http
}

// Vouch is one entry of `trust:`. A project's policy with that digest is trusted without
// anybody being asked, as in continuous integration.
type Vouch struct {
	Source Word `json:"source"` // as of a Grant
	Digest Word `json:"digest"` // sha256:HEX, as "grapnel trust" shows it
}

// HTTP is a `http:`, an address that is asked about events and whose answer counts as that
// of a program does; or a `notify:`, an address that is told of them until it has heard.
type HTTP struct {
	Name    string            `json:"name"`              // of the hook
	URL     string            `json:"url"`               // https; http only for who may open networks
	Secrets []string          `json:"secrets,omitempty"` // what requests are signed with: env:NAME, file:PATH, or the key; see HTTP.Resolve
	Headers map[string]string `json:"headers,omitempty"` // env:NAME and file:PATH stand for what is there
	Body    string            `json:"body,omitempty"`    // plain, summary, and of a `notify:` cloudevents; empty = plain
	Breaker Breaker           `json:"breaker,omitzero"`
	Async   bool              `json:"async,omitempty"`   // nobody waits for the answer, nor does what it says; so it is with each `notify:`
	Timeout Duration          `json:"timeout,omitempty"` // of one request; of a `http:` once a hook is made of it
	Notify  bool              `json:"notify,omitempty"`  // it is a `notify:`
	Ordered bool              `json:"ordered,omitempty"` // it is told of the events of a session one after the other
	Most    int               `json:"most,omitempty"`    // requests that may be under way; 0 = as many as who delivers thinks fit
	Source  string            `json:"-"`                 // of the hook
	Dir     string            `json:"-"`                 // of the policy file
	Scope   grapnel.Scope     `json:"-"`                 // of the policy file
}

// Breaker says when a server that fails is not asked any more, and for how long. Zero
// stands for the default.
type Breaker struct {
	Failures int      `json:"failures,omitempty"` // in a row
	Cooldown Duration `json:"cooldown,omitempty"`
}

// FullName is the name of the hook with its source.
func (h *HTTP) FullName() string {
	if h.Source == "" {
		return h.Name
	}
	return h.Source + "::" + h.Name
}

// Key is the key of a policy that it stands under.
func (h *HTTP) Key() string {
	if h.Notify {
		return "notify"
	}
	return "http"
}

// Limits are those of its circuit.
func (b Breaker) Limits() circuit.Limits {
	return circuit.Limits{Failures: b.Failures, Cooldown: time.Duration(b.Cooldown)}
}

// Limit is a `limit:`: how often something may happen within a time, or how much of
// it there may be. Either Count or Sum and Max are set.
type Limit struct {
	Count  int      `json:"count,omitempty"`
	Sum    string   `json:"sum,omitempty"` // a numeric expression over the event
	Max    float64  `json:"max,omitempty"`
	Per    Duration `json:"per"`
	By     []string `json:"by,omitempty"`   // of limitBy; empty = all events together
	Then   string   `json:"then,omitempty"` // block, ask; empty = block
	Reason string   `json:"reason,omitempty"`
}

// FormatDuration writes 1m instead of 1m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// FormatNumber writes a sum without what only comes of adding: 0.1+0.2 is 0.3.
func FormatNumber(f float64) string {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 12, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// LoadFrom is one entry of `load:`: hook files of another system.
type LoadFrom struct {
	Format Word   `json:"format"`
	File   string `json:"file,omitempty"` // a file, a directory or a pattern, from the policy file; empty = where the system keeps its own
}

// PackInfo is the `pack:` of a file that others can use: a pack is a policy of
// rules and nothing else, so that using one starts no program and reads no file.
type PackInfo struct {
	Version int `json:"version"` // goes up whenever the pack's hooks change
}

// Use is one entry of `use:`. It is about the file that it stands in and changes
// nothing for another file that uses the same pack.
type Use struct {
	Pack   Word   `json:"pack"`
	Except []Word `json:"except,omitempty"` // hooks of the pack that are left out
	Mode   string `json:"mode,omitempty"`   // enforce, observe: of all its hooks; empty = as each says
}

// Word is a word of a file and where it stands.
type Word struct {
	Text string `json:"text"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// Records is a `records:`: what is kept of each firing.
type Records struct {
	Keep    string        `json:"keep,omitempty"` // of keepWords; empty = what others say
	Drop    []string      `json:"drop,omitempty"` // fields of events, and JSON pointers into the line of a Record
	Replace []Replacement `json:"replace,omitempty"`
}

// Redact is a `redact:`: what hooks that are trusted less neither read nor replace.
type Redact struct {
	Fields   []string      `json:"fields,omitempty"`   // places in tool.input: JSON pointers, in which * stands for any member or element
	Patterns []Replacement `json:"patterns,omitempty"` // in any text; With is empty
}

// Sandbox is `sandbox:`: what a program may reach beside what is installed on the system
// and a temporary directory of its own. Paths are as a policy writes them: relative to
// the policy file, or with {root} and {cwd} for where the event happens.
type Sandbox struct {
	Off      bool     `json:"off,omitempty"` // `sandbox: false`, where the file has a default
	Read     []string `json:"read,omitempty"`
	Write    []string `json:"write,omitempty"` // and read
	Net      bool     `json:"net,omitempty"`   // anywhere
	Ports    []uint16 `json:"ports,omitempty"` // of TCP
	Optional bool     `json:"optional,omitempty"`
}

// Describe says what a program is held to, for people.
func (s *Sandbox) Describe() string {
	if s == nil || s.Off {
		return "no sandbox"
	}
	list := func(names []string) string {
		if len(names) == 0 {
			return "nothing"
		}
		named := make([]string, len(names))
		for i, name := range names {
			switch named[i] = name; name {
			case ProjectRoot:
				named[i] = "the project"
			case ".":
				named[i] = "the directory of the policy"
			}
		}
		return strings.Join(named, ", ")
	}
	net := "no network"
	if s.Net {
		net = "any network"
	}
	for i, port := range s.Ports {
		if net += ", "; i == 0 {
			net = "TCP to port "
		}
		net += strconv.Itoa(int(port))
	}
	optional := ""
	if s.Optional {
		optional = "; without it where there is none"
	}
	return fmt.Sprintf("sandbox: reads %s, writes %s, %s%s", list(s.Read), list(s.Write), net, optional)
}

// Secrets is `secrets:`: what the hooks of a file take for a secret, those of the packs
// that it uses included. It is about this file only: what a project calls harmless, the
// policy of its user still finds.
type Secrets struct {
	Files   []Word   `json:"files,omitempty"`   // of rules, relative to the policy file
	Disable []string `json:"disable,omitempty"` // ids of rules, globs
	Allow   []string `json:"allow,omitempty"`   // values that are no secrets: as they stand, or /RE2/

	// What the files say, once they are read.
	Sums  []string        `json:"sums,omitempty"` // SHA-256 of each
	Rules []*secret.Rule  `json:"rules,omitempty"`
	Lists []*secret.Allow `json:"lists,omitempty"`
	Off   []string        `json:"off,omitempty"` // rules of Grapnel that the files switch off
	Notes []*Error        `json:"-"`             // what of them does not count
}

// String is how a policy writes the place.
func (p *Place) String() string {
	return string(p.Field) + "." + strings.Join(p.Path, ".")
}

// String says what is let through: 20 in 1m per session.
func (l *Limit) String() string {
	text := fmt.Sprintf("%d in %s", l.Count, l.Per)
	if l.Sum != "" {
		text = fmt.Sprintf("a sum of %s in %s of %s", FormatNumber(l.Max), l.Per, l.Sum)
	}
	if len(l.By) > 0 {
		text += " per " + strings.Join(l.By, " and ")
	}
	return text
}

// ProjectRoot is what a sandbox reads that does not say.
const ProjectRoot = "{root}"

// ParseOnError reads `on_error:`. Another word is the default.
func ParseOnError(word string) grapnel.OnError {
	switch word {
	case "open":
		return grapnel.OnErrorOpen
	case "closed":
		return grapnel.OnErrorClosed
	case "ask":
		return grapnel.OnErrorAsk
	default:
		return grapnel.OnErrorDefault
	}
}

// FirstDuration returns the first duration that is longer than nothing, or 0.
func FirstDuration(ds ...Duration) time.Duration {
	for _, d := range ds {
		if d > 0 {
			return time.Duration(d)
		}
	}
	return 0
}

// InputFields are the fields that stand somewhere in tool.input.
var InputFields = []grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent}

// MaxTimes is the largest `times:` of an `after:`.
const MaxTimes = 50
