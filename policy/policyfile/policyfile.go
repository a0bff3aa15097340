// Package policyfile holds the content of a policy file as plain data: hooks, match keys, actions
// and settings. Nothing in it is compiled or checked; package policy parses, checks and builds it.
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
	"github.com/grapnel-dev/grapnel/internal/policy/secret"
)

// Policy is the content of one policy file.
type Policy struct {
	Version   int        `json:"version"`
	Pack      *PackInfo  `json:"pack,omitempty"`   // the file is a pack
	Use       []Use      `json:"use,omitempty"`    // packs whose hooks this policy uses
	Strict    bool       `json:"strict,omitempty"` // programs without `on_error:` fail closed
	Hooks     []Hook     `json:"hooks,omitempty"`
	Load      []LoadFrom `json:"load,omitempty"`      // hook files of other systems
	Records   *Records   `json:"records,omitempty"`   // which records Grapnel keeps, and which parts of them
	Retention *Retention `json:"retention,omitempty"` // how long Records are kept; only in user and managed policies
	Redact    *Redact    `json:"redact,omitempty"`    // data that hooks of projects and plugins do not see
	Secrets   *Secrets   `json:"secrets,omitempty"`   // changes to secret detection
	Networks  []Word     `json:"networks,omitempty"`  // such as 10.0.0.0/8 or *.corp.internal: private networks and names that outbound requests may reach
	CA        Word       `json:"ca,omitzero"`         // file with certificate authorities for outbound requests
	Grants    []Grant    `json:"grants,omitempty"`    // permissions for policies of projects and plugins; only in user and managed policies
	Vouches   []Vouch    `json:"trust,omitempty"`     // project policies that are trusted without a prompt; only in user and managed policies

	OnlyManaged bool `json:"use_only_managed,omitempty"` // ignore all other policies; only in a managed policy

	Revision int   `json:"revision,omitempty"` // number of this version of the policy; 0 = none
	Expires  int64 `json:"expires,omitempty"`  // end of its validity in seconds since 1970; 0 = never

	Defaults Defaults `json:"defaults,omitzero"`
}

// Reach is the servers that user and managed policies open for outbound requests.
type Reach struct {
	Networks []string `json:"networks,omitempty"` // private networks and names
	CA       []string `json:"ca,omitempty"`       // absolute paths of files with certificate authorities
}

// Defaults is the `defaults:` section of a file. The parser copies a default sandbox into each
// Command.
type Defaults struct {
	Timeout Duration `json:"timeout,omitempty"`
	OnError string   `json:"on_error,omitempty"`
	Mode    string   `json:"mode,omitempty"` // of hooks and packs that set none; the parser has set it there
}

// DefaultPriority is the priority of a hook that has none in its file. In a Spec it is 0.
const DefaultPriority = 100

// SpecPriority returns the priority of the Spec of a hook.
func SpecPriority(inFile *int) int {
	if inFile == nil {
		return 0
	}
	return *inFile - DefaultPriority
}

// Hook is one entry of `hooks:`. Exactly one action is set: Decide, Contain, Context, Replace, Mask,
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
	Message  string         `json:"message,omitempty"`  // for the user, in addition to a decision
	Incident string         `json:"incident,omitempty"` // an incident that the hook prevents; for readers of the file
	Groups   []string       `json:"groups,omitempty"`   // the hook is only for machines of these groups; empty = all machines

	Decide  string                            `json:"decide,omitempty"`  // block, ask or allow
	Contain *Sandbox                          `json:"contain,omitempty"` // runs a shell line in a sandbox
	Reason  string                            `json:"reason,omitempty"`
	Approve *Approve                          `json:"approve,omitempty"` // of an `ask:`: waits for a person
	Advice  []string                          `json:"advice,omitempty"`  // commands to run instead; added to the reason
	Context *Context                          `json:"context,omitempty"`
	Replace []Replacement                     `json:"replace,omitempty"`
	Mask    []string                          `json:"mask,omitempty"`   // IDs or globs of the rules whose secrets are masked
	Fields  []grapnel.Field                   `json:"fields,omitempty"` // fields that `replace:` and `mask:` change; empty = all text
	Set     map[grapnel.Field]json.RawMessage `json:"set,omitempty"`    // whole fields that `set:` replaces
	Places  []Place                           `json:"places,omitempty"` // places inside fields that `set:` replaces
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

