package policytest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/txtar"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/dialect"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
	"github.com/grapnel-dev/grapnel/internal/sample"
	"github.com/grapnel-dev/grapnel/internal/seam"
	"github.com/grapnel-dev/grapnel/internal/wording"
)

// String returns a short description of the event. It is the name of a test without a name.
func (e *Event) String() string {
	ev, _, err := e.base(recordedProject, 1)
	if err != nil {
		return strings.Join([]string{cmp.Or(e.Agent, "an event"), named(e.Payload, "hook_event_name", "kind"), named(e.Payload, "tool_name")}, " ")
	}
	var words []string
	add := func(texts ...string) {
		for _, text := range texts {
			if text = wording.Shorten(inWords(text), 80); text != "" {
				words = append(words, text)
			}
		}
	}
	t := ev.Tool
	switch {
	case ev.Kind == grapnel.PromptBefore && ev.Prompt != nil:
		add("prompt:", ev.Prompt.Text)
	case t == nil:
		add(string(ev.Kind))
	case len(t.Commands) > 0:
		add(cmp.Or(inWords(t.Commands[0]), "an empty command"))
	default:
		name := string(t.Class)
		if t.Class == "" || t.Class == grapnel.ClassOther || t.Class == grapnel.ClassMCP {
			name = t.CanonicalName()
		}
		add(name)
		switch {
		case len(t.Paths) > 0:
			add(strings.TrimPrefix(t.Paths[0].Path, cmp.Or(ev.Session.CWD, recordedProject)+"/"))
		case len(t.URLs) > 0:
			add(t.URLs[0])
		default:
			add(string(t.Input))
		}
	}
	switch ev.Kind {
	case grapnel.ToolAfter:
		add("(done)")
	case grapnel.ToolFailed:
		add("(failed)")
	case grapnel.PermissionBefore, grapnel.PermissionDenied:
		add("(" + string(ev.Kind) + ")")
	default:
	}
	return strings.Join(words, " ")
}

// defaultName returns the name of a test without a name.
func (t *Test) defaultName() string {
	parts := []string{t.Event.String()}
	later := t.Event.Later
	for i := range slices.Backward(t.Before) {
		after := "after " + t.Before[i].String()
		if later > 0 {
			after = later.String() + " " + after
		}
		parts = append(parts, after)
		later = t.Before[i].Later
	}
	return strings.Join(parts, ", ")
}

