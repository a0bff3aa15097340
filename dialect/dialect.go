// Package dialect reads and writes the hook protocols of AI agents. Each [Dialect] has two sides.
// Toward the agent it reads an event and writes a verdict. Toward a hook it writes an event and
// reads an outcome. All its functions are pure: bytes in, bytes out.
//
// Most callers need one function, [Answer]. It reads the agent's payload, fires the engine, and
// returns the reply: the bytes and the exit code for the agent.
//
//	d, _ := dialect.FindAgent("claude-code")
//	reply := dialect.Answer(ctx, engine, d, dialect.Input{Payload: stdin})
//
// Each dialect is one file with a table of events, a table of tools, the places of the agent's
// settings, and at most four functions. The package starts no process, opens no file and knows no
// policy.
//
// A function that returns a Dialect returns a copy: a caller can change it without affecting other
// callers. Compare dialects by their names.
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
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// MaxPayload is the maximum size of an event in bytes: 32 MiB. A larger payload is an error, so
// every hook that listens to the event fails and its OnError decides.
const MaxPayload = 32 << 20

// DefaultBudget is the time budget for all hooks of one event together. It is shorter than the 60
// seconds that install writes as the agent's timeout.
const DefaultBudget = 55 * time.Second

// A Dialect is the hook protocol of one agent. A dialect that only hook programs use has no
// ReadEvent and no WriteVerdict, and cannot be passed to [Answer].
type Dialect struct {
	Name    string   // the agent's id: claude-code, gemini-cli, ...
	Title   string   // the product name as its vendor writes it
	Aliases []string // short forms for the command line
	Events  []EventRow
	Tools   []ToolRow // an unlisted tool gets class other or mcp; for its facts see unknownFacts

	// MCP is the agent's spelling of MCP tool names, a template with {server} and {tool}; empty =
	// mcp__{server}__{tool}.
	MCP string

	// Folds lists places in inputs of an agent that is a Go program: its tools read a member in any
	// letter case, and hooks get it as it is spelled here; see [grapnel.Tool.FoldKeys]. nil = the
	// exact name counts.
	Folds []string

	// NamedAt is the payload member that holds the event name; empty = hook_event_name. Unnamed
	// returns the event name of a payload without that member, or "" when it is not certain; nil =
	// it is never certain.
	NamedAt string
	Unnamed func(top map[string]json.RawMessage) string

	// In maps members of every payload to fields of an Event, as EventRow.In does for one event.
	In string

	// Void is the stdout of an empty reply; usually empty. A row can have its own.
	Void string

	// ExitBlocks reports that the agent treats every exit code other than 0 as a block.
	ExitBlocks bool

	// ReportedVia is not nil if the agent can report one action more than once: in several of its events,
	// or through the hook files of another agent that it also loads. It returns the way in which
	// this payload was reported.
	ReportedVia func(top map[string]json.RawMessage) (way string)

	// Blind is the answer, in the syntax of EventRow.Out, to an event without a readable name.
	Blind string

	// Exits lists exit codes of hook programs with a meaning beyond 0, 2 and failure, as conditions
	// of EventRow.Out: "49=halt".
	Exits string

	// Adapt corrects an event after the tables were read; nil = no correction.
	Adapt func(row *EventRow, top map[string]json.RawMessage, ev *grapnel.Event) error

	// Finish corrects the answer that the tables produced from a Verdict, before it is written; nil
	// = no correction.
	Finish func(row *EventRow, ev *grapnel.Event, t *supportedVerdict, out *members)

	// Speaks reports whether a payload certainly comes from this agent. It serves files that
	// several agents load.
	Speaks func(top map[string]json.RawMessage) bool

	// ReadEvent reads the agent's payload. row is nil for an event that is not in the table. A
	// member of a wrong type is an error only if a guard needs it. Other members of a wrong type
	// are ignored and stay in Native.
	ReadEvent func(row *EventRow, top map[string]json.RawMessage, in Input) (*grapnel.Event, error)

	// WriteVerdict writes the reply for the agent: an empty reply for an empty verdict, and never
	// more than ev.Can() permits. row is nil for an event that is not in the table. ev.Kind is empty
	// for an event that could not be read.
	WriteVerdict func(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) Reply

	// WriteEvent writes an event for a hook program that uses this dialect; nil = the dialect has
	// no hook programs. An empty result means that the program reads no event.
	WriteEvent func(ev *grapnel.Event) ([]byte, error)

	// ReadOutcome reads the answer of a hook program to ev, which is the event that was passed to
	// WriteEvent, not its translation.
	ReadOutcome func(ev *grapnel.Event, out Output) (grapnel.Outcome, error)

	// HookEnv returns the environment variables, as NAME=value, that a hook program expects in
	// addition to the event; nil = none.
	HookEnv func(ev *grapnel.Event) []string

	worker *Dialect // of a worker that is started for one event; see OnceOf

	// OnError is how a failure of a hook program is treated if its policy does not set on_error;
	// the zero value means the default of every program.
	OnError grapnel.OnError

	// transcripts is the directory whose name in transcript_path shows that a payload comes from
	// this agent; empty = the path shows nothing.
	transcripts string

	setup *Setup // how "grapnel install" configures hooks; nil = it cannot
}

