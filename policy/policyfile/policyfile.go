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

// Policy is the content of one policy file.
type Policy struct {
	Version  int        `json:"version"`
	Pack     *PackInfo  `json:"pack,omitempty"`   // the file is a pack
	Use      []Use      `json:"use,omitempty"`    // packs whose hooks count too
	Strict   bool       `json:"strict,omitempty"` // programs without `on_error:` fail closed
	Hooks    []Hook     `json:"hooks,omitempty"`
	Load     []LoadFrom `json:"load,omitempty"`     // hook files of other systems
	Records  *Records   `json:"records,omitempty"`  // which Records are kept, and of what
	Redact   *Redact    `json:"redact,omitempty"`   // what hooks of projects and plugins do not see
	Secrets  *Secrets   `json:"secrets,omitempty"`  // what counts as a secret
	Networks []Word     `json:"networks,omitempty"` // such as 10.0.0.0/8: private networks that outbound requests may reach
	Grants   []Grant    `json:"grants,omitempty"`   // what policies of projects and plugins may do; only in policies of users and managed ones
	Vouches  []Vouch    `json:"trust,omitempty"`    // policies of projects that are trusted without a question; only as with Grants

	OnlyManaged bool `json:"use_only_managed,omitempty"` // only managed policies count; only in a managed policy

	Defaults Defaults `json:"defaults,omitzero"`
}

// Defaults are the `defaults:` of a file. Each Command holds its sandbox itself.
type Defaults struct {
	Timeout Duration `json:"timeout,omitempty"`
	OnError string   `json:"on_error,omitempty"`
}

// Hook is one entry of `hooks:`. Exactly one action is set: Decide, Context, Replace, Mask,
// Set or Places, Limit, Run, HTTP, or Builtin.
type Hook struct {
	Name     string         `json:"name,omitempty"`
	Line     int            `json:"line,omitempty"`
	On       []grapnel.Kind `json:"on,omitempty"`
	Match    *Match         `json:"match,omitempty"`
	Except   []Match        `json:"except,omitempty"`
	When     string         `json:"when,omitempty"`
	After    []After        `json:"after,omitempty"` // events that must have happened before, in this order
	Mode     string         `json:"mode,omitempty"`  // enforce, observe
	OnError  string         `json:"on_error,omitempty"`
	Priority *int           `json:"priority,omitempty"`
	Timeout  Duration       `json:"timeout,omitempty"`
	Message  string         `json:"message,omitempty"`  // for the person, beside a decision
	Incident string         `json:"incident,omitempty"` // an incident that the hook prevents; for people who read the file

	Decide  string                            `json:"decide,omitempty"` // block, ask, allow
	Reason  string                            `json:"reason,omitempty"`
	Advice  []string                          `json:"advice,omitempty"` // commands to run instead; added to the reason
	Context *Context                          `json:"context,omitempty"`
	Replace []Replacement                     `json:"replace,omitempty"`
	Mask    []string                          `json:"mask,omitempty"`   // IDs of the rules whose secrets are masked, or globs
	Fields  []grapnel.Field                   `json:"fields,omitempty"` // that `replace:` and `mask:` change; empty = all text
	Set     map[grapnel.Field]json.RawMessage `json:"set,omitempty"`    // whole fields of `set:`
	Places  []Place                           `json:"places,omitempty"` // places inside of fields of `set:`
	Limit   *Limit                            `json:"limit,omitempty"`
	Run     *Command                          `json:"run,omitempty"`  // `run:` and `worker:`
	HTTP    *HTTP                             `json:"http,omitempty"` // `http:` and `notify:`
	Builtin *Builtin                          `json:"builtin,omitempty"`
}

// Program returns the program that the hook starts, or nil.
func (h *Hook) Program() *Command {
	if h.Context != nil {
		return h.Context.Run
	}
	return h.Run
}

// Context is a `context:`, text that is added to what the model sees. One field is set.
type Context struct {
	Text string   `json:"text,omitempty"`
	File string   `json:"file,omitempty"` // relative to the policy file
	Run  *Command `json:"run,omitempty"`  // the program that writes the text
}

