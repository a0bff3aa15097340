// Package dialect speaks the languages of AI agents. Each [Dialect] has two sides:
// toward the agent it reads an event and writes a verdict, toward a hook it writes
// an event and reads an outcome. All of it is pure: bytes in, bytes out.
//
// Most callers need one function, [Answer]: it reads what an agent wrote, fires the
// engine, and returns the bytes and the exit code that the agent shall get.
//
//	d, _ := dialect.FindAgent("claude-code")
//	reply := dialect.Answer(ctx, engine, d, dialect.Input{Payload: stdin})
//
// A dialect is a file: a table of events, a table of tools, four functions. The
// package starts nothing, opens nothing and knows no policy.
package dialect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
)

// MaxPayload is the size in bytes of the largest event that is read: 32 MiB. A bigger
// one counts as unreadable: the guards that would have judged it fail, and are seen to.
const MaxPayload = 32 << 20

// DefaultBudget is how long the hooks of one event may take together. It lies
// below the 60 seconds after which agents are told to give up.
const DefaultBudget = 55 * time.Second

// A Dialect is one agent's language. One that only hook programs speak has no
// ReadEvent and no WriteVerdict, and cannot be given to [Answer].
type Dialect struct {
	Name    string   // the agent's id: claude-code, gemini-cli, ...
	Title   string   // as its makers write it
	Aliases []string // short forms for the command line
	Events  []EventRow
	Tools   []ToolRow // a tool that is not among them is of class other or mcp, and some members of its input are taken at their word

	// MCP is how the agent spells the tools of MCP servers: a text with {server} and
	// {tool} in it; empty = mcp__{server}__{tool}.
	MCP string

	// NamedAt is the member of a payload that names its event; empty = hook_event_name.
	// Unnamed tells the event of a payload without it, where that is certain; nil = nobody
	// can.
	NamedAt string
	Unnamed func(top map[string]json.RawMessage) string

	// In pairs members of every payload with places in an Event, as EventRow.In does for
	// one event.
	In string

	// Void is what an agent gets to read when there is nothing to tell it; usually nothing.
	Void string

	// ExitBlocks: the agent takes every exit code but 0 for a block.
	ExitBlocks bool

	// Twice is not nil where the agent may tell of one action twice, by several of its
	// events or through the hook files of another agent that it loads. It says in which of
	// its ways the agent tells of this one.
	Twice func(top map[string]json.RawMessage) (way string)

	// Blind is the answer, as EventRow.Out, to an event whose name could not be read.
	Blind string

	// Exits are exit codes of hook programs that mean more than 0, 2 and a failure, as
	// conditions of EventRow.Out: "49=halt".
	Exits string

	// Adapt corrects an event that was read by the tables; nil = nothing to correct.
	Adapt func(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error

	// Finish corrects what is written of a Verdict by the tables: it is called with the
	// answer as it would be written. nil = nothing to correct.
	Finish func(row *EventRow, ev *grapnel.Event, t *told, out *members)

	// Speaks reports whether a payload is certainly of this agent: for files that
	// several agents load.
	Speaks func(top map[string]json.RawMessage) bool

	// ReadEvent reads what the agent wrote. row is nil for an event that the table
	// does not know. A member of a wrong type is an error only where a guard would be
	// blind without it; others are ignored, and stay in Native.
	ReadEvent func(row *EventRow, top map[string]json.RawMessage, in Input) (*grapnel.Event, error)

	// WriteVerdict writes what the agent shall be told: nothing at all when the verdict
	// says nothing, and never more than ev.Can permits. row is nil for an event that
	// the table does not know, and ev.Kind empty for one that could not be read.
	WriteVerdict func(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) Reply

	// WriteEvent writes an event for a hook program that speaks this language; nil =
	// there is no such thing. No byte at all is the event of a program that reads none.
	WriteEvent func(ev *grapnel.Event) ([]byte, error)

	// ReadOutcome reads what such a program answered to ev. The event is the one that
	// was given to WriteEvent, not its translation.
	ReadOutcome func(ev *grapnel.Event, out Output) (grapnel.Outcome, error)

	// HookEnv returns the variables, NAME=value, that such a program expects beside
	// the event; nil = none.
	HookEnv func(ev *grapnel.Event) []string

	once bool // see IsOnce

	// OnError is what a failure of such a program counts as when its policy does not
	// say; the zero value is what any program's counts as.
	OnError grapnel.OnError
}

// ErrNoSuchEvent is why WriteEvent cannot write an event: the agent whose language
// it writes never tells its hooks of such a thing.
var ErrNoSuchEvent error = noSuchEvent{}

// noSuchEvent is a type, for a variable that a call initialises would make the compiler
// initialise all tables of this package at each start.
type noSuchEvent struct{}

func (noSuchEvent) Error() string { return "no such event" }

// EventRow is one event of an agent: its name there, what it is, and what the
// agent can be told about it.
type EventRow struct {
	Native   string
	Wire     string // how payloads name it, where that is otherwise
	Kind     grapnel.Kind
	Failed   grapnel.Kind      // what it is instead when the tool failed; empty = that is another event
	Can      grapnel.Can       // of a row with Out: what that has words for, and Merges and Members
	Contract *grapnel.Contract // for native.* kinds that are more than observed

	// In pairs members of the payload with places in the Event, "prompt=prompt.text
	// session_id=session.id": table.go says which there are. Out pairs places in the answer
	// with what is written there.
	In, Out string

	Install bool // part of the default set that install writes
	Never   bool // not even when a policy listens to it
	Closed  bool // a guard stands here: asked to block on failure, where the person wants that and the agent can

	Why    string        // why Install is false
	Since  string        // first version that knows the event; empty = not before Setup.StrictBefore
	Wait   time.Duration // the agent waits no longer for a hook; 0 = as long as its entry says
	Budget time.Duration // how long all hooks together may take; 0 = DefaultBudget
}

// ToolRow is one tool of an agent.
type ToolRow struct {
	Native string
	Class  grapnel.Class
	Facts  []grapnel.Fact

	// Like is what Claude Code calls the tool that does the same; empty = it has none,
	// or calls it Native too. Tools of two agents that are like the same one are
	// translated into each other.
	Like string

	// Members pairs names of further members of the input with those of the tool that
	// this one is like; Facts pair the others.
	Members [][2]string

	// As is the tool by which the agent's hooks are told of such a call of another agent;
	// empty = this one.
	As string

	// Takes are those members that the agent lets a hook change; nil = as Can of the event
	// says.
	Takes []string
}

// Input is what an agent wrote to the hook program.
type Input struct {
	Payload []byte
	Event   string // the event's native name where the command line gives it; empty = the payload does
	Err     error  // the payload could not be read to its end
}

// Reply is what the agent gets.
type Reply struct {
	Stdout []byte
	Stderr []byte
	Exit   int
	Silent bool // nothing may be added to stderr: the agent takes any output for an answer
}

// Output is what a hook program answered.
type Output struct {
	Exit   int // -1 = it was ended by a signal
	Stdout []byte
	Stderr []byte
}

// dialects lists every language of an agent; see [All].
var dialects []*Dialect

func init() { // the functions of a dialect look others up here
	dialects = []*Dialect{
		claudeCode,
		geminiCLI,
		codex,
		qwenCode,
		factoryDroid,
		openClaw,
		openCode,
		copilot,
		cursor,
		crush,
		cline,
		windsurf,
		kiroCLI, kiro,
		plain,
	}
	for _, d := range dialects {
		d.tabled()
	}
}

// hookOnly lists the languages that only hook programs speak.
var hookOnly = []*Dialect{flyto, miniclaw}

// Find returns the dialect with this name or alias, of those that only hooks speak
// too. It is the caller's.
func Find(name string) (*Dialect, bool) {
	return find(slices.Concat(dialects, hookOnly), name)
}

// FindAgent is Find among the languages of agents.
func FindAgent(name string) (*Dialect, bool) { return find(dialects, name) }

func find(dialects []*Dialect, name string) (*Dialect, bool) {
	d := lookup(dialects, name)
	if d == nil {
		return nil, false
	}
	return d.clone(), true
}

func lookup(dialects []*Dialect, name string) *Dialect {
	for _, d := range dialects {
		if d.Name == name || slices.Contains(d.Aliases, name) {
			return d
		}
	}
	return nil
}

// FullName returns the name of the dialect with this name or alias, as [Find] finds it,
// without a copy of its tables.
func FullName(name string) (string, bool) {
	d := lookup(dialects, name)
	if d == nil {
		d = lookup(hookOnly, name)
	}
	if d == nil {
		return "", false
	}
	return d.Name, true
}

// Names lists the names of all agents' dialects.
func Names() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.Name
	}
	return names
}

