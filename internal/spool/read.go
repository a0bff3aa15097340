package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Alive is the kind of a heartbeat: a Record that says that the machine works.
const Alive grapnel.Kind = grapnel.NativePrefix + "grapnel.alive"

// ErrTorn is the error for a line that holds no complete Record: while it was written, a disk was full, the
// program was killed or the power failed; or the file was changed. Linux ends a write of a killed process between
// two pages of memory.
var ErrTorn = errors.New("torn line")

// A Filter selects Entries. Empty fields match all.
type Filter struct {
	Since     time.Time
	Agent     string
	Session   string
	Machine   string // ID of the machine, see Record.Machine
	Events    []grapnel.Kind
	Decisions []grapnel.Decision
	Would     bool   // only events that hooks in observe mode would have blocked or asked about, if no other hook was as strict
	Hook      string // a hook that ran: its name, or source::name
}

// Wants reports whether an Entry matches. A heartbeat matches only if Events lists its kind.
func (f *Filter) Wants(e *Entry) bool {
	switch {
	case e.Time.Before(f.Since),
		f.Agent != "" && e.Agent != f.Agent,
		f.Session != "" && e.Session != f.Session,
		f.Machine != "" && e.Machine != f.Machine,
		len(f.Events) == 0 && e.Event == Alive,
		len(f.Events) > 0 && !slices.Contains(f.Events, e.Event),
		len(f.Decisions) > 0 && (e.Late || !slices.Contains(f.Decisions, e.Decision)),
		f.Would && (e.Late || e.Would < grapnel.Ask || e.Would <= e.Decision):
		return false
	}
	return f.Hook == "" || slices.ContainsFunc(e.Hooks, func(h grapnel.HookRun) bool {
		return h.Name == f.Hook || h.Source+"::"+h.Name == f.Hook
	})
}

// Read yields the Entries of the log in the order in which they were written. An unreadable line
// yields an error that names file and byte, and does not end the iteration. A missing directory
// is an empty log.
func Read(dir string, filter Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		log, err := OpenLog(dir, filter.Since)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer log.Close()
		for line, err := range log.From(0) {
			switch {
			case err != nil:
			case line.Text == nil || line.Torn == nil && !filter.Wants(&line.Entry):
				continue
			case line.Torn != nil:
				line.Entry, err = Entry{}, fmt.Errorf("%s, byte %d: %w", line.Segment.Name(), line.Begin, line.Torn)
			default:
				if err := line.Event(dir); err != nil && !yield(Entry{}, fmt.Errorf("%s: %w", line.Segment.Name(), err)) {
					return
				}
			}
			if !yield(line.Entry, err) {
				return
			}
		}
	}
}

// IDs returns the IDs of the Records after a position of the log, sorted, each once, and none of torn lines. It
// does not decode the Records.
func (l *Log) IDs(after int64) ([]string, error) {
	var ids []string
	for line, err := range l.Raw(after) {
		if err != nil {
			return nil, err
		}
		if id := idOf(line.Text); id != "" && line.Torn == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// idOf returns the ID at the beginning of a line, or "".
func idOf(line []byte) string {
	if !bytes.HasPrefix(line, lineBegin) {
		return ""
	}
	quote := len(lineBegin) - 1
	end := rawjson.SkipString(line, quote)
	if end < 0 {
		return ""
	}
	id, _ := rawjson.Unquote(line[quote:end])
	return id
}

// decode decodes a line. The event is returned separately, because few callers need it.
func decode(line []byte) (Entry, json.RawMessage, error) {
	rest, event := withoutEvent(line)
	var wire struct {
		Entry
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(rest, &wire); err != nil {
		return Entry{}, nil, err
	}
	if wire.ID == "" || wire.Time.IsZero() {
		return Entry{}, nil, errors.New("it has no id or no time")
	}
	if event == nil {
		event = wire.Input
	}
	return wire.Entry, event, nil
}

// withoutEvent returns a line without its event, and the event, if that is a valid object at the end of the line. The event
// is most of a line, and encoding/json would read it twice.
func withoutEvent(line []byte) (rest []byte, event json.RawMessage) {
	if !bytes.HasPrefix(line, lineBegin) {
		return line, nil
	}
	begin, end := 0, 0 // of the event, if it is the last member
	whole := rawjson.Inside(line, 0, func(name []byte, at int) int {
		begin, end = 0, rawjson.SkipValue(line, at)
		if string(name) == `"input"` {
			begin = at
		}
		return end
	})
	if begin == 0 || whole != len(line) || !bytes.HasSuffix(line[:begin], eventBegin) || !rawjson.ValidMembers(line[begin:end], func(rawjson.Member) {}) {
		return line, nil
	}
	rest = append(make([]byte, 0, begin), line[:begin-len(eventBegin)]...)
	return append(rest, '}'), line[begin:end:end]
}

// eventBegin is before the event of a Record.
var eventBegin = []byte(`,"input":`)

// lineBegin is the beginning of every Record.
var lineBegin = []byte(`{"id":"`)