// Place is a place inside of a field that is an object, and its new value. An object is
// merged into the old one; null removes the old value.
type Place struct {
	Field grapnel.Field   `json:"field"`
	Path  []string        `json:"path"`
	Value json.RawMessage `json:"value"`
}

// Replacement is one pattern of a `replace:`.
type Replacement struct {
	Pattern string `json:"pattern"`           // RE2
	With    string `json:"with"`              // $1 is the first group
	Literal string `json:"literal,omitempty"` // a text in every match; the pattern compiles when an event has it
}

// Command is the program of a `run:` or a `worker:`. policy.DialectOf returns its dialect.
type Command struct {
	Name    string        `json:"name"` // of the hook
	Line    string        `json:"line,omitempty"`
	Args    []string      `json:"args,omitempty"`   // in place of Line: runs without a shell
	Worker  bool          `json:"worker,omitempty"` // it stays running and answers one event after the other
	Env     []string      `json:"env,omitempty"`    // variables that the program gets although they look like secrets
	Async   bool          `json:"async,omitempty"`
	Speaks  string        `json:"speaks,omitempty"`  // the dialect of its input and answer; empty = plain
	Context bool          `json:"context,omitempty"` // it belongs to a Context
	Asked   bool          `json:"asked,omitempty"`   // it belongs to a session summary
	Sandbox *Sandbox      `json:"sandbox,omitempty"` // what it may reach; nil = no limits
	Vars    []string      `json:"-"`                 // more variables, NAME=value, of a hook that was loaded from an agent's configuration
	Dir     string        `json:"-"`                 // of the policy file
	Scope   grapnel.Scope `json:"-"`                 // of the policy file
}

// Match says for which events a hook is meant. One word of each list must fit, and all keys
// that are set. Not excludes events.
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
	Secret   []string  `json:"secret,omitempty"` // IDs of rules, or globs
	Agent    []string  `json:"agent,omitempty"`
	MCP      []string  `json:"mcp,omitempty"`
	Mode     []string  `json:"mode,omitempty"`
	Subagent []string  `json:"subagent,omitempty"`
	Failed   *bool     `json:"failed,omitempty"` // whether the call failed
	Not      *Match    `json:"not,omitempty"`
}

// Pattern is a text to look for, as it is or as /RE2/.
type Pattern struct {
	Text    string `json:"text"`
	Literal string `json:"literal,omitempty"` // a text in every match of the /RE2/; empty = unknown
	Near    string `json:"near,omitempty"`    // in place of Literal: several such texts, see prefilter.RequiredTexts
}

// Duration is a time span, written with a unit.
type Duration time.Duration

// String returns 1m30s, and 1m in place of 1m0s.
func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

// MarshalText writes 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads 1m30s.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Error is one error in a policy file.
type Error struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Msg  string `json:"message"`
	Hint string `json:"hint,omitempty"` // what to do about it; may be empty
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

// OneLine removes control characters from a message that quotes a file or its name, so that
// whoever wrote them can neither add a line nor control a terminal.
func OneLine(text string) string {
	return strings.Map(printed, text)
}

func printed(c rune) rune {
	if unicode.IsControl(c) {
		return unicode.ReplacementChar
	}
	return c
}

// After is one step of an `after:`: an event that must have happened for the hook to match.
// The steps must have happened in their order.
type After struct {
	Happening
	Within Duration   `json:"within,omitempty"` // how long ago at most; 0 = at any time in the session
	Times  int        `json:"times,omitempty"`  // at least so often; 0 = once
	Same   string     `json:"same,omitempty"`   // what both events must share: call, tool, path, command; empty = nothing
	Until  *Happening `json:"until,omitempty"`  // an event after which the step does not count any more
	By     []string   `json:"by,omitempty"`     // whose events belong together, as in a Limit; empty = those of a session
}

// Happening chooses events, with the same keys as a hook.
type Happening struct {
	Event  []grapnel.Kind `json:"event"`
	Match  *Match         `json:"match,omitempty"`
	Except []Match        `json:"except,omitempty"`
	When   string         `json:"when,omitempty"`
}