// Context is a `context:` action: text that is added to the model's context. Exactly one field is
// set.
type Context struct {
	Text string   `json:"text,omitempty"`
	File string   `json:"file,omitempty"` // relative to the policy file
	Run  *Command `json:"run,omitempty"`  // program that writes the text
}

// Place is a place inside a field that is a JSON object, and its new value. A new object is merged
// into the old value; null removes the old value.
type Place struct {
	Field grapnel.Field   `json:"field"`
	Path  []string        `json:"path"`
	Value json.RawMessage `json:"value"`
}

// Replacement is one pattern of a `replace:`.
type Replacement struct {
	Pattern string `json:"pattern"`           // RE2
	With    string `json:"with"`              // $1 is the first group
	Literal string `json:"literal,omitempty"` // text that occurs in every match; the pattern is compiled when an event contains it
}

// Command is the program of a `run:` or `worker:` action. policy.DialectOf returns its dialect.
type Command struct {
	Name    string        `json:"name"` // name of the hook
	Line    string        `json:"line,omitempty"`
	Args    []string      `json:"args,omitempty"`   // used instead of Line: runs without a shell
	Worker  bool          `json:"worker,omitempty"` // the program keeps running and answers many events in turn
	Env     []string      `json:"env,omitempty"`    // variables that are passed to the program although they look like secrets
	Async   bool          `json:"async,omitempty"`
	Speaks  string        `json:"speaks,omitempty"`  // dialect of its input and output; empty = plain
	Context bool          `json:"context,omitempty"` // the program is part of a Context
	Asked   bool          `json:"asked,omitempty"`   // the program is part of a session summary
	Sandbox *Sandbox      `json:"sandbox,omitempty"` // what the program can access; nil = no limits
	Title   string        `json:"-"`                 // the program in messages, if Args has code of Grapnel; empty = its command line
	Vars    []string      `json:"-"`                 // extra variables (NAME=value) of a hook that was loaded from an agent's configuration
	Dir     string        `json:"-"`                 // directory of the policy file
	Scope   grapnel.Scope `json:"-"`                 // scope of the policy file

	CommandDir func(*grapnel.Event) string `json:"-"` // see process.Command; nil = not known
}

