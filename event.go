package grapnel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// A Kind names what is happening, as subject.moment: before can still be stopped
// or changed, after is done (or about to be declared done), anything else is a
// notice. Events of one agent that have no row in [Contracts] travel as
// native.<agent>.<Name>.
type Kind string

// The events. What each permits stands in [Contracts].
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

// NativePrefix begins the Kind of an event that only one agent has.
const NativePrefix = "native."

// Native reports whether k is an event that only one agent has.
func (k Kind) Native() bool { return strings.HasPrefix(string(k), NativePrefix) }

// Known reports whether k is an event that has a Contract; see [ContractOf].
func (k Kind) Known() bool { return contractOf(k) != nil }

// An Event is what is happening, in words that are the same for every agent.
// Which of the optional parts are there depends on the Kind. Hooks must not
// change an Event; they answer with an [Outcome].
type Event struct {
	ID           string          `json:"id,omitempty"` // unique per firing; filled by the engine when a Record or an IDReader needs it
	Kind         Kind            `json:"kind"`
	Time         time.Time       `json:"time,omitzero"`
	Agent        Agent           `json:"agent,omitzero"`
	Session      Session         `json:"session,omitzero"`
	Cause        string          `json:"cause,omitempty"` // why it happens: startup, resume, clear, manual, auto, an error class
	Tool         *Tool           `json:"tool,omitempty"`
	Calls        []Tool          `json:"calls,omitempty"` // toolbatch.after: all calls of one model answer
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
	Native       json.RawMessage `json:"native,omitempty"`   // the agent's own payload, unknown fields included
	Verdict      *Verdict        `json:"verdict,omitempty"`  // set for observers only: the final Verdict
	Contract     *Contract       `json:"contract,omitempty"` // native events only: what this one permits; nil = it is observed
	Can          *Can            `json:"can,omitempty"`      // what the agent can be told; nil = all that the Contract permits
	Budget       time.Duration   `json:"-"`                  // how long all steps together may take; 0 = as long as the context lasts
}

// Agent is who fired the event.
type Agent struct {
	Name    string `json:"name,omitempty"` // claude-code, gemini-cli, ...
	Version string `json:"version,omitempty"`
}

// Session is where and for whom the agent works.
type Session struct {
	ID         string    `json:"id,omitempty"`
	CWD        string    `json:"cwd,omitempty"`
	Root       string    `json:"root,omitempty"` // the project's root; empty = CWD
	Transcript string    `json:"transcript,omitempty"`
	Model      string    `json:"model,omitempty"`
	Mode       string    `json:"mode,omitempty"` // the agent's permission mode, in its own word
	Turn       string    `json:"turn,omitempty"`
	Subagent   *Subagent `json:"subagent,omitempty"`
	User       string    `json:"user,omitempty"`
	Channel    string    `json:"channel,omitempty"`
}

// Subagent is set while a sub-agent works.
type Subagent struct {
	ID         string `json:"id,omitempty"`
	Type       string `json:"type,omitempty"`
	Transcript string `json:"transcript,omitempty"`
}

// Class is what a tool does, whatever an agent calls it.
type Class string

// The classes of tools.
const (
	ClassShell  Class = "shell"
	ClassRead   Class = "read"
	ClassWrite  Class = "write"
	ClassEdit   Class = "edit"
	ClassSearch Class = "search"
	ClassFetch  Class = "fetch"
	ClassTask   Class = "task"
	ClassMCP    Class = "mcp"
	ClassOther  Class = "other"
)

// Classes returns every Class.
func Classes() []Class { return slices.Clone(classes) }

var classes = []Class{ClassShell, ClassRead, ClassWrite, ClassEdit, ClassSearch, ClassFetch, ClassTask, ClassMCP, ClassOther}

// Tool is one call of a tool. Input and Output are raw JSON as the agent sent it:
// key order and the spelling of numbers stay. Commands, Paths, URLs and Content
// are read from Input at the places that Facts names; [Tool.Derive] fills them.
type Tool struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"` // the agent's own name
	Class    Class           `json:"class,omitempty"`
	MCP      *MCP            `json:"mcp,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"` // a hook that sets it at tool.before answers in the place of the tool
	Failed   bool            `json:"failed,omitempty"`
	Next     json.RawMessage `json:"next,omitempty"` // answer at tool.after: a call to make next, {name, input}
	Facts    []Fact          `json:"facts,omitempty"`
	Commands []string        `json:"commands,omitempty"` // shell lines
	Paths    []Path          `json:"paths,omitempty"`
	URLs     []string        `json:"urls,omitempty"`
	Content  string          `json:"content,omitempty"` // the text that would be written
}