// ErrNoSuchEvent is the error of WriteEvent for an event that the agent of this dialect never sends
// to its hooks.
var ErrNoSuchEvent error = noSuchEvent{}

// noSuchEvent is a type because a variable that a call initializes would make the compiler
// initialize all tables of this package at each start.
type noSuchEvent struct{}

func (noSuchEvent) Error() string { return "no such event" }

// EventRow is one event of an agent: its native name, its kind, and which parts of a verdict the
// agent supports for it.
type EventRow struct {
	Native   string
	Wire     string // its name in payloads, if different from Native
	Kind     grapnel.Kind
	Failed   grapnel.Kind      // the kind instead of Kind when the tool failed; empty = the agent has a separate event for failures
	Can      grapnel.Can       // of a row with Out: what Out can express, plus Merges and Members
	Contract *grapnel.Contract // for native.* kinds that hooks can do more than observe

	// In maps members of the payload to fields of the Event, "prompt=prompt.text
	// session_id=session.id"; table.go lists the fields. Out maps members of the answer to the
	// values that are written there.
	In, Out string

	Void string // the stdout of an empty reply to this event; empty = Void of the dialect

	Install bool // part of the default set that install writes
	Never   bool // install never adds it, even when a policy listens to it
	Closed  bool // guards run here: with fail closed, install asks the agent to block when the hook fails, if the agent can

	Why    string        // why Install is false
	Since  string        // first agent version with this event; empty = every version
	Wait   time.Duration // maximum time that the agent waits for a hook; 0 = the timeout in the hook's entry
	Budget time.Duration // time for all hooks together; 0 = DefaultBudget
}

// ToolRow is one tool of an agent.
type ToolRow struct {
	Native string
	Class  grapnel.Class
	Facts  []grapnel.Fact

	// Like is Claude Code's name for the equivalent tool; empty = no equivalent, or the same name
	// as Native. Tools of two agents with the same Like are translated into each other.
	Like string

	// Members pairs names of further input members with member names of the Like tool. Facts pair
	// the others.
	Members [][2]string

	// As is the tool under which hooks of this agent see such a call of another agent; empty = this
	// tool.
	As string

	// Takes lists the input members that the agent lets a hook change; nil = as in Can of the event.
	Takes []string
}

// Input is an agent's input to the hook program.
type Input struct {
	Payload []byte
	Event   string // the event's native name if the command line gives it; empty = read it from the payload
	Err     error  // not nil if the payload could not be read completely
}

// Reply is the stdout, stderr and exit code that the agent receives.
type Reply struct {
	Stdout []byte
	Stderr []byte
	Exit   int
	Silent bool // add nothing to stderr: the agent treats any output as an answer
}

// Output is the result of one run of a hook program.
type Output = grapnel.Output

// Find returns a copy of the dialect with this name or alias, including the dialects that only hook
// programs use. The caller may change the copy.
func Find(name string) (*Dialect, bool) {
	return find(slices.Concat(dialects, hookOnly), name)
}

// FindAgent is like [Find], but searches only the dialects of agents.
func FindAgent(name string) (*Dialect, bool) { return find(dialects, name) }

func find(dialects []*Dialect, name string) (*Dialect, bool) {
	d := lookup(dialects, name)
	if d == nil {
		return nil, false
	}
	return d.clone(), true
}

// lookup returns the dialect itself, not a copy: the caller must not change it.
func lookup(dialects []*Dialect, name string) *Dialect {
	for _, d := range dialects {
		if d.Name == name || slices.Contains(d.Aliases, name) {
			return d
		}
	}
	return nil
}

// OnErrorOf returns the OnError of the dialect with this name or alias, without a copy of its tables.
func OnErrorOf(name string) grapnel.OnError {
	if d := lookup(slices.Concat(dialects, hookOnly), name); d != nil {
		return d.OnError
	}
	return grapnel.OnErrorDefault
}

// FullName returns the name of the dialect with this name or alias. It searches as [Find] does,
// without copying the tables.
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

// Names returns the names of all agent dialects.
func Names() []string {
	names := make([]string, len(dialects))
	for i, d := range dialects {
		names[i] = d.Name
	}
	return names
}

