package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Most agents differ only in names. Their dialects are two tables that are read in both directions:
// In for events, Out for answers. The dialect's Adapt and Finish handle the cases that a table
// cannot express.
//
// In is a list of MEMBER=PLACE. A member is a path in the payload, with dots for nested objects. A
// place is a field of the plain dialect: session.id, tool.input, prompt.text, and so on (see
// place). "MEMBER=PLACE:text" means that the agent sends the JSON of the value as a string, ":list"
// that it sends a list whose first element is the value, ":ms" that it sends a time in
// milliseconds. If two members have the same place, the first one present is used.
//
// Out is a list of MEMBER=WORD. A member is a path in the answer, with dots for nested objects;
// stdout, stderr and exit are the non-JSON parts of a program's result. A word is one of
//
//	reason context message halt   the text of a block or of a question, and so on
//	reason:block reason:ask       the same, for only a block or only a question
//	feedback                      the reason of a block and the context, as one text
//	native:X                      a value for this agent only, if its type is X: a string, an object, ...
//	event                         the native name, if its parent object has other members
//	tool.input, response, ...     the new value of a field
//	block:X ask:X allow:X halt:X  X, if that applies; change:X if there is a new input
//
// A word without a member means that the agent does this without a member in the answer. The word
// block without a member means that giving a reason blocks. Entries that begin with < are read from
// hooks and never written.

// tabled sets the functions of a copy that the tables of the dialect d define. Copies have them and d
// has not, because setting them in every dialect at each start of a program would write to as many
// pages of memory.
func (d *Dialect) tabled(own *Dialect) {
	if own.ReadEvent == nil {
		own.ReadEvent = d.readTable
	}
	if own.WriteVerdict == nil {
		own.WriteVerdict = d.writeTable
	}
	if own.WriteEvent == nil {
		own.WriteEvent = d.writeEventTable
	}
	if own.ReadOutcome == nil {
		own.ReadOutcome = d.readOutcomeTable
	}
}

// A pairing is one entry of a table.
type pairing struct {
	member string
	word   string
	arg    string // text after the colon
	heard  bool   // only read, never written
}

// each parses the entries of a table.
func each(table string) []pairing {
	words := strings.Fields(table)
	list := make([]pairing, len(words))
	for i, item := range words {
		p := &list[i]
		var ok bool
		if p.member, p.word, ok = strings.Cut(item, "="); !ok {
			p.member, p.word = "", item
		}
		p.member, p.heard = strings.CutPrefix(p.member, "<")
		p.word, p.arg, _ = strings.Cut(p.word, ":")
	}
	return list
}

// can returns the parts of a verdict that the agent supports. For a row with Out, these are the
// parts that Out can express.
func (r *EventRow) can() *grapnel.Can {
	if r.Out == "" {
		return &r.Can
	}
	can := r.Can
	for _, p := range each(r.Out) {
		if p.heard {
			continue
		}
		switch p.word {
		case "block":
			can.Block = true
		case "ask":
			can.Ask = true
		case "allow":
			can.Allow = true
		case "halt":
			can.Halt = true
		case "feedback":
			can.Block, can.Context, can.Keeps = true, true, true
		case "context":
			can.Context = true
		case "message":
			can.Message = true
		case "reason", "event", "change", "native":
		default:
			if f := grapnel.Field(p.word); !slices.Contains(can.Change, f) {
				can.Change = append(slices.Clip(can.Change), f)
			}
		}
	}
	return &can
}

// Permits returns the parts of a verdict that the agent supports for an event of the row.
func (r *EventRow) Permits() grapnel.Can { return *r.can() }

// at returns the value at a path of an object, or nil.
func at(top map[string]json.RawMessage, path string) json.RawMessage {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		return present(top[name])
	}
	return at(split(top[name]), rest)
}

// A finder looks up values at paths of an object. It splits each object only once, because a tool's
// input may contain a file of several megabytes.
type finder map[string]map[string]json.RawMessage