// Detect returns the dialect that a payload is certainly written in, or nil. It is the
// caller's. A
// payload that is cut off or otherwise broken is judged by what can be read of it.
func Detect(payload []byte) *Dialect {
	if d := detect(payload); d != nil {
		return d.clone()
	}
	return nil
}

// DetectName returns the name of the dialect that [Detect] returns, or "".
func DetectName(payload []byte) string {
	if d := detect(payload); d != nil {
		return d.Name
	}
	return ""
}

func detect(payload []byte) *Dialect {
	top := split(payload)
	for _, d := range dialects {
		if d.Speaks != nil && d.Speaks(top) {
			return d
		}
	}
	return nil
}

// Kinds returns what a name in a policy stands for: a canonical event, or a dialect's
// own name of one or two events. Where several dialects have the name it means what
// the first of the list means by it; what is native there is meant in each that has a
// native event of this name. It is nil for a name nobody knows.
func Kinds(name string) []grapnel.Kind {
	if grapnel.Kind(name).Known() || grapnel.Kind(name).Native() {
		return []grapnel.Kind{grapnel.Kind(name)}
	}
	var kinds []grapnel.Kind
	for _, d := range slices.Concat(dialects, hookOnly) {
		row := d.Row(name)
		if row == nil || kinds != nil && !(kinds[0].Native() && row.Kind.Native()) {
			continue
		}
		kinds = append(kinds, row.Kind)
		if row.Failed != "" {
			kinds = append(kinds, row.Failed)
		}
	}
	return kinds
}

