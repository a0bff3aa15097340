package grapnel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/seam"
)

// A Kind names an event, as subject.moment. "before" can still be stopped or
// changed, "after" reports a finished step, all others are notices. Events of one
// agent without a row in Contracts are native.<agent>.<Name>.
type Kind string

// The events; see [Contracts].
const (
	GatewayStart      Kind = "gateway.start"
	GatewayStop       Kind = "gateway.stop"
	SessionStart      Kind = "session.start"
	SessionEnd        Kind = "session.end"
	PromptBefore      Kind = "prompt.before"
	AgentBefore       Kind = "agent.before"
	AgentAfter        Kind = "agent.after"
	AgentFailed       Kind = "agent.failed"
	ModelBefore       Kind = "model.before"
	ModelAfter        Kind = "model.after"
	ToolsetBefore     Kind = "toolset.before"
	ToolBefore        Kind = "tool.before"
	PermissionBefore  Kind = "permission.before"
	PermissionDenied  Kind = "permission.denied"
	ToolAfter         Kind = "tool.after"
	ToolFailed        Kind = "tool.failed"
	ToolBatchAfter    Kind = "toolbatch.after"
	TranscriptBefore  Kind = "transcript.before"
	ResponseBefore    Kind = "response.before"
	MessageReceived   Kind = "message.received"
	MessageBefore     Kind = "message.before"
	MessageSent       Kind = "message.sent"
	CompactBefore     Kind = "compact.before"
	CompactAfter      Kind = "compact.after"
	SubagentStart     Kind = "subagent.start"
	SubagentAfter     Kind = "subagent.after"
	TaskBefore        Kind = "task.before"
	TaskAfter         Kind = "task.after"
	NotificationSent  Kind = "notification.sent"
	ConfigBefore      Kind = "config.before"
	ElicitationBefore Kind = "elicitation.before"
)

// The prefix of native Kinds, and the limit of stops.
const (
	NativePrefix = "native." // begins the Kind of an event that only one agent has
	MaxStops     = 8         // consecutive times that hooks may keep an agent from stopping
)

// Native reports whether k is an event that only one agent has.
func (k Kind) Native() bool { return strings.HasPrefix(string(k), NativePrefix) }

// Known reports whether k is an event that has a Contract; see [ContractOf].
func (k Kind) Known() bool { return contractOf(k) != nil }

// An Event describes one event of an agent in a form that is the same for every agent. The Kind
// determines which of the optional parts are set. Hooks must not change an Event; they answer
// with an [Outcome]. Its JSON has only facts: an event that is read from JSON has no Terms.
type Event struct {
	ID           string          `json:"id,omitempty"` // unique per firing; set by the engine if a Record or a hook needs it
	Kind         Kind            `json:"kind"`
	Time         time.Time       `json:"time,omitzero"`
	Agent        Agent           `json:"agent,omitzero"`
	Session      Session         `json:"session,omitzero"`
	Cause        string          `json:"cause,omitempty"` // reason for the event: startup, resume, clear, manual, auto, an error class
	Tool         *Tool           `json:"tool,omitempty"`
	Calls        []Tool          `json:"calls,omitempty"` // toolbatch.after: all calls of one model response
	Prompt       *Prompt         `json:"prompt,omitempty"`
	Message      *Message        `json:"message,omitempty"`
	Model        *Model          `json:"model,omitempty"`
	Toolset      *Toolset        `json:"toolset,omitempty"`
	Stop         *Stop           `json:"stop,omitempty"`
	Compact      *Compact        `json:"compact,omitempty"`
	Task         *Task           `json:"task,omitempty"`
	Notification *Notification   `json:"notification,omitempty"`
	Config       *Config         `json:"config,omitempty"`
	Elicitation  *Elicitation    `json:"elicitation,omitempty"`
	Native       json.RawMessage `json:"native,omitempty"` // the agent's original payload, including unknown fields
	Terms        *Terms          `json:"-"`                // what is not a fact; agents in Go do not need it
}