func (f finder) at(path string) json.RawMessage {
	i := strings.LastIndexByte(path, '.')
	parent := path[:max(i, 0)]
	if _, known := f[parent]; !known {
		f[parent] = split(f.at(parent))
	}
	return present(f[parent][path[i+1:]])
}

// put sets the value at a path and creates missing objects.
func (m *members) put(path string, value json.RawMessage) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		m.set(name, value)
		return
	}
	inner := membersOf(m.get(name))
	inner.put(rest, value)
	m.set(name, inner.raw())
}

// need returns *p and creates it if it is nil.
func need[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// place returns a pointer to the event field with this name in the plain dialect: a string, a bool,
// a time or raw JSON. It creates the part of the event that contains the field.
func place(ev *grapnel.Event, name string) any {
	switch name {
	case "time":
		return &ev.Time
	case "cause":
		return &ev.Cause
	case "session.id":
		return &ev.Session.ID
	case "session.cwd":
		return &ev.Session.CWD
	case "session.root":
		return &ev.Session.Root
	case "session.transcript":
		return &ev.Session.Transcript
	case "session.model":
		return &ev.Session.Model
	case "session.mode":
		return &ev.Session.Mode
	case "session.turn":
		return &ev.Session.Turn
	case "session.user":
		return &ev.Session.User
	case "session.channel":
		return &ev.Session.Channel
	case "session.thread":
		return &ev.Session.Thread
	case "session.job":
		return &ev.Session.Job
	case "agent.version":
		return &ev.Agent.Version
	case "subagent.id":
		return &need(&ev.Session.Subagent).ID
	case "subagent.type":
		return &need(&ev.Session.Subagent).Type
	case "subagent.transcript":
		return &need(&ev.Session.Subagent).Transcript
	case "prompt.text":
		return &need(&ev.Prompt).Text
	case "prompt.system":
		return &need(&ev.Prompt).System
	case "tool.id":
		return &need(&ev.Tool).ID
	case "tool.name":
		return &need(&ev.Tool).Name
	case "tool.input":
		return &need(&ev.Tool).Input
	case "tool.output":
		return &need(&ev.Tool).Output
	case "tool.failed":
		return &need(&ev.Tool).Failed
	case "mcp.server":
		return &need(&need(&ev.Tool).MCP).Server
	case "mcp.tool":
		return &need(&need(&ev.Tool).MCP).Tool
	case "stop.active":
		return &need(&ev.Stop).Active
	case "stop.last_message":
		return &need(&ev.Stop).LastMessage
	case "message.id":
		return &need(&ev.Message).ID
	case "message.role":
		return &need(&ev.Message).Role
	case "message.sender":
		return &need(&ev.Message).Sender
	case "message.channel":
		return &need(&ev.Message).Channel
	case "message.content":
		return &need(&ev.Message).Content
	case "message.raw":
		return &need(&ev.Message).Raw
	case "model.request":
		return &need(&ev.Model).Request
	case "model.response":
		return &need(&ev.Model).Response
	case "compact.instructions":
		return &need(&ev.Compact).Instructions
	case "compact.summary":
		return &need(&ev.Compact).Summary
	case "task.id":
		return &need(&ev.Task).ID
	case "task.subject":
		return &need(&ev.Task).Subject
	case "task.description":
		return &need(&ev.Task).Description
	case "notification.type":
		return &need(&ev.Notification).Type
	case "notification.title":
		return &need(&ev.Notification).Title
	case "notification.message":
		return &need(&ev.Notification).Message
	case "config.source":
		return &need(&ev.Config).Source
	case "config.file":
		return &need(&ev.Config).File
	}
	panic("dialect: no place " + name) // a test checks the names in all tables
}

// judged lists the places that guards check. A value of a wrong type there is an error, because a
// guard would miss it.
var judged = []string{"tool.name", "prompt.text", "message.content"}

func (d *Dialect) readTable(row *EventRow, top map[string]json.RawMessage, in Input) (*grapnel.Event, error) {
	ev, find := &grapnel.Event{}, finder{"": top}
	if err := read(ev, d.In, find); err != nil {
		return nil, err
	}
	if s := ev.Session.Subagent; s != nil && s.ID == "" {
		ev.Session.Subagent = nil // a type without an ID describes how the main agent was started
	}
	if row == nil {
		return ev, nil
	}
	if err := read(ev, row.In, find); err != nil {
		return nil, err
	}
	ev.Kind = row.Kind
	if t := ev.Tool; t != nil && d.Folds != nil {
		if err := t.FoldKeys(d.Folds...); err != nil {
			return nil, fmt.Errorf("cannot judge the input of %s: %w", t.Name, err)
		}
	}
	if d.Adapt != nil {
		if err := d.Adapt(row, top, ev); err != nil {
			return nil, err
		}
	}
	if t := ev.Tool; t != nil && ev.Kind == row.Kind && row.Failed != "" && t.Failed {
		ev.Kind = row.Failed
	}
	return ev, d.adopt(ev)
}

// adopt completes a call from the agent's table of tools.
func (d *Dialect) adopt(ev *grapnel.Event) error {
	t := ev.Tool
	if t == nil {
		return nil
	}
	if t.Name == "" && t.MCP != nil && t.MCP.Tool != "" {
		t.Name = spellMCP(d.Name, t.MCP)
	}
	if t.Name == "" {
		return errors.New("it does not name its tool")
	}
	if t.MCP == nil && toolNamed(d.Tools, t.Name) == nil {
		t.MCP = splitMCP(d.Name, t.Name)
	}
	t.Failed = t.Failed || ev.Kind == grapnel.ToolFailed
	t.Class, t.Facts = classify(d.Tools, t)
	t.Derive()
	return nil
}

// read fills in an event from a table.
func read(ev *grapnel.Event, table string, in finder) error {
	for _, p := range each(table) {
		raw := in.at(p.member)
		switch p.arg {
		case "text":
			if inner, ok := rawjson.Unquote(raw); ok && json.Valid([]byte(inner)) {
				raw = trim([]byte(inner))
			}
		case "list":
			raw = first(raw)
		}
		if raw == nil && !strings.HasPrefix(p.word, "tool.") && !slices.Contains(judged, p.word) {
			continue
		}
		switch to := place(ev, p.word).(type) {
		case *string:
			s, ok := rawjson.Unquote(raw)
			if !ok && raw != nil && slices.Contains(judged, p.word) {
				return fmt.Errorf("%s is %s, not a string", p.member, kindOf(raw))
			}
			if !ok && raw != nil && raw[0] != '{' && raw[0] != '[' {
				s = string(raw) // a number used as a name
			}
			*to = cmp.Or(*to, s)
		case *bool:
			*to = *to || flag(raw)
		case *time.Time:
			*to = when(raw)
		case *json.RawMessage:
			var err error
			if p.word == "tool.input" {
				raw, err = readInput(p.member, raw)
			}
			if err != nil {
				return err
			}
			if *to == nil {
				*to = raw
			}
		}
	}
	return nil
}

// first returns the first element of a list, or nil.
func first(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil
	}
	return present(list[0])
}