// Row returns the row of a native event name, or nil.
func (d *Dialect) Row(native string) *EventRow { return rowNamed(d.Events, native) }

func rowNamed(rows []EventRow, native string) *EventRow {
	for i := range rows {
		if native != "" && (rows[i].Native == native || rows[i].Wire == native) {
			return &rows[i]
		}
	}
	return nil
}

// namedIn returns the name of the event that a payload gives, or "".
func (d *Dialect) namedIn(top map[string]json.RawMessage) string {
	name := text(top[cmp.Or(d.NamedAt, "hook_event_name")])
	if name == "" && d.Unnamed != nil {
		name = d.Unnamed(top)
	}
	return name
}

// Read turns what an agent wrote into an Event. The error says what is wrong with
// the payload; the Event then holds what could still be made out.
func (d *Dialect) Read(in Input) (*grapnel.Event, error) {
	ev, _, err := d.read(in)
	return ev, err
}

// top splits the payload.
func (in Input) top() (map[string]json.RawMessage, error) {
	switch {
	case in.Err != nil:
		return nil, in.Err
	case len(in.Payload) > MaxPayload:
		return nil, fmt.Errorf("the payload has %d bytes, more than %d", len(in.Payload), MaxPayload)
	}
	return topLevel(in.Payload)
}