// Match selects the events of a hook. All keys that are set must match, and of each list one word
// must match. Not excludes events.
type Match struct {
	Tool     []string  `json:"tool,omitempty"`
	Words    []string  `json:"words,omitempty"` // in the name of the tool and in its arguments
	Command  []string  `json:"command,omitempty"`
	Branch   []string  `json:"branch,omitempty"`  // of the checkout in which a command works
	Pushes   []string  `json:"pushes,omitempty"`  // what a command changes in a remote repository
	Deletes  []string  `json:"deletes,omitempty"` // what a command deletes, see package loss
	Drops    []string  `json:"drops,omitempty"`   // which databases a command drops
	Shell    []string  `json:"shell,omitempty"`
	Path     []string  `json:"path,omitempty"`
	Reads    []string  `json:"reads,omitempty"`
	Writes   []string  `json:"writes,omitempty"`
	URL      []string  `json:"url,omitempty"`
	Host     []string  `json:"host,omitempty"`
	Code     []Pattern `json:"code,omitempty"` // what an interpreter runs
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

// Pattern is a text to look for, either literal or as /RE2/.
type Pattern struct {
	Text    string `json:"text"`
	Literal string `json:"literal,omitempty"` // text that occurs in every match of the /RE2/; empty = unknown
	Near    string `json:"near,omitempty"`    // used instead of Literal: several such texts, see prefilter.RequiredTexts
}

// Error is one error in a policy file.
type Error struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
	Msg  string `json:"message"`
	Hint string `json:"hint,omitempty"` // how to fix it; may be empty
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

// OneLine replaces control characters in a message that quotes a file or its name. Without it, the
// author of the file could add lines or terminal control sequences to the message.
func OneLine(text string) string {
	return strings.Map(printed, text)
}

func printed(c rune) rune {
	if unicode.IsControl(c) {
		return unicode.ReplacementChar
	}
	return c
}

// After is one step of an `after:` key: an event that must have happened for the hook to match. The
// steps must have happened in the given order.
type After struct {
	Happening
	Blocked bool       `json:"blocked,omitempty"` // only events that were blocked; false = only events that were not
	Within  Duration   `json:"within,omitempty"`  // maximum age; 0 = any time in the session
	Times   int        `json:"times,omitempty"`   // minimum number of times; 0 = once
	Same    string     `json:"same,omitempty"`    // what both events must share: call, tool, path, below, run, command; empty = nothing
	Until   *Happening `json:"until,omitempty"`   // an event that cancels the step
	By      []string   `json:"by,omitempty"`      // keys that group events, as in a Limit; empty = the events of one session
}

// Happening selects events with the same match keys as a hook.
type Happening struct {
	Event  []grapnel.Kind `json:"event"`
	Match  *Match         `json:"match,omitempty"`
	Except []Match        `json:"except,omitempty"`
	When   string         `json:"when,omitempty"`
}

// Names of built-in hooks.
const (
	BuiltinAudit   = "audit"
	BuiltinLogging = "logging"
	BuiltinSummary = "session-summary"
)

// Builtin is a `builtin:` action, a hook that is part of Grapnel. The program that writes a session
// summary is Hook.Run.
type Builtin struct {
	Name string `json:"name"`           // audit, logging, session-summary
	File string `json:"file,omitempty"` // audit and logging: output file; empty = in the state directory
	Into string `json:"into,omitempty"` // session-summary: output directory; empty = the session's root
}

// Grant is one entry of `grants:`. It sets whether policies of projects and hooks of plugins may
// use `allow`, start programs and send HTTP requests. Without a matching entry, a trusted source
// may start programs and send requests, but its `allow` has no effect.
type Grant struct {
	Source Word   `json:"source"` // pattern for the real path of the file or of its directory
	May    []Word `json:"may"`    // any of GrantWords
}

// GrantWords lists what a Grant can permit.
var GrantWords = [...]string{"allow", "run", "http"}

// Vouch is one entry of `trust:`. A project policy with this digest is trusted without a prompt,
// for example in continuous integration.
type Vouch struct {
	Source Word `json:"source"` // as in a Grant
	Digest Word `json:"digest"` // sha256:HEX, as "grapnel trust" prints it
}

// HTTP is an `http:` or `notify:` action. An `http:` server decides about events, like a program. A
// `notify:` server receives each event until it confirms the delivery.
type HTTP struct {
	Name    string            `json:"name"`              // name of the hook
	URL     string            `json:"url"`               // https; http only in policies that may open networks
	Secrets []string          `json:"secrets,omitempty"` // keys that sign requests: env:NAME, file:PATH, or the key itself; see [HTTP.Resolve]
	Headers map[string]string `json:"headers,omitempty"` // a value may be env:NAME or file:PATH
	Body    string            `json:"body,omitempty"`    // plain, summary, or for `notify:` cloudevents, slack, teams, ntfy; empty = plain
	Members []BodyPart        `json:"members,omitempty"` // members of the body of a `notify:`, instead of Body
	Title   string            `json:"title,omitempty"`   // expression for the title of a message for people; empty = Grapnel's
	Text    string            `json:"text,omitempty"`    // expression for its text; empty = Grapnel's
	SMTP    *SMTP             `json:"smtp,omitempty"`    // the message is an e-mail, and URL is empty
	Breaker Breaker           `json:"breaker,omitzero"`
	Async   bool              `json:"async,omitempty"`   // the answer is ignored; always true with `notify:`
	Timeout Duration          `json:"timeout,omitempty"` // timeout of one request
	Notify  bool              `json:"notify,omitempty"`  // the action is a `notify:`
	Ordered bool              `json:"ordered,omitempty"` // the events of a session are sent one at a time, in order
	Most    int               `json:"most,omitempty"`    // maximum number of concurrent requests; 0 = the default of the delivery
	Source  string            `json:"-"`                 // source of the hook
	Dir     string            `json:"-"`                 // directory of the policy file
	Scope   grapnel.Scope     `json:"-"`                 // scope of the policy file
}

// A BodyPart is a part of the JSON of a `notify:`: an expression, an object or a list.
type BodyPart struct {
	Name  string     `json:"name,omitempty"`  // of a member of an object
	Expr  string     `json:"expr,omitempty"`  // in the language of `when:`
	Parts []BodyPart `json:"parts,omitempty"` // of an object or a list, instead of Expr
	List  bool       `json:"list,omitempty"`  // Parts are the elements of a list
}

// SMTP is an e-mail server and the addresses of its messages.
type SMTP struct {
	Server   string   `json:"server"` // host:port
	From     string   `json:"from"`
	To       []string `json:"to"`
	User     string   `json:"user,omitempty"`     // empty = no authentication
	Password string   `json:"password,omitempty"` // env:NAME or file:PATH; see [HTTP.Resolve]
}

// MaxBodyParts is the maximum number of parts in the body of a `notify:`.
const MaxBodyParts = 200

// Breaker configures a circuit breaker: after Failures failures in a row, Grapnel sends a server no
// requests for Cooldown. Zero values mean the defaults.
type Breaker struct {
	Failures int      `json:"failures,omitempty"` // consecutive failures
	Cooldown Duration `json:"cooldown,omitempty"`
}

// FullName returns the name of the hook, with its source as prefix if it has one.
func (h *HTTP) FullName() string {
	if h.Source == "" {
		return h.Name
	}
	return h.Source + "::" + h.Name
}

// Address returns the place to which the hook sends events: a URL, or an e-mail server and the
// recipients.
func (h *HTTP) Address() string {
	if h.SMTP != nil {
		return strings.Join(h.SMTP.To, ", ") + " by " + h.SMTP.Server
	}
	return h.URL
}

// ForPeople reports whether the hook sends a message for people, and no data for a program.
func (h *HTTP) ForPeople() bool {
	return h.SMTP != nil || h.Body == "slack" || h.Body == "teams" || h.Body == "ntfy"
}

// Key returns the policy key of the action: http or notify.
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

// Approve is how an `ask:` waits for a person who may not be at the agent's terminal.
type Approve struct {
	Within Duration `json:"within"`           // time for the person's answer
	Else   string   `json:"else,omitempty"`   // without an answer: block, or ask, the agent's own question; empty = block
	Notify []string `json:"notify,omitempty"` // names of observing hooks of the file that learn about the question
}

// Limit is a `limit:` action: the maximum number of matching events in a period, or the maximum sum
// over them. Either Count is set, or Sum and Max.
type Limit struct {
	Count  int      `json:"count,omitempty"`
	Sum    string   `json:"sum,omitempty"` // a numeric expression over the event
	Max    float64  `json:"max,omitempty"`
	Per    Duration `json:"per"`
	By     []string `json:"by,omitempty"`   // keys with separate counters: session, tool, agent, user; empty = one counter
	Then   string   `json:"then,omitempty"` // block or ask; empty = block
	Reason string   `json:"reason,omitempty"`
}

// FormatNumber formats a sum without visible rounding errors: 0.1+0.2 becomes 0.3.
func FormatNumber(f float64) string {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 12, 64), 64)
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// LoadFrom is one entry of `load:`: hook files of another system.
type LoadFrom struct {
	Format Word   `json:"format"`
	File   string `json:"file,omitempty"` // a file, a directory or a pattern, relative to the policy file; empty = the default places of the system
}