// when reads a time: RFC 3339, or milliseconds since 1970.
func when(raw json.RawMessage) time.Time {
	if ms, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return time.UnixMilli(ms).UTC()
	}
	at, _ := time.Parse(time.RFC3339, text(raw)) // the zero time if it is not a time
	return at
}

func (d *Dialect) writeTable(row *EventRow, ev *grapnel.Event, v *grapnel.Verdict) Reply {
	if row == nil {
		if ev.Kind != "" || v.Decision != grapnel.Block {
			return replyOf(nil, d.Void) // how the agent would treat an answer is unknown
		}
		row = &EventRow{Out: d.Blind}
	}
	t := supportedOf(row, ev, v)
	if t.ask && t.reason != "" && slices.Contains(strings.Fields(row.Out), "ask") {
		t.warn(t.reason) // the agent asks without showing the reason, so the message explains why
	}
	var out members
	for _, p := range each(row.Out) {
		if p.heard || p.member == "" {
			continue
		}
		if value := d.answer(p, row, ev, v, &t); value != nil {
			out.put(p.member, value)
		}
	}
	if d.Finish != nil {
		d.Finish(row, ev, &t, &out)
	}
	for _, p := range each(row.Out) { // add the event name only next to other members
		if parent := p.member[:max(strings.LastIndexByte(p.member, '.'), 0)]; p.word == "event" && at(out.byName(), parent) != nil {
			out.put(p.member, rawjson.Quote(row.Native))
		}
	}
	return replyOf(out, cmp.Or(row.Void, d.Void))
}

