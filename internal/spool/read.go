package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/rawjson"
)

// Alive is the kind of a heartbeat: a Record that says that the machine works.
const Alive grapnel.Kind = grapnel.NativePrefix + "grapnel.alive"

// ErrTorn is the error for a line that holds no complete Record: a disk was full or the power
// failed while it was written, or the file was changed.
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
		log.read(filter, map[string]int64{}, yield)
	}
}

// read yields the Entries after the positions in done, by key, and changes the positions. It reports whether
// to continue.
func (l *Log) read(filter Filter, done map[string]int64, yield func(Entry, error) bool) bool {
	for _, f := range l.files {
		for line, err := range f.Lines(done[f.Key()]) {
			if err == nil {
				done[f.Key()] = line.End
			}
			if (err != nil || line.Text != nil) && !l.yield(f, &line, err, filter, yield) {
				return false
			}
		}
	}
	return true
}

// yield yields a line as an Entry, if it is wanted.
func (l *Log) yield(f *LogFile, line *Line, err error, filter Filter, yield func(Entry, error) bool) bool {
	switch {
	case err != nil:
		return yield(Entry{}, err)
	case line.Torn != nil:
		return yield(Entry{}, fmt.Errorf("%s, byte %d: %w", f.Name(), line.Begin, line.Torn))
	case !filter.Wants(&line.Entry):
		return true
	}
	if err := line.Event(l.dir); err != nil && !yield(Entry{}, fmt.Errorf("%s: %w", f.Name(), err)) {
		return false
	}
	return yield(line.Entry, nil)
}

// IDs returns the IDs of the Records after a position of the log, sorted, each once, and none of torn lines. It
// does not decode the Records.
func (l *Log) IDs(after int64) ([]string, error) {
	var ids []string
	number, offset := journal.At(after)
	for _, f := range l.files {
		from := int64(0)
		switch {
		case f.Number < number:
			continue
		case f.Number == number:
			from = offset
		}
		for line, err := range f.Segment.Lines(from) {
			if err != nil {
				return nil, err
			}
			if id := idOf(line.Text); id != "" && line.Torn == nil {
				ids = append(ids, id)
			}
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

// poll is how often Follow checks for new lines.
const poll = 200 * time.Millisecond

// Follow yields the same as Read, and then new Entries until ctx is done.
func Follow(ctx context.Context, dir string, filter Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		log := &Log{dir: dir}
		defer func() {
			if log.log != nil {
				_ = log.Close()
			}
		}()
		done := map[string]int64{}
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for {
			var err error
			if log.log == nil {
				var opened *Log
				if opened, err = OpenLog(dir, filter.Since); err == nil {
					log = opened
				}
			} else {
				err = log.Refresh()
			}
			if err != nil && !yield(Entry{}, err) || err == nil && !log.read(filter, done, yield) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// decode decodes a line. The event is returned separately, because few callers need it.
func decode(line []byte) (Entry, json.RawMessage, error) {
	var wire struct {
		Entry
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(line, &wire); err != nil {
		return Entry{}, nil, err
	}
	if wire.ID == "" || wire.Time.IsZero() {
		return Entry{}, nil, errors.New("it has no id or no time")
	}
	return wire.Entry, wire.Input, nil
}

// lineBegin is the beginning of every Record.
var lineBegin = []byte(`{"id":"`)