// named returns the first of the given members of an object that is a text.
func named(object json.RawMessage, members ...string) string {
	var top map[string]json.RawMessage
	_ = json.Unmarshal(object, &top)
	for _, member := range members {
		text := ""
		if json.Unmarshal(top[member], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// wrong is an error in an event, with a hint.
type wrong struct{ msg, hint string }

// classTools maps a class to the Claude Code tool that represents it.
var classTools = map[grapnel.Class]string{
	grapnel.ClassShell: "Bash", grapnel.ClassRead: "Read", grapnel.ClassWrite: "Write", grapnel.ClassEdit: "Edit",
	grapnel.ClassSearch: "Grep", grapnel.ClassFetch: "WebFetch", grapnel.ClassTask: "Agent",
}

// usualInput holds default arguments of these tools, for arguments that a test omits.
var usualInput = map[string]sample.Object{
	"Write": {"content": ""}, "Edit": {"old_string": "", "new_string": ""}, "Grep": {"pattern": "."},
	"WebFetch": {"prompt": "What does it say?"}, "Agent": {"description": "help", "prompt": "Help."},
}

// call returns the tool call in Claude Code's format.
func (e *Event) call() (name string, input sample.Object, err *wrong) {
	if name, err = e.toolName(); err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(claudeCode().Tools, func(r dialect.ToolRow) bool { return r.Native == name })
	if i < 0 && !strings.HasPrefix(name, "mcp__") && e.Input == nil {
		return "", nil, unknownTool(name)
	}
	input = sample.Object{}
	maps.Copy(input, usualInput[name])
	if e.Input != nil {
		members := map[string]json.RawMessage{}
		if json.Unmarshal(e.Input, &members) != nil {
			return "", nil, &wrong{"input is not a mapping", ""}
		}
		for member, value := range members {
			input[member] = value
		}
	}
	for _, part := range e.parts() {
		if *part.text == nil {
			continue
		}
		member := ""
		for _, fact := range factsOf(i) {
			if at := strings.TrimPrefix(fact.At, "/"); fact.Field == part.field && !strings.Contains(at, "/") {
				member = at
			}
		}
		if member == "" {
			return "", nil, &wrong{fmt.Sprintf("the tool %s has no %s", name, part.name), "write its input as `input: {...}`"}
		}
		input[member] = **part.text
	}
	return name, input, nil
}

func factsOf(row int) []grapnel.Fact {
	if row < 0 {
		return nil
	}
	return claudeCode().Tools[row].Facts
}

// A part is an argument of a tool call that tests write without `input:`.
type part struct {
	name  string
	field grapnel.Field
	text  **string
}

func (e *Event) parts() []part {
	return []part{
		{"command", grapnel.FieldCommand, &e.Command},
		{"path", grapnel.FieldPath, &e.Path},
		{"url", grapnel.FieldURL, &e.URL},
		{"content", grapnel.FieldContent, &e.Content},
	}
}

// toolName returns the name of the tool; a class gives the tool that represents it.
func (e *Event) toolName() (string, *wrong) {
	name := e.Tool
	switch {
	case name != "":
	case e.Command != nil:
		name = string(grapnel.ClassShell)
	case e.URL != nil:
		name = string(grapnel.ClassFetch)
	default:
		return "", &wrong{"the test does not name the tool", "for example `tool: write`"}
	}
	if !slices.Contains(seam.Classes(), name) {
		return name, nil
	}
	tool, ok := classTools[grapnel.Class(name)]
	if !ok {
		return "", &wrong{fmt.Sprintf("the class %s has many tools", name), "write the name of one tool, for a tool of a server: mcp__server__tool"}
	}
	return tool, nil
}

func unknownTool(name string) *wrong {
	known := []string{}
	for _, row := range claudeCode().Tools {
		known = append(known, row.Native)
	}
	for class := range classTools {
		known = append(known, string(class))
	}
	slices.Sort(known)
	hint := cmp.Or(didYouMean(name, known), "write a class (shell, read, write, ...) or the name of a tool of Claude Code; for another tool, add `input:`")
	return &wrong{fmt.Sprintf("unknown tool %q", name), hint}
}

// kind returns the kind of an event of the plain dialect.
func (e *Event) kind() grapnel.Kind { return grapnel.Kind(named(e.Plain, "kind")) }

// payloadDialect returns the dialect of a payload.
func (e *Event) payloadDialect() *dialect.Dialect {
	if d, ok := dialect.FindAgent(e.Agent); ok {
		return d
	}
	if d := dialect.Detect(e.Payload); d != nil {
		return d
	}
	return claudeCode()
}

// usual returns the agent of a test without agents: Claude Code, or, if it does not have this
// event, an agent that does.
func (e *Event) usual() string {
	if e.Plain != nil {
		ev, err := sample.Event("", e.kind())
		if err == nil && ev.Agent.Name != claudeCode().Name {
			if d, ok := dialect.FindAgent(ev.Agent.Name); ok {
				return d.Name
			}
			return dialect.Plain().Name
		}
	}
	return claudeCode().Name
}

// recorded reads the payload in a file: the payload of an agent, a golden conversation (.txtar),
// or a Record.
func (e *Event) recorded(name string, data []byte) error {
	if filepath.Ext(name) == ".txtar" {
		for _, f := range txtar.Parse(data).Files {
			switch f.Name {
			case "stdin.json":
				e.Payload = bytes.TrimSpace(f.Data)
			case "argv":
				e.Native = strings.TrimSpace(string(f.Data))
			}
		}
		if e.Payload == nil {
			return errors.New("the conversation has no stdin.json")
		}
		if d, ok := dialect.FindAgent(filepath.Base(filepath.Dir(name))); ok && e.Agent == "" {
			e.Agent = d.Name
		}
		return nil
	}
	e.Payload = bytes.TrimSpace(data)
	if !json.Valid(e.Payload) {
		return errors.New("it is not valid JSON")
	}
	var rec struct {
		Agent string          `json:"agent"`
		Event grapnel.Kind    `json:"event"`
		Hooks json.RawMessage `json:"hooks"`
		Input json.RawMessage `json:"input"`
	}
	if isRecord := json.Unmarshal(data, &rec) == nil && rec.Event != "" && rec.Hooks != nil; !isRecord {
		return nil
	}
	if rec.Input == nil {
		return errors.New("the record contains no event: `records: metadata` does not store events")
	}
	var input struct {
		Native json.RawMessage `json:"native"`
	}
	if _ = json.Unmarshal(rec.Input, &input); input.Native != nil {
		e.Payload = input.Native
		if e.Agent == "" {
			e.Agent = rec.Agent
		}
		return nil
	}
	e.Payload, e.Agent = rec.Input, dialect.Plain().Name
	return nil
}

// reportedEvent is an event as an agent reports it.
type reportedEvent struct {
	dialect.Received
	dialect *dialect.Dialect
	native  string
}

// errUnsupported is the error for an event that an agent cannot express, or only in part.
var errUnsupported = errors.New("cannot express this event")

// report converts the event to the format of an agent: it writes the event in the agent's dialect
// and reads it back, like grapnel-hook. dir is the agent's working directory, and n distinguishes
// the calls of one test. It returns an error if the agent cannot express the event, or only a
// part of it.
func (e *Event) report(d *dialect.Dialect, dir string, n int) (reportedEvent, error) {
	ev, by, err := e.base(dir, n)
	if err != nil {
		return reportedEvent{}, err
	}
	t := reportedEvent{dialect: d, native: e.Native}
	payload := []byte(ev.Native)
	if d.Name != by.Name {
		t.native = ""
		if payload, err = d.WriteEvent(ev); err != nil {
			return reportedEvent{}, fmt.Errorf("%s %w: %w", d.Name, errUnsupported, err)
		}
	}
	in := dialect.Input{Payload: payload, Event: t.native}
	t.Received = dialect.Receive(d, in)
	if t.Row() == nil && t.native == "" && len(d.Events) > 0 && d.Name != by.Name { // this agent passes the event name on the command line
		i := slices.IndexFunc(d.Events, func(r dialect.EventRow) bool { return r.Kind == ev.Kind || r.Failed == ev.Kind })
		if i >= 0 {
			t.native = d.Events[i].Native
			in.Event = t.native
			t.Received = dialect.Receive(d, in)
		}
	}
	if t.Err != nil {
		return reportedEvent{}, t.Err
	}
	at := &t.Event.Session
	if at.CWD == "" {
		at.CWD = dir
	}
	if at.Root == "" {
		at.Root = ProjectRoot(at.CWD)
	}
	if d.Name != by.Name {
		if unsupported := missing(ev, t.Event); unsupported != "" {
			return reportedEvent{}, fmt.Errorf("%s %w: in its format, %s", d.Name, errUnsupported, unsupported)
		}
	}
	return t, nil
}

// Received returns the event as grapnel-hook would receive it from an agent that works in dir. It
// returns an error if the agent cannot express the event, or only a part of it.
func (e *Event) Received(agent *dialect.Dialect, dir string) (dialect.Received, error) {
	t, err := e.report(agent, dir, 1)
	return t.Received, err
}

// Runs reports whether the event is a call of a shell with exactly this command line.
func (e *Event) Runs(command string) bool {
	if ev, _, err := e.base(recordedProject, 1); err == nil && ev.Tool != nil {
		return slices.Equal(ev.Tool.Commands, []string{command})
	}
	return false
}

// base returns the event in the dialect in which the test is written, with the payload as Native,
// and that dialect.
func (e *Event) base(dir string, n int) (*grapnel.Event, *dialect.Dialect, error) {
	with := sample.Object{}
	if e.Mode != "" {
		with["permission_mode"] = e.Mode
	}
	if e.Subagent != "" {
		with["agent_id"], with["agent_type"] = "a1", e.Subagent
	}
	switch {
	case e.Payload != nil:
		d := e.payloadDialect()
		ev, err := d.Read(dialect.Input{Payload: e.Payload, Event: e.Native})
		ev.Native = e.Payload
		return ev, d, err
	case e.Plain != nil:
		return e.made(dir)
	case e.Prompt != nil:
		with["prompt"] = *e.Prompt
		ev, err := sample.New(claudeCode(), "UserPromptSubmit", dir, with)
		return ev, claudeCode(), err
	}
	name, input, wrong := e.call()
	if wrong != nil {
		return nil, nil, errors.New(wrong.msg)
	}
	with["tool_name"], with["tool_input"], with["tool_use_id"] = name, input, fmt.Sprintf("toolu_%d", n)
	native := "PreToolUse"
	switch {
	case e.Error != nil:
		native, with["error"] = "PostToolUseFailure", *e.Error
	case e.Output != nil:
		native, with["tool_response"] = "PostToolUse", e.Output
		if name == classTools[grapnel.ClassShell] && e.Output[0] == '"' { // Claude Code's shell tool returns its output in this form
			with["tool_response"] = sample.Object{"stdout": e.Output, "stderr": "", "interrupted": false}
		}
	}
	ev, err := sample.New(claudeCode(), native, dir, with)
	return ev, claudeCode(), err
}

// made returns an event of the plain dialect, with sample values for everything the test omits.
func (e *Event) made(dir string) (*grapnel.Event, *dialect.Dialect, error) {
	ev, err := sample.Event(dir, e.kind())
	if err != nil {
		return nil, nil, fmt.Errorf("%w with sample values: write the payload of the agent as `payload:`", err)
	}
	by, ok := dialect.FindAgent(ev.Agent.Name)
	if !ok {
		by, ev.Agent.Name = dialect.Plain(), ""
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(e.Plain, &given); err != nil {
		return nil, nil, err
	}
	if len(given) == 1 && ok {
		return ev, by, nil
	}
	ev.Native = nil
	text, err := rawjson.Marshal(ev)
	if err != nil {
		return nil, nil, err
	}
	parts := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, nil, err
	}
	for part, value := range given {
		if part != "tool" { // sample values for one tool do not fit another
			value = laidOver(parts[part], value)
		}
		parts[part] = value
	}
	if text, err = rawjson.Marshal(parts); err != nil {
		return nil, nil, err
	}
	if ev, err = dialect.Plain().Read(dialect.Input{Payload: text}); err != nil {
		return nil, nil, err
	}
	ev.Native = nil
	if text, err = by.WriteEvent(ev); err != nil {
		return nil, nil, fmt.Errorf("%s cannot express this event: %w", by.Name, err)
	}
	ev, err = by.Read(dialect.Input{Payload: text})
	if err == nil {
		ev.Native = text
	}
	return ev, by, err
}

// laidOver returns the object under with the members of over added or replaced. If one of them is
// not an object, it returns over.
func laidOver(under, over json.RawMessage) json.RawMessage {
	var base, more map[string]json.RawMessage
	if json.Unmarshal(under, &base) != nil || json.Unmarshal(over, &more) != nil || base == nil || more == nil {
		return over
	}
	maps.Copy(base, more)
	text, err := rawjson.Marshal(base)
	if err != nil {
		return over
	}
	return text
}

// missing describes a value that rules can check and that is in was but not in is, or returns "".
// An agent may report more than the test gives.
func missing(was, is *grapnel.Event) string {
	if was.Kind != is.Kind {
		return fmt.Sprintf("it is %s instead of %s", is.Kind, was.Kind)
	}
	if was.Prompt != nil && (is.Prompt == nil || was.Prompt.Text != is.Prompt.Text) {
		return "the prompt differs"
	}
	if was.Tool == nil {
		return ""
	}
	tool := is.Tool
	if tool == nil {
		return "the tool call is missing"
	}
	paths := func(t *grapnel.Tool) []string {
		var list []string
		for _, p := range t.Paths {
			list = append(list, p.Path)
		}
		return list
	}
	for _, part := range []struct {
		name    string
		was, is []string
	}{
		{"command", was.Tool.Commands, tool.Commands},
		{"path", paths(was.Tool), paths(tool)},
		{"URL", was.Tool.URLs, tool.URLs},
		{"content", []string{was.Tool.Content}, []string{tool.Content}},
	} {
		if slices.ContainsFunc(part.was, func(text string) bool { return text != "" && !slices.Contains(part.is, text) }) {
			return fmt.Sprintf("the %s is %s instead of %s", part.name, listed(part.is), listed(part.was))
		}
	}
	if was.Tool.Output != nil && tool.Output == nil {
		return "the call has no output"
	}
	if was.Tool.Class != tool.Class && tool.Class == grapnel.ClassOther {
		return fmt.Sprintf("it does not know the tool %s and gives it the class %s instead of %s", tool.Name, tool.Class, was.Tool.Class)
	}
	return ""
}

func listed(texts []string) string {
	if len(texts) == 0 {
		return "nothing"
	}
	return sample.Short(fmt.Sprintf("%q", texts))
}

// claudeCode is copied only once, because tests read its tables often. This package does not
// change it.
var claudeCode = sync.OnceValue(dialect.ClaudeCode)