// The names of built-in hooks.
const (
	BuiltinAudit   = "audit"
	BuiltinLogging = "logging"
	BuiltinSummary = "session-summary"
)

// Builtin is a `builtin:`, a hook that comes with Grapnel. The program that writes a session
// summary is the Run of the hook.
type Builtin struct {
	Name string `json:"name"`           // audit, logging, session-summary
	File string `json:"file,omitempty"` // of audit and logging: the file for the lines; empty = in the state directory
	Into string `json:"into,omitempty"` // of session-summary: the directory; empty = the session's root
}

// Grant is one entry of `grants:`. It lets policies of projects and hooks of plugins do more
// than block, ask, change, add context and count.
type Grant struct {
	Source Word   `json:"source"` // a pattern for the real path of the file or of its directory
	May    []Word `json:"may"`    // of allow, run, http
}

// Vouch is one entry of `trust:`. A policy of a project that has this digest is trusted
// without a question, for example in continuous integration.
type Vouch struct {
	Source Word `json:"source"` // as in a Grant
	Digest Word `json:"digest"` // sha256:HEX, as "grapnel trust" shows it
}

// HTTP is an `http:`, a server that decides about events like a program does, or a `notify:`,
// a server that gets events until it has confirmed them.
type HTTP struct {
	Name    string            `json:"name"`              // of the hook
	URL     string            `json:"url"`               // https; http only in policies that may open networks
	Secrets []string          `json:"secrets,omitempty"` // keys that sign requests: env:NAME, file:PATH, or the key; see [HTTP.Resolve]
	Headers map[string]string `json:"headers,omitempty"` // a value may be env:NAME or file:PATH
	Body    string            `json:"body,omitempty"`    // plain, summary, or for a `notify:` cloudevents; empty = plain
	Breaker Breaker           `json:"breaker,omitzero"`
	Async   bool              `json:"async,omitempty"`   // the answer does not count; always so with `notify:`
	Timeout Duration          `json:"timeout,omitempty"` // of one request
	Notify  bool              `json:"notify,omitempty"`  // it is a `notify:`
	Ordered bool              `json:"ordered,omitempty"` // the events of a session are sent one after the other
	Most    int               `json:"most,omitempty"`    // requests at a time; 0 = the default of the delivery
	Source  string            `json:"-"`                 // of the hook
	Dir     string            `json:"-"`                 // of the policy file
	Scope   grapnel.Scope     `json:"-"`                 // of the policy file
}

// Breaker is a circuit breaker: after so many failures a server gets no requests for a
// while. Zero is the default.
type Breaker struct {
	Failures int      `json:"failures,omitempty"` // in a row
	Cooldown Duration `json:"cooldown,omitempty"`
}

// FullName returns the name of the hook with its source.
func (h *HTTP) FullName() string {
	if h.Source == "" {
		return h.Name
	}
	return h.Source + "::" + h.Name
}

// Key returns its key in a policy: http or notify.
func (h *HTTP) Key() string {
	if h.Notify {
		return "notify"
	}
	return "http"
}

// Limits returns the limits for package circuit.
func (b Breaker) Limits() circuit.Limits {
	return circuit.Limits{Failures: b.Failures, Cooldown: time.Duration(b.Cooldown)}
}

// Limit is a `limit:`: how many events may match within a time, or how large a sum over them
// may be. Either Count is set, or Sum and Max.
type Limit struct {
	Count  int      `json:"count,omitempty"`
	Sum    string   `json:"sum,omitempty"` // a numeric expression over the event
	Max    float64  `json:"max,omitempty"`
	Per    Duration `json:"per"`
	By     []string `json:"by,omitempty"`   // what is counted apart: session, tool, agent, user; empty = all events together
	Then   string   `json:"then,omitempty"` // block, ask; empty = block
	Reason string   `json:"reason,omitempty"`
}