func (d *Dialect) read(in Input) (*grapnel.Event, *EventRow, error) {
	top, err := in.top()
	if err != nil {
		top = split(in.Payload)
	}
	native := in.Event
	if native == "" {
		native = d.namedIn(top)
	}
	if err == nil && native == "" && d.Events != nil {
		err = fmt.Errorf("the payload does not name its event (%s)", cmp.Or(d.NamedAt, "hook_event_name"))
	}
	row := d.Row(native)

	var ev *grapnel.Event
	if err == nil {
		ev, err = d.ReadEvent(row, top, in)
	}
	if err == nil && row != nil && (row.Kind == grapnel.ToolBefore || row.Kind == grapnel.PermissionBefore) {
		err = judgeable(ev.Tool)
	}
	if err != nil && d.Events == nil {
		ev = salvagePlain(top, in)
	} else if err != nil {
		ev = &grapnel.Event{Session: grapnel.Session{ID: text(top["session_id"]), CWD: text(top["cwd"])}}
	} else if ev.Native == nil {
		ev.Native = trim(in.Payload)
	}
	if ev.Agent.Name == "" {
		ev.Agent.Name = d.Name
	}
	switch {
	case row != nil:
		if ev.Kind == "" {
			ev.Kind = row.Kind
		}
		if ev.Can == nil {
			ev.Can = cloneCan(row.can())
		}
		if t := ev.Tool; t != nil && t.MCP == nil {
			if tool := toolNamed(d.Tools, t.Name); tool != nil && tool.Takes != nil {
				can := *ev.Can
				can.Members = slices.Clone(tool.Takes)
				ev.Can = &can
			}
		}
		ev.Contract = cloneContract(row.Contract)
		ev.Budget = row.Budget
	case d.Events != nil && native != "":
		// An event of a newer agent is observed. Nobody knows what it makes of an
		// answer, so it gets none.
		ev.Kind = grapnel.Kind(grapnel.NativePrefix + d.Name + "." + native)
		ev.Can = &grapnel.Can{}
	}
	if ev.Budget == 0 {
		ev.Budget = DefaultBudget
	}
	if err != nil {
		err = fmt.Errorf("cannot read the event of %s: %w", d.Name, err)
	}
	return ev, row, err
}

// Write turns a Verdict into what the agent gets. native is the event's name on
// the command line, if it was given there.
func (d *Dialect) Write(ev *grapnel.Event, v *grapnel.Verdict, native string) Reply {
	row := d.Row(native)
	if row == nil {
		row = d.rowOf(ev)
	}
	return d.WriteVerdict(row, ev, v)
}

// rowOf finds the row of an event that was read before; events that share a kind
// are told apart by the payload.
func (d *Dialect) rowOf(ev *grapnel.Event) *EventRow {
	if row := d.Row(d.namedIn(split(ev.Native))); row != nil {
		return row
	}
	for i := range d.Events {
		if ev.Kind != "" && (d.Events[i].Kind == ev.Kind || d.Events[i].Failed == ev.Kind) {
			return &d.Events[i]
		}
	}
	return nil
}

// Answer reads an event, fires it, and writes the reply. An event that cannot be
// read counts as a failure of every hook that listens to it: on_error decides, and
// the reply is never an allow.
//
// What went wrong is also written to stderr, where that does no harm: never beside
// a reply that uses stderr itself, and never for an event to which the agent takes
// any output at all as an answer. Where nothing else is said the exit code is 1,
// which agents show as a warning; 2 would block.
//
// Hooks have a time budget below the timeout that install writes for the agent, so
// that it is Grapnel that answers and not the agent's killer. Steps that have not
// started when it is spent are errors of their hooks.
func Answer(ctx context.Context, engine *grapnel.Engine, d *Dialect, in Input) Reply {
	return Receive(d, in).Answer(ctx, engine)
}

// Received is what an agent wrote, read once. It is the first half of [Answer], for
// programs that choose their engine by the event.
type Received struct {
	Event *grapnel.Event // what could be made out of it; never nil
	Err   error          // why it could not be read; nil = it could

	dialect *Dialect
	row     *EventRow
	way     string
	twice   bool
}

// Way says in which of its ways the agent tells of the event, and whether it may tell
// of one action in several; see [Dialect].
func (r Received) Way() (way string, twice bool) { return r.way, r.twice }

// Row returns the row of the event, nil for one that the dialect does not know.
func (r Received) Row() *EventRow { return r.row }

// Receive reads what an agent wrote.
func Receive(d *Dialect, in Input) Received {
	ev, row, err := d.read(in)
	r := Received{Event: ev, Err: err, dialect: d, row: row}
	if d.Twice != nil && err == nil {
		r.way, r.twice = d.Twice(split(in.Payload)), true
	}
	return r
}

// ReceiveAs reads what an agent wrote of an event of a known kind, also where its
// payloads do not name their event.
func ReceiveAs(d *Dialect, payload []byte, kind grapnel.Kind) Received {
	got := Receive(d, Input{Payload: payload})
	for i := range d.Events {
		if got.Err == nil && got.Event.Kind == kind {
			break
		}
		if row := &d.Events[i]; row.Kind == kind || row.Failed == kind {
			got = Receive(d, Input{Payload: payload, Event: row.Native})
		}
	}
	return got
}