// Verdict returns the answer to the event, for observing hooks; else nil.
func (ev *Event) Verdict() *Verdict {
	if ev.Terms == nil {
		return nil
	}
	return ev.Terms.Verdict
}

// WithVerdict returns a copy of the event for observing hooks.
func (ev *Event) WithVerdict(v *Verdict) *Event {
	ev = clone(ev)
	ev.Terms = clone(ev.Terms)
	ev.Terms.Verdict = v
	return ev
}

// Agent identifies the agent that fired the event.
type Agent struct {
	Name    string `json:"name,omitempty"` // claude-code, gemini-cli, ...
	Version string `json:"version,omitempty"`
}

// Session describes the session in which the agent works.
type Session struct {
	ID         string    `json:"id,omitempty"`
	CWD        string    `json:"cwd,omitempty"`
	Root       string    `json:"root,omitempty"` // root directory of the project; empty = CWD
	Transcript string    `json:"transcript,omitempty"`
	Model      string    `json:"model,omitempty"`
	Mode       string    `json:"mode,omitempty"` // the agent's permission mode, in the agent's spelling
	Turn       string    `json:"turn,omitempty"`
	Subagent   *Subagent `json:"subagent,omitempty"`
	User       string    `json:"user,omitempty"`    // the person that the agent works for
	Channel    string    `json:"channel,omitempty"` // where the user and the agent exchange messages
	Thread     string    `json:"thread,omitempty"`  // the conversation, if the session has several
	Threads    []string  `json:"threads,omitempty"` // session.end: all conversations of the session
	Job        string    `json:"job,omitempty"`     // the background job that the agent does; empty = a user waits for the agent
}

// Subagent is set while a sub-agent works.
type Subagent struct {
	ID         string `json:"id,omitempty"`
	Type       string `json:"type,omitempty"`
	Transcript string `json:"transcript,omitempty"`
}

// Class is the kind of work that a tool does, under any name.
type Class string

const (
	ClassShell  Class = "shell"  // runs shell lines
	ClassRead   Class = "read"   // reads files
	ClassWrite  Class = "write"  // writes whole files
	ClassEdit   Class = "edit"   // changes files
	ClassSearch Class = "search" // searches files
	ClassFetch  Class = "fetch"  // loads a page
	ClassTask   Class = "task"   // gives work to a sub-agent
	ClassMCP    Class = "mcp"    // a tool of an MCP server
	ClassOther  Class = "other"  // anything else
)

// Tool is one call of a tool. Input and Output are raw JSON in the agent's bytes: key order and
// number spelling are preserved. [Tool.Derive] fills Commands, Paths, URLs and Content from the
// places in Input that Facts lists.
type Tool struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"` // the agent's tool name
	Class    Class           `json:"class,omitempty"`
	MCP      *MCP            `json:"mcp,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"` // a hook that sets it on tool.before provides the result instead of the tool
	Failed   bool            `json:"failed,omitempty"`
	Next     json.RawMessage `json:"next,omitempty"` // set by hooks on tool.after: the next call to make, {name, input}
	Facts    []Fact          `json:"facts,omitempty"`
	Commands []string        `json:"commands,omitempty"` // shell lines
	Paths    []Path          `json:"paths,omitempty"`
	URLs     []string        `json:"urls,omitempty"`
	Content  string          `json:"content,omitempty"` // the text that the tool would write
}

// MCP identifies the server of an MCP tool and the tool's name on that server.
type MCP struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// CanonicalName returns the tool's name. Every MCP tool is mcp__server__tool.
func (t *Tool) CanonicalName() string {
	if t.MCP == nil {
		return t.Name
	}
	return "mcp__" + t.MCP.Server + "__" + t.MCP.Tool
}

// Use is the kind of access that a call makes to a path.
type Use string

const (
	UseRead  Use = "read"  // the call reads it
	UseWrite Use = "write" // the call writes, changes or deletes it
)