// PackInfo is the `pack:` section of a file that other policies can use. A pack contains only
// rules, so using a pack starts no program and reads no file.
type PackInfo struct {
	Version int `json:"version"` // increases when the hooks of the pack change
}

// Use is one entry of `use:`. It does not affect other files that use the same pack.
type Use struct {
	Pack   Word     `json:"pack"`
	Except []Word   `json:"except,omitempty"` // hooks of the pack to leave out
	Allow  []Permit `json:"allow,omitempty"`  // what single hooks of the pack do not match
	Mode   string   `json:"mode,omitempty"`   // enforce or observe for all hooks of the pack; empty = the mode of each hook
}

// Permit is one entry of `allow:` in a [Use]. It adds to the `except:` of a hook.
type Permit struct {
	Hook  Word    `json:"hook"`
	Match []Match `json:"match"`
}

// Word is a word of a file with its position.
type Word struct {
	Text string `json:"text"`
	Line int    `json:"line"`
	Col  int    `json:"col"`
}

// Records is the `records:` section. It selects the records that Grapnel keeps, and their content.
type Records struct {
	Keep    string        `json:"keep,omitempty"` // empty = the setting of other policies
	Sync    bool          `json:"sync,omitempty"` // write records to disk before the agent gets its reply
	Drop    []string      `json:"drop,omitempty"` // fields of events, and JSON pointers into a record
	Replace []Replacement `json:"replace,omitempty"`
	Forward []Forward     `json:"forward,omitempty"` // only in user and managed policies
}