// Detect returns a copy of the dialect that a payload is certainly written in, or nil. The caller
// may change the copy. A truncated or malformed payload is judged by its readable part.
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

// transcriptHome returns the transcripts directory of the agent whose directory contains the
// transcript, or "" if the path does not show it.
func transcriptHome(top map[string]json.RawMessage) string {
	path := slashed(text(top["transcript_path"]))
	for _, d := range dialects {
		if d.transcripts != "" && strings.Contains(path, "/"+d.transcripts+"/") {
			return d.transcripts
		}
	}
	if name := path[strings.LastIndexByte(path, '/')+1:]; strings.HasPrefix(name, "rollout-") {
		return codexHome // CODEX_HOME moved the directory
	}
	return ""
}

func slashed(path string) string { return strings.ReplaceAll(path, `\`, "/") }

// Kinds returns the event kinds that a name in a policy means. The name is a canonical event or a
// dialect's native name, which may mean two kinds. If several dialects have the name, the first one
// in the list decides. If its kind is native, the result also has the native kind of every other
// dialect with an event of this name. Kinds returns nil for an unknown name.
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

// Row returns the row of the event with this native name, or nil.
func (d *Dialect) Row(native string) *EventRow { return rowNamed(d.Events, native) }

func rowNamed(rows []EventRow, native string) *EventRow {
	for i := range rows {
		if native != "" && (rows[i].Native == native || rows[i].Wire == native) {
			return &rows[i]
		}
	}
	return nil
}

// namedIn returns the event name in a payload, or "".
func (d *Dialect) namedIn(top map[string]json.RawMessage) string {
	name := text(top[cmp.Or(d.NamedAt, "hook_event_name")])
	if name == "" && d.Unnamed != nil {
		name = d.Unnamed(top)
	}
	return name
}

// unnamed returns the error for a payload without the name of an event, which may be another agent's.
func (d *Dialect) unnamed(payload []byte) error {
	err := fmt.Errorf("the payload does not name its event (%s)", cmp.Or(d.NamedAt, "hook_event_name"))
	if other := detect(payload); other != nil && other.Name != d.Name {
		err = fmt.Errorf("%w: it comes from %s, so write grapnel-hook %s", err, other.Title, other.Name)
	}
	return err
}

// Read parses the agent's input into an Event. If the payload is invalid, the error gives the
// reason and the Event holds the readable parts.
func (d *Dialect) Read(in Input) (*grapnel.Event, error) {
	ev, _, err := d.read(in)
	return ev, err
}

// top parses the top-level object of the payload.
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
		err = d.unnamed(in.Payload)
	}
	row := d.Row(native)

	var ev *grapnel.Event
	if err == nil {
		read := d.ReadEvent
		if read == nil {
			read = d.readTable // d is no copy; see tabled
		}
		ev, err = read(row, top, in)
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
	has := terms(ev)
	switch {
	case row != nil:
		if ev.Kind == "" {
			ev.Kind = row.Kind
		}
		if has.Can == nil {
			has.Can = cloneCan(row.can())
		}
		if t := ev.Tool; t != nil && t.MCP == nil {
			if tool := toolNamed(d.Tools, t.Name); tool != nil && tool.Takes != nil {
				can := *has.Can
				can.Members = slices.Clone(tool.Takes)
				has.Can = &can
			}
		}
		has.Contract = cloneContract(row.Contract)
		has.Budget = row.Budget
	case d.Events != nil && native != "":
		// This event comes from a newer agent version and is only observed. How the agent would
		// treat an answer is unknown, so the reply is empty.
		ev.Kind = grapnel.Kind(grapnel.NativePrefix + d.Name + "." + native)
		has.Can = &grapnel.Can{}
	}
	if has.Budget == 0 {
		has.Budget = DefaultBudget
	}
	if err != nil {
		err = fmt.Errorf("cannot read the event of %s: %w", d.Name, err)
	}
	return ev, row, err
}

// terms returns the Terms of an event that is being read.
func terms(ev *grapnel.Event) *grapnel.Terms {
	if ev.Terms == nil {
		ev.Terms = &grapnel.Terms{}
	}
	return ev.Terms
}

// Write converts a Verdict into the reply for the agent. native is the event's name on the command
// line, or "".
func (d *Dialect) Write(ev *grapnel.Event, v *grapnel.Verdict, native string) Reply {
	row := d.Row(native)
	if row == nil {
		row = d.rowOf(ev)
	}
	return d.WriteVerdict(row, ev, v)
}

// rowOf finds the row of an event that was read earlier. If events share a kind, the payload
// decides.
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

// Answer reads an event, fires it, and writes the reply. An event that cannot be read is a failure
// of every hook that listens to it: on_error decides, and the reply is never an allow.
//
// Read errors are also written to stderr, unless the reply uses stderr itself or the agent treats
// any output for the event as an answer. If stdout is then empty, the exit code is 1, which agents
// show as a warning; 2 would block. For agents with ExitBlocks the exit code stays unchanged.
//
// Hooks have a time budget below the timeout that install writes for the agent, so that Grapnel
// answers before the agent kills it. Steps that have not started when the budget is spent are
// errors of their hooks.
func Answer(ctx context.Context, engine *grapnel.Engine, d *Dialect, in Input) Reply {
	return Receive(d, in).Answer(ctx, engine)
}

// Received is an agent's input after one read. It is the first half of [Answer], for programs that
// choose their engine by the event.
type Received struct {
	Event *grapnel.Event // the readable parts of the event; never nil
	Err   error          // the read error; nil = the event is complete

	dialect    *Dialect
	row        *EventRow
	way        string
	duplicates bool
}

// Way returns the way in which the agent reported the event. duplicates reports whether the agent
// can report one action in several ways; see ReportedVia of [Dialect].
func (r Received) Way() (way string, duplicates bool) { return r.way, r.duplicates }

// Row returns the row of the event, or nil for an event that is not in the dialect's table.
func (r Received) Row() *EventRow { return r.row }

// Receive reads an agent's input.
func Receive(d *Dialect, in Input) Received {
	ev, row, err := d.read(in)
	r := Received{Event: ev, Err: err, dialect: d, row: row}
	if d.ReportedVia != nil && err == nil {
		r.way, r.duplicates = d.ReportedVia(split(in.Payload)), true
	}
	return r
}

// ReceiveAs reads an agent's payload for an event of a known kind, even if the agent's payloads do
// not name their event.
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

// Answer fires the event, or fails it if it could not be read, and writes the reply. It is the
// second half of the function [Answer].
func (r Received) Answer(ctx context.Context, engine *grapnel.Engine) Reply {
	silent := r.row != nil && !r.row.can().Message
	if r.Err == nil {
		v := engine.Fire(ctx, r.Event)
		reply := r.dialect.WriteVerdict(r.row, r.Event, &v)
		reply.Silent = silent || reply.Exit != 0
		return reply
	}
	terms(r.Event).Unread = r.Err
	v := engine.Fire(ctx, r.Event)
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

// jsonReply makes the reply for an agent that reads JSON from stdout. A zero wire value makes an empty
// reply.
func jsonReply(wire any) Reply {
	if reflect.ValueOf(wire).IsZero() {
		return Reply{}
	}
	stdout, err := rawjson.Line(wire)
	if err != nil { // every part of a Verdict was valid JSON when it was merged
		return Reply{Exit: 2, Stderr: fmt.Appendf(nil, "grapnel: cannot write the answer: %v\n", err)}
	}
	return Reply{Stdout: stdout}
}

// supportedVerdict is a Verdict reduced to the parts that the agent supports for one event, with the texts that
// are common to all agents.
type supportedVerdict struct {
	can     grapnel.Can
	block   bool
	ask     bool
	allow   bool
	reason  string // never blank when block is set
	halt    string // non-empty: end the turn
	context string
	message string
	changes map[grapnel.Field]json.RawMessage
}

// supportedOf reduces a Verdict to the parts that its event permits. Merging already does this; this is
// the last check, for a Verdict from another source.
func supportedOf(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) supportedVerdict {
	t := supportedVerdict{can: *row.can(), reason: v.Reason(), changes: v.Changes}
	if can := ev.Can(); can != nil {
		t.can = *can
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
		case grapnel.BlockingAction: // an agent that is told to stop would still finish the action
			t.block, t.ask, t.allow = t.can.Block, false, false
		case grapnel.BlockingStop: // otherwise the block would keep the agent from stopping
			t.block = t.block && t.halt == ""
		case grapnel.BlockingNothing, grapnel.BlockingFeedback:
		}
	}
	if t.block && strings.TrimSpace(t.reason) == "" {
		t.reason = cmp.Or(strings.TrimSpace(v.Halt), "blocked by grapnel")
	}
	return t
}

// change returns the new value of a field, or nil if the agent does not support changing it.
func (t *supportedVerdict) change(f grapnel.Field) json.RawMessage {
	if !slices.Contains(t.can.Change, f) {
		return nil
	}
	return t.changes[f]
}

// warn appends a line to the message for the user.
func (t *supportedVerdict) warn(line string) {
	if t.message != "" {
		t.message += "\n"
	}
	t.message += line
}

// member returns the part of the Verdict's Native that is meant for one agent. It returns nil if
// the part is missing or not a T, because most agents ignore a whole answer, including a block,
// when one member has the wrong type.
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

// no is the value of continue that ends a turn.
var no = new(bool)