// Answer is the second half of the function [Answer].
func (r Received) Answer(ctx context.Context, engine *grapnel.Engine) Reply {
	silent := r.row != nil && !r.row.can().Message
	if r.Err == nil {
		v := engine.Fire(ctx, r.Event)
		reply := r.dialect.WriteVerdict(r.row, r.Event, &v)
		reply.Silent = silent || reply.Exit != 0
		return reply
	}
	v := engine.Fail(ctx, r.Event, r.Err)
	reply := r.dialect.WriteVerdict(r.row, r.Event, &v)
	reply.Silent = silent || len(reply.Stderr) > 0
	if reply.Silent {
		return reply
	}
	reply.Stderr = fmt.Appendf(nil, "grapnel: error: %v\n", r.Err)
	if len(reply.Stdout) == 0 && !r.dialect.ExitBlocks {
		reply.Exit = 1
	}
	return reply
}

// say makes the reply of an agent that reads JSON from stdout; nothing to say is
// no byte at all.
func say(wire any) Reply {
	if reflect.ValueOf(wire).IsZero() {
		return Reply{}
	}
	stdout, err := encode(wire)
	if err != nil { // every part of a Verdict was valid JSON when it was merged
		return Reply{Exit: 2, Stderr: fmt.Appendf(nil, "grapnel: cannot write the answer: %v\n", err)}
	}
	return Reply{Stdout: stdout}
}

// told is a Verdict reduced to what the agent can be told about one event, and to
// the words in which all agents are told it.
type told struct {
	can     grapnel.Can
	block   bool
	ask     bool
	allow   bool
	reason  string // never blank beside block
	halt    string // non-empty: end the turn
	context string
	message string
	changes map[grapnel.Field]json.RawMessage
}

// tell reduces a Verdict. Merging has done so before; this is the last place where
// a Verdict that came another way could say more than its event permits.
func tell(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) told {
	t := told{can: *row.can(), reason: v.Reason(), changes: v.Changes}
	if ev.Can != nil {
		t.can = *ev.Can
	}
	t.block = v.Decision == grapnel.Block && t.can.Block
	t.ask = v.Decision == grapnel.Ask && t.can.Ask
	t.allow = v.Decision == grapnel.Allow && t.can.Allow
	if t.can.Halt {
		t.halt = v.Halt
	}
	if t.can.Context {
		t.context = strings.Join(v.Context, "\n")
	}
	if t.can.Message {
		t.message = strings.Join(v.Messages, "\n")
	}
	contract := row.Contract
	if contract == nil {
		contract = contractOf(row.Kind)
	}
	if v.Halt != "" && contract != nil {
		switch contract.Blocks {
		case grapnel.BlockAction: // an agent that shall stop would still finish the action
			t.block, t.ask, t.allow = t.can.Block, false, false
		case grapnel.BlockStop: // "do not stop yet" would win
			t.block = t.block && t.halt == ""
		case grapnel.BlockNothing, grapnel.BlockFeedback:
		}
	}
	if t.block && strings.TrimSpace(t.reason) == "" {
		t.reason = cmp.Or(strings.TrimSpace(v.Halt), "blocked by grapnel")
	}
	return t
}

// change returns the new value of a field, if the agent can be told to change it.
func (t *told) change(f grapnel.Field) json.RawMessage {
	if !slices.Contains(t.can.Change, f) {
		return nil
	}
	return t.changes[f]
}

// warn adds a line for the person.
func (t *told) warn(line string) {
	if t.message != "" {
		t.message += "\n"
	}
	t.message += line
}

// member returns a part of the Verdict's Native that is meant for one agent, or nil
// when there is none or it is not a T: most agents ignore an answer as a whole, a
// block included, when one member has the wrong type.
func member[T any](v *grapnel.Verdict, agent, name string) *T {
	raw, ok := v.Native[agent+"."+name]
	if !ok {
		return nil
	}
	var value *T
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value
}

// no is what continue is set to in order to end a turn.
var no = new(bool)