// FormatDuration writes 1m in place of 1m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// FormatNumber writes a sum without rounding errors: 0.1+0.2 is 0.3.
func FormatNumber(f float64) string {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 12, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// LoadFrom is one entry of `load:`: hook files of another system.
type LoadFrom struct {
	Format Word   `json:"format"`
	File   string `json:"file,omitempty"` // a file, a directory or a pattern, relative to the policy file; empty = where the system keeps its hooks
}

// PackInfo is the `pack:` of a file that other policies can use. A pack has rules and nothing
// else, so using one starts no program and reads no file.
type PackInfo struct {
	Version int `json:"version"` // increases when the hooks of the pack change
}

// Use is one entry of `use:`. It changes nothing for another file that uses the same pack.
type Use struct {
	Pack   Word   `json:"pack"`
	Except []Word `json:"except,omitempty"` // hooks of the pack that are left out
	Mode   string `json:"mode,omitempty"`   // enforce or observe for all hooks of the pack; empty = as each hook says
}

// Word is a word of a file and its position.
type Word struct {
	Text string `json:"text"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// Records is a `records:`. It says which Records are kept, and what of them.
type Records struct {
	Keep    string        `json:"keep,omitempty"` // empty = as other policies say
	Sync    bool          `json:"sync,omitempty"` // they are on disk before the agent gets its reply
	Drop    []string      `json:"drop,omitempty"` // fields of events, and JSON pointers into a Record
	Replace []Replacement `json:"replace,omitempty"`
}

// Redact is a `redact:`. Hooks of projects and plugins can neither read nor replace it.
type Redact struct {
	Fields   []string      `json:"fields,omitempty"`   // JSON pointers into tool.input; * is any member or element
	Patterns []Replacement `json:"patterns,omitempty"` // in all texts; With is empty
}

// Sandbox is a `sandbox:`: what a program may reach, in addition to installed software and a
// temporary directory of its own. Paths are relative to the policy file, or begin with {root}
// or {cwd}: the project and the directory of the event.
type Sandbox struct {
	Off      bool     `json:"off,omitempty"` // `sandbox: false`, if the file has a default
	Read     []string `json:"read,omitempty"`
	Write    []string `json:"write,omitempty"` // can be read too
	Net      bool     `json:"net,omitempty"`   // any address
	Ports    []uint16 `json:"ports,omitempty"` // TCP ports
	Optional bool     `json:"optional,omitempty"`
}

// Describe says in words what a program may reach.
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

// Secrets is a `secrets:`: what the hooks of this file and of its packs take for a secret. It
// changes nothing for other files: the policy of the user still finds what a project calls
// harmless.
type Secrets struct {
	Files   []Word   `json:"files,omitempty"`   // with rules, relative to the policy file
	Disable []string `json:"disable,omitempty"` // IDs of rules, or globs
	Allow   []string `json:"allow,omitempty"`   // values that are no secrets: texts or /RE2/

	// The content of the files, after they were read.
	Sums  []string        `json:"sums,omitempty"` // SHA-256 of each
	Rules []*secret.Rule  `json:"rules,omitempty"`
	Lists []*secret.Allow `json:"lists,omitempty"`
	Off   []string        `json:"off,omitempty"` // rules of Grapnel that the files disable
	Notes []*Error        `json:"-"`             // what Grapnel ignores in the files
}

// String returns the place as a policy writes it.
func (p *Place) String() string {
	return string(p.Field) + "." + strings.Join(p.Path, ".")
}

// String returns the limit in words: 20 in 1m per session.
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

// ProjectRoot is the path that a sandbox may read by default.
const ProjectRoot = "{root}"

// ParseOnError returns the value of an `on_error:`. An unknown word is the default.
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

// FirstDuration returns the first duration above 0, or 0.
func FirstDuration(ds ...Duration) time.Duration {
	for _, d := range ds {
		if d > 0 {
			return time.Duration(d)
		}
	}
	return 0
}

// InputFields returns the fields whose values are somewhere in tool.input.
func InputFields() []grapnel.Field {
	return []grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent}
}

// MaxTimes is the largest `times:` of an `after:`.
const MaxTimes = 50