// Path is a path in a tool call, as the agent wrote it.
type Path struct {
	Path string `json:"path"`
	Use  Use    `json:"use"`
}

// A Fact locates a neutral field in a tool's input, whatever the agent.
type Fact struct {
	Field Field  `json:"field"`         // tool.command, tool.path, tool.url, tool.content
	At    string `json:"at"`            // RFC 6901 pointer into Input; * matches every element of an array
	Use   Use    `json:"use,omitempty"` // only for paths

	// Form is the format of a value that differs from the text, and cannot be set: patch, whose files
	// are the values; args, a program with its arguments; python or node, code.
	Form string `json:"form,omitempty"`
}

// texts returns the texts in the value at this place.
func (f *Fact) texts(value json.RawMessage) []string {
	if program, ok := strings.CutPrefix(f.Form, seam.FormArgs); ok {
		return argsLine(value, strings.TrimSpace(program))
	}
	text, ok := rawString(value)
	switch {
	case !ok:
		return nil
	case f.Form == seam.FormPatch:
		return patchPaths(text)
	case f.Form == seam.FormPython, f.Form == seam.FormNode:
		return codeLines(f.Form, text)
	}
	return []string{text}
}

// Complete fills in the fields for rules that the caller has left empty: the Class, shell for a tool that
// runs a command, the Facts by usual names of members, and the fields of [Tool.Derive]. Fire completes
// calls that have none of these fields.
func (t *Tool) Complete() {
	open := t.Class == ""
	if open {
		t.Class = ClassOther
		if t.MCP != nil {
			t.Class = ClassMCP
		}
	}
	if t.Facts == nil {
		t.Facts = t.UsualFacts()
		if t.Class == ClassRead || t.Class == ClassSearch {
			for i := range t.Facts {
				if t.Facts[i].Use != "" {
					t.Facts[i].Use = UseRead
				}
			}
		}
	}
	t.Derive()
	if open && t.MCP == nil && len(t.Commands) > 0 {
		t.Class = ClassShell
	}
}

// incomplete reports whether hooks could match nothing in the input of the call, because the
// caller has not called Complete or Derive.
func (t *Tool) incomplete() bool {
	return len(t.Input) > 0 && t.Commands == nil && t.Paths == nil && t.URLs == nil && t.Content == ""
}

// ToolName returns the name of the tool that the event is about, or "".
func (ev *Event) ToolName() string {
	if ev == nil || ev.Tool == nil {
		return ""
	}
	return ev.Tool.Name
}

// Command returns the lines that the tool runs in a shell, or "". To judge what a
// line does, use a rule: see Rules of package policy.
func (ev *Event) Command() string {
	if ev == nil || ev.Tool == nil {
		return ""
	}
	return strings.Join(ev.Tool.Commands, "\n")
}

// Derive sets Commands, Paths, URLs and Content from Input and Facts.
func (t *Tool) Derive() {
	t.Commands, t.Paths, t.URLs, t.Content = nil, nil, nil, ""
	if len(t.Facts) == 0 {
		return
	}
	var content []string
	members, object := rawMembers(t.Input) // split once: Input may hold a file of several megabytes
	for _, fact := range t.Facts {
		found := []json.RawMessage{t.Input}
		if fact.At != "" {
			found = findIn(members, object, fact.At)
		}
		for _, raw := range found {
			texts := fact.texts(raw)
			switch fact.Field {
			case FieldCommand:
				t.Commands = append(t.Commands, texts...)
			case FieldPath:
				for _, path := range texts {
					t.Paths = append(t.Paths, Path{Path: path, Use: fact.Use})
				}
			case FieldURL:
				t.URLs = append(t.URLs, texts...)
			case FieldContent:
				content = append(content, texts...)
			default: // a Fact describes no other fields
			}
		}
	}
	t.Content = strings.Join(content, "\n")
}