// MCP says which server a tool belongs to and what that server calls it.
type MCP struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
}

// CanonicalName is the tool's name, with MCP tools spelled mcp__server__tool
// whatever the agent's own spelling.
func (t *Tool) CanonicalName() string {
	if t.MCP == nil {
		return t.Name
	}
	return "mcp__" + t.MCP.Server + "__" + t.MCP.Tool
}

// Use is what a call does with a path.
type Use string

// The uses of a path.
const (
	UseRead  Use = "read"
	UseWrite Use = "write"
)

// Path is a path that a call names, as the agent wrote it.
type Path struct {
	Path string `json:"path"`
	Use  Use    `json:"use"`
}

// A Fact says where in a tool's input something neutral stands, so that a rule
// can read and set it without knowing the agent.
type Fact struct {
	Field Field  `json:"field"`         // tool.command, tool.path, tool.url, tool.content
	At    string `json:"at"`            // RFC 6901 pointer into Input; a * stands for every element of an array
	Use   Use    `json:"use,omitempty"` // of a path

	// Form is what the text there is when it is not the value itself: [FormPatch], of
	// paths. Such a view can be read and not set.
	Form string `json:"form,omitempty"`
}

// paths returns the paths in a text.
func (f *Fact) paths(text string) []string {
	if f.Form == FormPatch {
		return patchPaths(text)
	}
	return []string{text}
}

// Derive reads Commands, Paths, URLs and Content from Input.
func (t *Tool) Derive() {
	t.Commands, t.Paths, t.URLs, t.Content = nil, nil, nil, ""
	if len(t.Facts) == 0 {
		return
	}
	var content []string
	members, object := rawMembers(t.Input) // once: it may hold a file of megabytes
	for _, fact := range t.Facts {
		found := []json.RawMessage{t.Input}
		if fact.At != "" {
			found = findIn(members, object, fact.At)
		}
		for _, raw := range found {
			text, ok := rawString(raw)
			if !ok {
				continue
			}
			switch fact.Field {
			case FieldCommand:
				t.Commands = append(t.Commands, text)
			case FieldPath:
				for _, path := range fact.paths(text) {
					t.Paths = append(t.Paths, Path{Path: path, Use: fact.Use})
				}
			case FieldURL:
				t.URLs = append(t.URLs, text)
			case FieldContent:
				content = append(content, text)
			default: // a Fact says nothing about other fields
			}
		}
	}
	t.Content = strings.Join(content, "\n")
}

// Prompt is what the person (or a machine in their place) asks.
type Prompt struct {
	Text   string `json:"text"`
	System string `json:"system,omitempty"`
}

// Message is one message on its way in or out, or into the transcript.
type Message struct {
	ID      string          `json:"id,omitempty"`
	Role    string          `json:"role,omitempty"`
	Channel string          `json:"channel,omitempty"`
	Content string          `json:"content,omitempty"`
	Raw     json.RawMessage `json:"raw,omitempty"` // transcript.before: the message as it would be stored
}

// Model is one call of the model, as raw JSON in the agent's shape.
type Model struct {
	Request  json.RawMessage `json:"request,omitempty"`
	Response json.RawMessage `json:"response,omitempty"`
}

// Toolset is what the model may choose from.
type Toolset struct {
	Allowed []string `json:"allowed,omitempty"` // nil = all
	Mode    string   `json:"mode,omitempty"`    // auto, any, none
}

// Stop is the end of a turn.
type Stop struct {
	Active      bool   `json:"active,omitempty"` // the turn already went on because of a hook
	LastMessage string `json:"last_message,omitempty"`
	ClearMemory bool   `json:"clear_memory,omitempty"` // answer: forget the conversation before going on
}

// Compact is the shortening of a conversation.
type Compact struct {
	Instructions string `json:"instructions,omitempty"`
	Summary      string `json:"summary,omitempty"`
}

// Task is a piece of work that an agent tracks.
type Task struct {
	ID          string `json:"id,omitempty"`
	Subject     string `json:"subject,omitempty"`
	Description string `json:"description,omitempty"`
}