// answer returns the value of one entry of Out, or nil.
func (d *Dialect) answer(p pairing, row *EventRow, ev *grapnel.Event, v *grapnel.Verdict, t *supportedVerdict) json.RawMessage {
	switch p.word {
	case "block":
		return literal(t.block, p.arg)
	case "ask":
		return literal(t.ask, p.arg)
	case "allow":
		return literal(t.allow, p.arg)
	case "change":
		_, changed := t.changes[grapnel.FieldInput]
		return literal(changed && !t.block && slices.Contains(t.can.Change, grapnel.FieldInput), p.arg)
	case "halt":
		if p.arg == "" {
			return rawjson.QuoteSome(t.halt)
		}
		return literal(t.halt != "", p.arg)
	case "reason":
		if t.block && p.arg != "ask" || t.ask && (p.arg == "ask" || p.arg == "" && strings.Contains(row.Out, "=ask:")) {
			return rawjson.QuoteSome(t.reason)
		}
	case "feedback":
		if t.block {
			return rawjson.QuoteSome(strings.TrimSuffix(t.reason+"\n"+t.context, "\n"))
		}
		return rawjson.QuoteSome(t.context)
	case "context":
		if c := contractFor(ev); c == nil || !c.Context {
			return rawjson.QuoteSome(text(v.Native[d.Name+"."+p.member]))
		}
		return rawjson.QuoteSome(t.context)
	case "native":
		if raw := v.Native[d.Name+"."+p.member]; !t.block && kindOf(raw) == typeNamed(p.arg) {
			return raw
		}
	case "message":
		return rawjson.QuoteSome(t.message)
	case "event":
	default:
		if !t.block {
			return d.spelled(row, ev, p.word, t.change(grapnel.Field(p.word)))
		}
	}
	return nil
}

// spelled returns a new value with the keys that the agent sent, if the event has other spellings.
func (d *Dialect) spelled(row *EventRow, ev *grapnel.Event, word string, now json.RawMessage) json.RawMessage {
	if d.Folds == nil || word != string(grapnel.FieldInput) || now == nil {
		return now
	}
	find := finder{"": split(ev.Native)}
	for _, p := range each(row.In) {
		if p.word == word {
			if same, err := rawjson.Fold(now, rawjson.Keys(find.at(p.member))); err == nil {
				return same
			}
		}
	}
	return now
}

// typeNamed converts a type name in a table to the name that kindOf returns; empty = unknown type.
func typeNamed(name string) string {
	switch name {
	case "string":
		return "a string"
	case "object":
		return "an object"
	case "list":
		return "an array"
	case "bool":
		return "a boolean"
	}
	return ""
}

// replyOf makes the reply from an answer, with void as the stdout of an empty one. The members
// stdout, stderr and exit are not JSON.
func replyOf(out members, void string) Reply {
	var reply Reply
	var wire members
	plain := false
	for _, e := range out {
		switch e.name {
		case "stdout":
			reply.Stdout, plain = append([]byte(text(e.value)), '\n'), true
		case "stderr":
			reply.Stderr = append([]byte(text(e.value)), '\n')
		case "exit":
			reply.Exit, _ = strconv.Atoi(string(e.value))
		default:
			wire = append(wire, e)
		}
	}
	switch {
	case plain:
	case len(wire) > 0:
		reply.Stdout = append(wire.raw(), '\n')
	case reply.Exit == 0 && void != "":
		reply.Stdout = []byte(void + "\n")
	}
	return reply
}