// Prompt is the request of the user, or of a program acting for the user.
type Prompt struct {
	Text   string `json:"text"`
	System string `json:"system,omitempty"`
}

// Message is sent, received, or about to be stored in the transcript.
type Message struct {
	ID      string          `json:"id,omitempty"`
	Role    string          `json:"role,omitempty"`
	Sender  string          `json:"sender,omitempty"` // message.received: who sent it; empty = the session's User
	Channel string          `json:"channel,omitempty"`
	Content string          `json:"content,omitempty"`
	Raw     json.RawMessage `json:"raw,omitempty"` // transcript.before: the message as the agent would store it
}

// Model is one call of the model, as raw JSON in the agent's format.
type Model struct {
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
}

// Toolset lists the tools that the model may choose from.
type Toolset struct {
	Allowed []string `json:"allowed,omitempty"` // nil = all
	Mode    string   `json:"mode,omitempty"`    // auto, any, none
}

// Stop describes the end of a turn.
type Stop struct {
	Active      bool   `json:"active,omitempty"` // a hook has already kept the agent from stopping in this turn
	LastMessage string `json:"last_message,omitempty"`
	ClearMemory bool   `json:"clear_memory,omitempty"` // set by hooks: clear the conversation before the agent continues
}

// Compact describes the compaction of a conversation.
type Compact struct {
	Instructions string `json:"instructions,omitempty"`
	Summary      string `json:"summary,omitempty"`
}

// Task is a work item that an agent tracks.
type Task struct {
	ID          string `json:"id,omitempty"`
	Subject     string `json:"subject,omitempty"`
	Description string `json:"description,omitempty"`
}

// Notification is a message from the agent to the user.
type Notification struct {
	Type    string `json:"type,omitempty"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message,omitempty"`
}

// Config describes a change of the agent's own configuration.
type Config struct {
	Source string `json:"source,omitempty"`
	File   string `json:"file,omitempty"`
}

// Elicitation is a question from a tool server to the user.
type Elicitation struct {
	Server  string          `json:"server,omitempty"`
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"` // {action, content}
}

// A Field is a part of an Event that hooks may change.
type Field string

// The fields. The last four are views of tool.input through its Facts.
const (
	FieldPrompt   Field = "prompt"
	FieldSystem   Field = "system"
	FieldModel    Field = "model"
	FieldRequest  Field = "request"
	FieldResponse Field = "response"
	FieldTools    Field = "tools"
	FieldMode     Field = "mode"
	FieldInput    Field = "tool.input"
	FieldOutput   Field = "tool.output"
	FieldNext     Field = "tool.next"
	FieldMessage  Field = "message"
	FieldText     Field = "content"
	FieldSummary  Field = "summary"
	FieldClear    Field = "memory.clear"
	FieldAnswer   Field = "answer"
	FieldCommand  Field = "tool.command"
	FieldPath     Field = "tool.path"
	FieldURL      Field = "tool.url"
	FieldContent  Field = "tool.content"
)

// view reports whether f is a view of tool.input.
func (f Field) view() bool {
	return f == FieldCommand || f == FieldPath || f == FieldURL || f == FieldContent
}

// stored returns the field that holds the value of f: tool.input for views, f itself otherwise.
func (f Field) stored() Field {
	if f.view() {
		return FieldInput
	}
	return f
}