// Forward is an entry of `forward:`: a database or stream outside of this machine that gets a copy of each
// Record.
type Forward struct {
	To          Word   `json:"to"`                    // URL without a password
	Credentials string `json:"credentials,omitempty"` // path of a file; empty = the usual place of the target
	CA          string `json:"ca,omitempty"`          // path of a PEM file of certificate authorities; empty = the authorities of the system
}

// Retention is the `retention:` section: the limits above which the oldest Records are removed.
type Retention struct {
	Line    int   `json:"line,omitempty"`
	Days    int   `json:"days,omitempty"`    // maximum age; 0 = not set
	Records int   `json:"records,omitempty"` // maximum number; 0 = not set
	Size    int64 `json:"size,omitempty"`    // maximum size of the log in bytes; 0 = not set
}

// Redact is the `redact:` section: data that hooks of projects and plugins can neither read nor
// replace.
type Redact struct {
	Fields   []string      `json:"fields,omitempty"`   // JSON pointers into tool.input; * is any member or element
	Patterns []Replacement `json:"patterns,omitempty"` // applied to all texts; With is empty
}

// Sandbox is a `sandbox:` section: the files and hosts that a program can access, in addition to installed software and
// its own temporary directory. Paths are relative to the policy file, or begin with {root} (the
// project) or {cwd} (the directory of the event).
type Sandbox struct {
	Off      bool     `json:"off,omitempty"` // `sandbox: false`, overrides a default of the file
	Read     []string `json:"read,omitempty"`
	Write    []string `json:"write,omitempty"` // also readable
	Net      bool     `json:"net,omitempty"`   // all addresses
	Ports    []uint16 `json:"ports,omitempty"` // TCP ports
	Optional bool     `json:"optional,omitempty"`
}

// Describe returns a description of the access that the sandbox gives, in one line.
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
		optional = "; optional on systems without sandboxes"
	}
	return fmt.Sprintf("sandbox: reads %s, writes %s, %s%s", list(s.Read), list(s.Write), net, optional)
}

// Secrets is the `secrets:` section: which texts the hooks of this file and of its packs treat as
// secrets. It does not affect other files, so a user's policy still finds secrets that a project's
// policy allows.
type Secrets struct {
	Files   []Word   `json:"files,omitempty"`   // files with rules, relative to the policy file
	Disable []string `json:"disable,omitempty"` // IDs or globs of rules
	Allow   []string `json:"allow,omitempty"`   // values that are not secrets: texts or /RE2/

	// The content of Files, set after they were read.
	Sums  []string        `json:"sums,omitempty"` // SHA-256 of each file
	Rules []*secret.Rule  `json:"rules,omitempty"`
	Lists []*secret.Allow `json:"lists,omitempty"`
	Off   []string        `json:"off,omitempty"` // built-in rules that the files disable
	Notes []*Error        `json:"-"`             // parts of the files that Grapnel ignores
}

// String returns the place in policy syntax: FIELD.NAME.NAME.
func (p *Place) String() string {
	return string(p.Field) + "." + strings.Join(p.Path, ".")
}

// String returns a short description, such as "20 in 1m per session".
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

// ParseOnError returns the value of an `on_error:` key. Unknown words give OnErrorDefault.
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

// FirstDuration returns the first positive duration, or 0.
func FirstDuration(ds ...Duration) time.Duration {
	for _, d := range ds {
		if d > 0 {
			return time.Duration(d)
		}
	}
	return 0
}

// InputFields returns the fields whose values are part of tool.input.
func InputFields() []grapnel.Field {
	return []grapnel.Field{grapnel.FieldCommand, grapnel.FieldPath, grapnel.FieldURL, grapnel.FieldContent}
}

// MaxTimes is the largest valid `times:` value of an `after:` step.
const MaxTimes = 50
