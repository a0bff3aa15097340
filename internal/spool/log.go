package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
	"github.com/grapnel-dev/grapnel/internal/journal"
)

// Torn is the kind of an Entry for a line that could not be read. Its Error has the cause and the
// beginning of the line.
const Torn = grapnel.NativePrefix + "grapnel.torn"

const (
	maxTaken = 512 << 10 // maximum bytes of an event that is copied from a side file into its Record
	maxShown = 4 << 10   // bytes of a torn line that are stored
)

// A Log is the log of a spool. Readers must flush a segment before they take its lines to another place, as
// [Log.Next] does: after a power cut, the segment must not end before a line that was taken.
type Log struct{ *journal.Log }

// OpenLog finds the segments of a log, and keeps them open until Close. A segment that has only Records from
// before a time is left out; the zero time means all. A missing directory has none.
func OpenLog(dir string, since time.Time) (*Log, error) {
	log, err := journal.Open(filepath.Join(dir, JournalDir), since)
	if err != nil {
		return nil, err
	}
	return &Log{log}, nil
}

// End returns the position after the newest line that is complete.
func (l *Log) End() (position int64, err error) {
	segments := l.Segments()
	if len(segments) == 0 {
		return 0, nil
	}
	newest := segments[len(segments)-1]
	position = journal.Position(newest.Number, 0)
	for line, err := range newest.Lines(0) {
		if err != nil {
			return 0, err
		}
		position = journal.Position(newest.Number, line.End)
	}
	return position, nil
}

// From yields the lines after a position, in the order of the log, as [journal.Segment.Lines] does. A line that
// holds no Record is torn, too. An error about one segment does not end the iteration.
func (l *Log) From(position int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for line, err := range l.Raw(position) {
			if err == nil && line.Text != nil {
				line.Decode()
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// Raw yields the same lines as From, without an Entry. See [Line.Decode].
func (l *Log) Raw(position int64) iter.Seq2[Line, error] {
	number, offset := journal.At(position)
	return func(yield func(Line, error) bool) {
		for _, s := range l.Segments() {
			from := int64(0)
			switch {
			case s.Number < number:
				continue
			case s.Number == number:
				from = offset
			}
			var before []byte
			for text, err := range s.Lines(from) {
				if !yield(Line{Line: text, Segment: s, At: journal.Position(s.Number, text.End), before: before}, err) {
					return
				}
				if text.Torn == nil && text.Text != nil {
					before = text.Text
				}
			}
		}
	}
}

// A Line is one line of a log.
type Line struct {
	journal.Line

	Segment *journal.Segment // of the line; nil if it was read alone
	At      int64            // position behind the line, see package journal
	Entry   Entry            // decoded line without its event; for a torn line, an Entry of kind Torn
	input   json.RawMessage
	before  []byte // the last line before that is not torn; nil = unknown
}

// Decode decodes a line of [Log.Raw].
func (l *Line) Decode() {
	if l.Torn == nil {
		l.Entry, l.input, l.Torn = decode(l.Text)
	}
	if l.Torn != nil {
		l.Torn = fmt.Errorf("%w: %w", ErrTorn, l.Torn)
		l.Entry = l.torn()
	}
}

// torn returns the Entry for a torn line. It is always the same, so that a reader that finds the line in two
// places recognizes it. Its time is the time of the Record before.
func (l *Line) torn() Entry {
	s := l.Segment
	before, _, err := decode(l.before)
	if err != nil {
		before.Time = lastTime(s, l.Begin)
	}
	shown := cutText(string(bytes.ToValidUTF8(l.Text, []byte("\uFFFD"))), maxShown, 0)
	id := "torn-" + files.Digest(fmt.Appendf(nil, "%s %d", s.Key(), l.Begin))[:28]
	return tornEntry(id, before.Time, fmt.Sprintf("%s, byte %d: %v: %s", s.Name(), l.Begin, l.Torn, shown))
}

// lastTime returns the time of the last Record before an offset. The first line has the time of the segment.
func lastTime(s *journal.Segment, offset int64) time.Time {
	last := s.Begun().UTC()
	if last.IsZero() {
		if ended, err := s.Ended(); err == nil {
			last = ended.UTC()
		}
	}
	if offset > s.HeaderLength()+2 {
		for line, err := range s.Lines(0) {
			if err != nil || line.Begin >= offset {
				break
			}
			if e, _, err := decode(line.Text); line.Torn == nil && err == nil {
				last = e.Time
			}
		}
	}
	return last
}

// Parse decodes a line of the log, without its event.
func Parse(raw journal.Line) (Line, error) {
	line := Line{Line: raw}
	var err error
	line.Entry, line.input, err = decode(raw.Text)
	return line, err
}

// TornLine returns a torn line at a position, from what its Entry was.
func TornLine(at int64, id string, time time.Time, what string) Line {
	return Line{Line: journal.Line{Torn: ErrTorn}, At: at, Entry: tornEntry(id, time, what)}
}

func tornEntry(id string, time time.Time, what string) Entry {
	return Entry{Record: grapnel.Record{ID: id, Time: time, Agent: "grapnel", Event: Torn, Hooks: []grapnel.HookRun{}, Error: what}}
}

// Input returns the event as it is in the line; nil = the line has none, or the event is in a side file.
func (l *Line) Input() json.RawMessage { return l.input }

// Event reads the event into the Entry, if the line has one. dir is the directory of the spool.
func (l *Line) Event(dir string) error {
	e := &l.Entry
	var err error
	switch {
	case e.InputAt != "":
		e.Input = new(grapnel.Event)
		err = readAside(dir, e.InputAt, e.Input)
	case l.input != nil:
		e.Input = new(grapnel.Event)
		err = json.Unmarshal(l.input, e.Input)
	}
	if err != nil {
		e.Input = nil
		return fmt.Errorf("cannot read the event of record %s: %w", e.ID, err)
	}
	return nil
}

// Whole returns the line for another place: it includes the event, also if that is in a side file of the
// spool in dir, but at most 512 KiB of it. If the side file is missing, the event is left out;
// [Entry.InputAt] still has its digest. A torn line becomes the [Entry] for it. No result is longer than
// 1 MiB. After an error, the caller can try again later.
func (l *Line) Whole(dir string) ([]byte, error) {
	switch {
	case l.Torn != nil:
		return l.Entry.meta()
	case l.Entry.InputAt == "" || len(l.Text) > maxLine:
		return l.Text, nil
	}
	var content json.RawMessage
	err := readAside(dir, l.Entry.InputAt, &content)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return nil, err
	}
	if err != nil {
		return l.Text, nil //nolint:nilerr // a missing side file does not come back
	}
	if len(content) > maxTaken {
		content = limits{total: maxTaken, text: maxTaken / 2}.reduce(content)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, content); err != nil {
		return nil, fmt.Errorf("the event of record %s: %w", l.Entry.ID, err)
	}
	return join(l.Text, "input", b.Bytes()), nil
}
