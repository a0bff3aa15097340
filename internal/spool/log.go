package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	takeLock = "intake.lock"

	maxTaken = 512 << 10 // maximum bytes of an event that is copied from a side file into its Record
	maxShown = 4 << 10   // bytes of a torn line that are stored
)

// A Log is the log of a spool, for readers that copy its lines to another place. It does not block writers.
type Log struct {
	dir   string
	log   *journal.Log
	files []*LogFile
}

// OpenLog finds the segments of a log, and keeps them open until Close. A segment that has only Records from
// before a time is left out; the zero time means all. A missing directory has none.
func OpenLog(dir string, since time.Time) (*Log, error) {
	log, err := journal.Open(filepath.Join(dir, JournalDir), since)
	if err != nil {
		return nil, fmt.Errorf("cannot read the log: %w", err)
	}
	l := &Log{dir: dir, log: log}
	l.wrap()
	return l, nil
}

// Refresh finds the segments that exist now. A segment that was removed stays until the next call.
func (l *Log) Refresh() error {
	if err := l.log.Refresh(); err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	l.wrap()
	return nil
}

func (l *Log) wrap() {
	l.files = nil
	for _, segment := range l.log.Segments() {
		l.files = append(l.files, &LogFile{segment, l})
	}
}

// Files returns the current segments, in the order in which they were written.
func (l *Log) Files() []*LogFile { return l.files }

// Close closes the segments.
func (l *Log) Close() error { return l.log.Close() }

// End closes the newest segment, unless a process is writing to it.
func (l *Log) End() error {
	w := journal.Writer{Dir: filepath.Join(l.dir, JournalDir)}
	_, err := w.Next()
	return errors.Join(err, w.Close())
}

// A LogFile is one segment of a Log. Readers must call Flush before they take lines to another place: after a
// power cut, the segment must not end before a line that was taken.
type LogFile struct {
	*journal.Segment

	log *Log
}

// A Line is one line of a log.
type Line struct {
	journal.Line

	Entry Entry // decoded line without its event; for a torn line, an Entry of kind Torn
	input json.RawMessage
}

// Lines yields the lines from an offset on, as [journal.Segment.Lines] does. A line that holds no Record is
// torn, too.
func (f *LogFile) Lines(from int64) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var last time.Time
		for text, err := range f.Segment.Lines(from) {
			line := Line{Line: text}
			switch {
			case err != nil || text.Text == nil:
			case text.Torn == nil:
				line.Entry, line.input, line.Torn = decode(text.Text)
				fallthrough
			default:
				if line.Torn != nil {
					line.Torn = fmt.Errorf("%w: %w", ErrTorn, line.Torn)
					line.Entry = f.torn(&line, last)
				}
				last = line.Entry.Time
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// Refuse turns a line into a torn one, because the caller cannot use it.
func (f *LogFile) Refuse(line *Line, why error) {
	line.Torn = fmt.Errorf("%w: %w", ErrTorn, why)
	line.Entry = f.torn(line, line.Entry.Time)
}

// torn returns the Entry for a torn line. Its ID is always the same, so that a reader that finds
// it in two places recognizes it.
func (f *LogFile) torn(line *Line, last time.Time) Entry {
	if last.IsZero() {
		if ended, err := f.Ended(); err == nil {
			last = ended.UTC()
		}
	}
	shown := cutText(string(bytes.ToValidUTF8(line.Text, []byte("\uFFFD"))), maxShown, 0)
	return Entry{Record: grapnel.Record{
		ID:   "torn-" + files.Digest(fmt.Appendf(nil, "%s %d", f.Key(), line.Begin))[:28],
		Time: last, Agent: "grapnel", Event: Torn, Hooks: []grapnel.HookRun{},
		Error: fmt.Sprintf("%s, byte %d: %v: %s", f.Name(), line.Begin, line.Torn, shown),
	}}
}

// Event reads the event of a line into its Entry, if the line has one.
func (f *LogFile) Event(line *Line) error {
	e := &line.Entry
	var err error
	switch {
	case e.InputAt != "":
		e.Input = new(grapnel.Event)
		err = readAside(f.log.dir, e.InputAt, e.Input)
	case line.input != nil:
		e.Input = new(grapnel.Event)
		err = json.Unmarshal(line.input, e.Input)
	}
	if err != nil {
		e.Input = nil
		return fmt.Errorf("cannot read the event of record %s: %w", e.ID, err)
	}
	return nil
}

// Take returns the bytes to store for a line in another place: they include the event, also if it
// is in a side file, but at most 512 KiB of it. If the side file is missing, the event is left out;
// [Entry.InputAt] still has its digest. A torn line becomes the [Entry] for it. No result is longer
// than 1 MiB. After an error, the caller can try again later.
func (f *LogFile) Take(line *Line) ([]byte, error) {
	switch {
	case line.Torn != nil:
		meta, err := line.Entry.meta()
		if err != nil {
			return nil, err
		}
		return join(meta, "", nil), nil
	case line.Entry.InputAt == "" || len(line.Text) > maxLine:
		return append(bytes.Clone(line.Text), '\n'), nil
	}
	var content json.RawMessage
	err := readAside(f.log.dir, line.Entry.InputAt, &content)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return nil, err
	}
	if err != nil {
		return append(bytes.Clone(line.Text), '\n'), nil //nolint:nilerr // a missing side file does not come back
	}
	if len(content) > maxTaken {
		content = limits{total: maxTaken, text: maxTaken / 2}.reduce(content)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, content); err != nil {
		return nil, fmt.Errorf("the event of record %s: %w", line.Entry.ID, err)
	}
	return join(line.Text, "input", b.Bytes()), nil
}

// ErrBusy means that another process has a lock, or a file open. It is a constant, so that
// programs that do not use it need not create it at their start.
const ErrBusy = busy("busy")

type busy string

func (e busy) Error() string { return string(e) }

// LockIntake locks the log of a directory, so that only the caller takes lines out of it until it
// closes the result. It creates the directory if it does not exist. It returns ErrBusy if another
// process has the lock.
func LockIntake(dir string) (io.Closer, error) {
	err := files.PrivateDir(dir)
	if err == nil {
		err = files.PrivateDir(filepath.Join(dir, JournalDir)) // so that the caller can watch it
	}
	var lock *files.Lock
	if err == nil {
		lock, err = take(filepath.Join(dir, takeLock))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock the log for reading: %w", err)
	}
	return lock, nil
}

// take locks a file, or returns ErrBusy.
func take(name string) (*files.Lock, error) {
	lock, err := tryLock(name, files.Exclusive)
	if errors.Is(err, files.ErrLocked) {
		err = fmt.Errorf("%w: %s is locked by another process", ErrBusy, name)
	}
	return lock, err
}

// Remove removes a closed segment, and side files that only removed segments referred to. It returns
// [ErrBusy] if another process removes segments.
func (f *LogFile) Remove() error {
	lock, err := take(filepath.Join(f.log.dir, pruneLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := f.log.log.Remove(f.Segment); err != nil {
		if inUse(err) {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return fmt.Errorf("cannot remove a segment whose records are in the store: %w", err)
	}
	s := Spool{dir: f.log.dir}
	return s.sweep()
}