// Get returns a field as JSON and reports whether the event has it. If a view of tool.input has
// several values, Get returns the first one.
func (ev *Event) Get(f Field) (json.RawMessage, bool) {
	var raw json.RawMessage
	switch f {
	case FieldPrompt:
		if ev.Prompt != nil {
			raw = rawjson.Quote(ev.Prompt.Text)
		}
	case FieldSystem:
		if ev.Prompt != nil {
			raw = rawjson.QuoteSome(ev.Prompt.System)
		}
	case FieldModel:
		raw = rawjson.QuoteSome(ev.Session.Model)
	case FieldRequest:
		if ev.Model != nil {
			raw = ev.Model.Request
		}
	case FieldResponse:
		if ev.Model != nil {
			raw = ev.Model.Response
		}
	case FieldTools:
		if ev.Toolset != nil && ev.Toolset.Allowed != nil {
			raw = rawjson.OrNull(ev.Toolset.Allowed)
		}
	case FieldMode:
		if ev.Toolset != nil {
			raw = rawjson.QuoteSome(ev.Toolset.Mode)
		}
	case FieldMessage:
		if ev.Message != nil {
			raw = ev.Message.Raw
		}
	case FieldText:
		if ev.Message != nil {
			raw = rawjson.Quote(ev.Message.Content)
		}
	case FieldSummary:
		if ev.Compact != nil {
			raw = rawjson.QuoteSome(ev.Compact.Summary)
		}
	case FieldClear:
		if ev.Stop != nil && ev.Stop.ClearMemory {
			raw = json.RawMessage("true")
		}
	case FieldAnswer:
		if ev.Elicitation != nil {
			raw = ev.Elicitation.Answer
		}
	case FieldInput, FieldOutput, FieldNext, FieldCommand, FieldPath, FieldURL, FieldContent:
		if ev.Tool != nil {
			return ev.Tool.get(f)
		}
	}
	return raw, raw != nil
}

// get implements Event.Get for the fields of a tool.
func (t *Tool) get(f Field) (json.RawMessage, bool) {
	switch f { //nolint:exhaustive // the other fields are not part of a tool
	case FieldInput:
		return t.Input, t.Input != nil
	case FieldOutput:
		return t.Output, t.Output != nil
	case FieldNext:
		return t.Next, t.Next != nil
	}
	for _, fact := range t.Facts {
		if fact.Field != f {
			continue
		}
		for _, found := range rawFind(t.Input, fact.At) {
			if fact.Form == "" {
				return found, true
			}
			for _, text := range fact.texts(found) {
				return rawjson.Quote(text), true
			}
		}
	}
	return nil, false
}

// Set returns a copy of the event with one field replaced. It returns an error if the value does
// not fit or the event does not have the field. Set does not modify the event; the copy shares
// the unchanged parts.
func (ev *Event) Set(f Field, value json.RawMessage) (*Event, error) {
	if !json.Valid(value) {
		return nil, fmt.Errorf("set %s: not valid JSON", f)
	}
	if ev.Tool == nil && (f.view() || f == FieldInput || f == FieldOutput || f == FieldNext) {
		return nil, fmt.Errorf("set %s: the event has no tool", f)
	}
	out := *ev
	var err error
	switch f {
	case FieldPrompt:
		out.Prompt = clone(ev.Prompt)
		err = decode(value, &out.Prompt.Text)
	case FieldSystem:
		out.Prompt = clone(ev.Prompt)
		err = decode(value, &out.Prompt.System)
	case FieldModel:
		err = decode(value, &out.Session.Model)
	case FieldRequest:
		out.Model = clone(ev.Model)
		out.Model.Request = value
	case FieldResponse:
		out.Model = clone(ev.Model)
		out.Model.Response = value
	case FieldTools:
		out.Toolset = clone(ev.Toolset)
		out.Toolset.Allowed = nil // otherwise decode would write into the list of the old event
		err = decode(value, &out.Toolset.Allowed)
	case FieldMode:
		out.Toolset = clone(ev.Toolset)
		err = decode(value, &out.Toolset.Mode)
	case FieldInput:
		out.Tool = clone(ev.Tool)
		out.Tool.Input = value
		out.Tool.Derive()
	case FieldOutput:
		out.Tool = clone(ev.Tool)
		out.Tool.Output = value
	case FieldNext:
		out.Tool = clone(ev.Tool)
		out.Tool.Next = value
	case FieldMessage:
		out.Message = clone(ev.Message)
		out.Message.Raw = value
	case FieldText:
		out.Message = clone(ev.Message)
		err = decode(value, &out.Message.Content)
	case FieldSummary:
		out.Compact = clone(ev.Compact)
		err = decode(value, &out.Compact.Summary)
	case FieldClear:
		out.Stop = clone(ev.Stop)
		err = decode(value, &out.Stop.ClearMemory)
	case FieldAnswer:
		out.Elicitation = clone(ev.Elicitation)
		out.Elicitation.Answer = value
	case FieldCommand, FieldPath, FieldURL, FieldContent:
		return ev.setView(f, value)
	default:
		return nil, fmt.Errorf("set %s: unknown field", f)
	}
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", f, err)
	}
	return &out, nil
}