// Notification is what the agent tells the person.
type Notification struct {
	Type    string `json:"type,omitempty"`
	Title   string `json:"title,omitempty"`
	Message string `json:"message,omitempty"`
}

// Config is a change of the agent's own configuration.
type Config struct {
	Source string `json:"source,omitempty"`
	File   string `json:"file,omitempty"`
}

// Elicitation is a question that a tool server asks the person.
type Elicitation struct {
	Server  string          `json:"server,omitempty"`
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"` // {action, content}
}

// A Field is a part of an Event that hooks may change.
type Field string

// The fields. Which event permits which stands in [Contracts]. The last four are
// views of tool.input through its Facts: changing one changes the input.
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

	FieldCommand Field = "tool.command"
	FieldPath    Field = "tool.path"
	FieldURL     Field = "tool.url"
	FieldContent Field = "tool.content"
)

// view reports whether f is a view of tool.input.
func (f Field) view() bool {
	return f == FieldCommand || f == FieldPath || f == FieldURL || f == FieldContent
}

// stored is the field that a change of f is kept in.
func (f Field) stored() Field {
	if f.view() {
		return FieldInput
	}
	return f
}

// Get returns a field as JSON, and whether the event has it. A view of
// tool.input with several values gives the first.
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
			raw = encode(ev.Toolset.Allowed)
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

// get is Event.Get for the fields of a tool.
func (t *Tool) get(f Field) (json.RawMessage, bool) {
	switch f { //nolint:exhaustive // the others are no fields of a tool
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
			text, _ := rawString(found)
			for _, path := range fact.paths(text) {
				return rawjson.Quote(path), true
			}
		}
	}
	return nil, false
}

// Set returns a copy of the event with one field replaced, or an error when the
// value does not fit or the event has no place for it. The event itself stays; the
// copy shares the parts that did not change.
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
		out.Toolset.Allowed = nil // else the list of the event before is written to
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
		return nil, fmt.Errorf("set %s: no such field", f)
	}
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", f, err)
	}
	return &out, nil
}

// setView changes tool.input at the one place where the Facts say that f stands.
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
			return nil, fmt.Errorf("set %s: tool %s has it inside of a %s, where it can only be read", f, ev.Tool.Name, fact.Form)
		}
		if n > 0 {
			at, places = fact.At, places+n
		}
	}
	if places != 1 {
		return nil, fmt.Errorf("set %s: tool %s has %d places for it, want exactly one", f, ev.Tool.Name, places)
	}
	input, err := rawReplace(ev.Tool.Input, at, value)
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", f, err)
	}
	return ev.Set(FieldInput, input)
}

// Value returns a field decoded as encoding/json would decode it into an any, and
// whether the event has it.
func (ev *Event) Value(f Field) (any, bool) {
	raw, ok := ev.Get(f)
	if !ok {
		return nil, false
	}
	return rawDecode(raw), true
}

// TextFields lists the fields of this event that hold text for people or models,
// in a fixed order: what a rule over "any text" reads and rewrites.
func (ev *Event) TextFields() []Field {
	var fields []Field
	for _, f := range []Field{FieldPrompt, FieldSystem, FieldInput, FieldOutput, FieldText, FieldMessage, FieldRequest, FieldResponse, FieldSummary, FieldAnswer} {
		if f == FieldRequest && ev.Kind == ModelAfter {
			continue // it was looked at before the model was called, and repeats the whole conversation
		}
		if _, ok := ev.Get(f); ok {
			fields = append(fields, f)
		}
	}
	return fields
}

// Texts calls yield with every decoded string inside a field, object keys left
// out, until yield returns false.
func (ev *Event) Texts(f Field, yield func(string) bool) {
	if raw, ok := ev.Get(f); ok {
		rawStrings(raw, yield)
	}
}

// MapText returns the JSON of a field with every decoded string inside it passed
// through change, and whether any of them changed. Everything else keeps its bytes.
func (ev *Event) MapText(f Field, change func(string) string) (json.RawMessage, bool) {
	raw, ok := ev.Get(f)
	if !ok {
		return nil, false
	}
	return rawMapStrings(raw, change)
}

// Changed lists the fields, in order of name, of those that its Contract lets hooks
// change, whose values differ from those of another version of the event. Values are
// compared as JSON values.
func (ev *Event) Changed(since *Event) []Field {
	return changedFields(since, ev, ev.contract().Changes)
}

// changedFields lists the fields, in a fixed order, whose value differs between
// two versions of one event, compared as JSON values.
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