// literal returns the value of an entry if its case applies: true, false, a number, or a word.
func literal(is bool, word string) json.RawMessage {
	switch {
	case !is || word == "":
		return nil
	case json.Valid([]byte(word)):
		return json.RawMessage(word)
	}
	return rawjson.Quote(word)
}

// asSent writes a changed input in the form in which the agent sent the original.
func asSent(original, input json.RawMessage) json.RawMessage {
	if len(original) > 0 && original[0] == '"' {
		return rawjson.Quote(string(input))
	}
	return input
}

// writeEventTable writes an event for a hook program. The agent's own payload stays unchanged,
// except for the changes of earlier hooks.
func (d *Dialect) writeEventTable(ev *grapnel.Event) ([]byte, error) {
	row, err := eventRow(d.Events, d.Name, ev)
	if err != nil {
		return nil, err
	}
	return d.writeRow(row, ev)
}

// writeRow writes an event under one of the agent's event names.
func (d *Dialect) writeRow(row *EventRow, ev *grapnel.Event) ([]byte, error) {
	now := *ev
	var m members
	own := ev.Agent.Name == d.Name && rawjson.IsObject(trim(ev.Native))
	if len(ev.Calls) > 0 && !own { // no table can express a list of calls
		return nil, fmt.Errorf("cannot write %s for a hook of %s: its format has no field for the calls", ev.Kind, d.Name)
	}
	if own {
		m = membersOf(ev.Native)
	} else {
		m.text(cmp.Or(d.NamedAt, "hook_event_name"), cmp.Or(row.Wire, row.Native))
	}
	if ev.Tool != nil {
		r, err := render(ev, ev.Tool, d.Name)
		if err != nil {
			return nil, fmt.Errorf("cannot write %s for a hook of %s: %w", ev.Kind, d.Name, err)
		}
		tool := *ev.Tool
		tool.Name, tool.Input = r.name, r.input.raw()
		now.Tool = &tool
	}
	if ev.Session.Subagent != nil {
		sub := *ev.Session.Subagent
		now.Session.Subagent = &sub
	}
	was := &grapnel.Event{}
	if own {
		// Members that already match the event stay unchanged.
		if before, _, err := d.read(Input{Payload: ev.Native, Event: row.Native}); err == nil {
			was = before
		}
	}
	have := finder{"": m.byName()}
	for _, table := range []string{d.In, row.In} {
		done := map[string]bool{}
		for _, p := range each(table) {
			value := written(place(&now, p.word))
			if have.at(p.member) == nil && named(have, table, p.word) {
				continue // the payload uses another of the agent's names for this member
			}
			same := own && string(value) == string(written(place(was, p.word))) && (d.Folds == nil || p.word != "tool.input" || rawjson.Equal(value, have.at(p.member)))
			if done[p.word] || value == nil || same {
				continue
			}
			done[p.word] = true
			switch {
			case p.arg == "list":
				value = slices.Concat(json.RawMessage("["), value, json.RawMessage("]"))
			case p.arg == "ms":
				value = strconv.AppendInt(nil, now.Time.UnixMilli(), 10)
			case p.arg == "text" || own && p.word == "tool.input" && asSent(at(split(ev.Native), p.member), value)[0] == '"':
				value = rawjson.Quote(string(value))
			}
			m.put(p.member, value)
		}
	}
	return m.line()
}

// named reports whether the payload has any member that the table maps to a place.
func named(have finder, table, place string) bool {
	for _, p := range each(table) {
		if p.word == place && have.at(p.member) != nil {
			return true
		}
	}
	return false
}

// written returns the value of a place as JSON, or nil if it is empty.
func written(place any) json.RawMessage {
	switch from := place.(type) {
	case *string:
		return rawjson.QuoteSome(*from)
	case *bool:
		return json.RawMessage(strconv.FormatBool(*from))
	case *time.Time:
		if !from.IsZero() {
			return rawjson.Quote(from.Format(time.RFC3339Nano))
		}
	case *json.RawMessage:
		return *from
	}
	return nil
}