// setView changes tool.input at the place that the Facts list for f. It returns an error unless
// there is exactly one such place.
func (ev *Event) setView(f Field, value json.RawMessage) (*Event, error) {
	if _, ok := rawString(value); !ok {
		return nil, fmt.Errorf("set %s: want a JSON string", f)
	}
	at, places := "", 0
	for _, fact := range ev.Tool.Facts {
		if fact.Field != f {
			continue
		}
		n := len(rawFind(ev.Tool.Input, fact.At))
		if n > 0 && fact.Form != "" {
			return nil, fmt.Errorf("set %s: tool %s has this field inside of a %s, where it is read-only", f, ev.Tool.Name, fact.Form)
		}
		if n > 0 {
			at, places = fact.At, places+n
		}
	}
	if places != 1 {
		return nil, fmt.Errorf("set %s: tool %s has %d places for this field, want exactly one", f, ev.Tool.Name, places)
	}
	input, err := rawReplace(ev.Tool.Input, at, value)
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", f, err)
	}
	return ev.Set(FieldInput, input)
}

// Value returns a field as encoding/json decodes it into an any.
func (ev *Event) Value(f Field) (any, bool) {
	raw, ok := ev.Get(f)
	if !ok {
		return nil, false
	}
	return rawjson.Decode(raw), true
}

// TextFields lists the fields of the event that hold text, in a fixed order.
func (ev *Event) TextFields() []Field {
	var fields []Field
	for _, f := range []Field{FieldPrompt, FieldSystem, FieldInput, FieldOutput, FieldText, FieldMessage, FieldRequest, FieldResponse, FieldSummary, FieldAnswer} {
		if f == FieldRequest && ev.Kind == ModelAfter {
			continue // hooks have already seen it on model.before, and it repeats the whole conversation
		}
		if _, ok := ev.Get(f); ok {
			fields = append(fields, f)
		}
	}
	return fields
}

// Texts yields every decoded string inside a field, except object keys.
func (ev *Event) Texts(f Field, yield func(string) bool) {
	if raw, ok := ev.Get(f); ok {
		rawStrings(raw, yield)
	}
}

// MapText passes every decoded string inside a field through change. It returns the JSON, with no
// other byte changed, and whether any string did.
func (ev *Event) MapText(f Field, change func(string) string) (json.RawMessage, bool) {
	raw, ok := ev.Get(f)
	if !ok {
		return nil, false
	}
	return rawMapStrings(raw, change)
}

// Changed lists the fields whose values differ from those in another version of the event, in
// order of name. It only compares fields that the Contract lets hooks change, and compares them
// as JSON values.
func (ev *Event) Changed(since *Event) []Field {
	return changedFields(since, ev, ev.contract().Changes)
}

// changedFields lists the fields among the given changes whose values differ between two versions
// of one event, in order of name. It compares them as JSON values.
func changedFields(before, after *Event, among []Change) []Field {
	if before == after {
		return nil
	}
	var fields []Field
	for _, c := range among {
		a, okA := before.Get(c.Field)
		b, okB := after.Get(c.Field)
		if okA != okB || okA && !rawjson.Equal(a, b) {
			fields = append(fields, c.Field)
		}
	}
	slices.Sort(fields)
	return fields
}

func clone[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	c := *p
	return &c
}