// readOutcomeTable reads the answer of a hook program to ev. Exit code 2 blocks, with or without
// output. Other nonzero codes are errors, unless the dialect's Exits lists them. JSON on stdout is
// used with any exit code.
func (d *Dialect) readOutcomeTable(ev *grapnel.Event, out Output) (grapnel.Outcome, error) {
	var o grapnel.Outcome
	row, err := eventRow(d.Events, d.Name, ev)
	if err != nil {
		return o, err
	}
	stdout := trim(out.Stdout)
	var bad error
	if !rawjson.IsObject(stdout) {
		bad = hiddenAnswer(stdout)
	}
	switch {
	case bad != nil:
	case rawjson.IsObject(stdout) && json.Valid(stdout):
		bad = d.heed(&o, row, ev, split(stdout))
	case rawjson.IsObject(stdout):
		bad = errCutAnswer
	case len(stdout) > 0 && out.Exit == 0 && strings.Contains(row.Out, "stdout=context"):
		o.Context = []string{string(stdout)}
	case len(stdout) > 0 && out.Exit == 0:
		plainText(&o, ev, string(stdout))
	}
	stderr := strings.TrimSpace(string(out.Stderr))
	if out.Exit == 0 {
		return o, bad
	}
	for _, p := range each(cmp.Or(d.Exits, "2=block")) {
		if code, _ := strconv.Atoi(p.member); code != out.Exit {
			continue
		}
		switch p.word {
		case "block":
			o.Decision, o.Reason = grapnel.Block, cmp.Or(o.Reason, stderr)
		case "halt":
			o.Halt = cmp.Or(o.Halt, stderr, "stopped by a hook")
		}
		return o, bad
	}
	return o, errors.Join(failure(out), bad)
}

// heed adds the content of a JSON answer to o.
func (d *Dialect) heed(o *grapnel.Outcome, row *EventRow, ev *grapnel.Event, top map[string]json.RawMessage) error {
	stops, stopped, why := false, false, "" // a table may have a flag for halt, a text, or both
	byReason := false
	for _, p := range each(row.Out) {
		stops = stops || p.word == "halt" && p.arg != ""
		byReason = byReason || p.word == "block" && p.member == ""
		raw := at(top, p.member)
		if raw == nil {
			continue
		}
		is := p.arg != "" && (string(raw) == p.arg || text(raw) == p.arg)
		switch p.word {
		case "block", "ask", "allow":
			if is {
				o.Decision = max(o.Decision, decisionNamed(p.word))
			}
		case "halt":
			stopped = stopped || is
			if p.arg == "" {
				why = text(raw)
			}
		case "reason":
			o.Reason = cmp.Or(o.Reason, text(raw))
		case "context", "feedback":
			d.heedContext(o, ev, p.member, outputText(raw))
		case "native":
			native(o, d.Name, p.member, raw)
		case "message":
			o.Message = text(raw)
		case "event", "change":
		case string(grapnel.FieldInput):
			input, err := readInput(p.member, raw)
			if err == nil {
				err = changeOrAsk(o, ev, d.Name, input)
			}
			if err != nil {
				return fmt.Errorf("cannot use its answer: %w", err)
			}
		default:
			set(o, grapnel.Field(p.word), raw)
		}
	}
	switch {
	case stopped:
		o.Halt = cmp.Or(why, o.Reason, "stopped by a hook")
	case !stops:
		o.Halt = why
	}
	if byReason && o.Reason != "" {
		o.Decision = grapnel.Block
	}
	if o.Decision == grapnel.Block {
		o.Set, o.Patch = nil, nil // a blocked call is not changed
	}
	return nil
}

// heedContext adds an answer's additional context for the model.
func (d *Dialect) heedContext(o *grapnel.Outcome, ev *grapnel.Event, member, more string) {
	c := contractFor(ev)
	switch {
	case more == "":
	case c != nil && c.Context:
		o.Context = append(o.Context, more)
	default: // other agents support no context for this event
		native(o, d.Name, member, rawjson.Quote(more))
	}
}

func decisionNamed(word string) (d grapnel.Decision) {
	_ = d.UnmarshalText([]byte(word)) // tables contain only valid words
	return d
}
