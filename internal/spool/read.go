package spool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
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
// yields an error that names file and line, and does not end the iteration. A missing directory
// is an empty log.
func Read(dir string, filter Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		t := tail{dir: dir, filter: filter}
		defer t.close()
		if err := t.refresh(); err != nil {
			yield(Entry{}, err)
			return
		}
		t.read(true, yield)
	}
}

// IDs returns the IDs of the Records in the log, sorted, each once. It does not decode the Records.
func IDs(dir string) ([]string, error) {
	t := tail{dir: dir}
	defer t.close()
	if err := t.refresh(); err != nil {
		return nil, err
	}
	var ids []string
	for _, f := range t.files {
		lines := bufio.NewReaderSize(io.NewSectionReader(f.file, 0, 1<<62), maxLine)
		for begin := true; ; {
			part, err := lines.ReadSlice('\n') // the beginning of a line, or more of a long one
			if id := idOf(part); begin && id != "" {
				ids = append(ids, id)
			}
			begin = err == nil
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				if !errors.Is(err, io.EOF) {
					return nil, fmt.Errorf("cannot read %s: %w", f.name, err)
				}
				break
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
		t := tail{dir: dir, filter: filter}
		defer t.close()
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for {
			if err := t.refresh(); err != nil && !yield(Entry{}, err) {
				return
			}
			if !t.read(false, yield) {
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

// A tail reads the files of a log, and later the lines that were appended.
type tail struct {
	dir    string
	filter Filter
	files  []*tracked // in the order in which they were written
}

// tracked is a file that stays open, so that no other file can get its inode. It may be renamed
// while lines are still appended.
type tracked struct {
	file *os.File
	name string
	info os.FileInfo
	done int64 // bytes that were read
	line int   // lines that were read
	gone int   // passes since its name disappeared
}

func (t *tail) close() {
	for _, f := range t.files {
		_ = f.file.Close()
	}
}

// refresh finds the current files. It opens the current file before it lists the others: if that
// file is renamed in between, it is seen twice and not missed.
func (t *tail) refresh() error {
	for _, f := range t.files {
		f.gone++
	}
	current, err := t.track(recordsFile)
	if err != nil {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	names, err := asideFiles(t.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot read the log: %w", err)
	}
	var order []*tracked
	for _, name := range names {
		if asideTime(name).Before(t.filter.Since) {
			continue // it has only older Records
		}
		f, err := t.track(name)
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		if f != nil {
			f.name = name
			order = append(order, f)
		}
	}
	for _, f := range t.files {
		switch {
		case f == current || slices.Contains(order, f):
		case f.gone <= 2: // a writer may still append a line
			order = append(order, f)
		default:
			_ = f.file.Close()
		}
	}
	if current != nil && !slices.Contains(order, current) {
		order = append(order, current)
	}
	t.files = order
	return nil
}

// track returns the file of this name, and opens it if it is new. It returns nil if the file does
// not exist.
func (t *tail) track(name string) (*tracked, error) {
	file, err := files.OpenRegular(filepath.Join(t.dir, name), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	for _, f := range t.files {
		if os.SameFile(f.info, info) {
			_ = file.Close()
			f.gone = 0
			return f, nil
		}
	}
	f := &tracked{file: file, name: name, info: info}
	t.files = append(t.files, f)
	return f, nil
}

// read yields the unread lines. A last line without a newline is torn if final is set; otherwise
// the rest may follow. read reports whether to continue.
func (t *tail) read(final bool, yield func(Entry, error) bool) bool {
	for _, f := range t.files {
		lines := bufio.NewReaderSize(io.NewSectionReader(f.file, f.done, 1<<62), maxLine)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				if !yield(Entry{}, fmt.Errorf("cannot read %s: %w", f.name, err)) {
					return false
				}
				break
			}
			if len(line) == 0 || err != nil && !final {
				break
			}
			f.done += int64(len(line))
			f.line++
			if !t.yield(f, line, yield) {
				return false
			}
			if err != nil {
				break
			}
		}
	}
	return true
}

// yield decodes a line and yields its Entry.
func (t *tail) yield(f *tracked, line []byte, yield func(Entry, error) bool) bool {
	if len(bytes.TrimSpace(line)) == 0 {
		return true
	}
	var problem error
	e, input, err := decode(line)
	if err != nil {
		problem = fmt.Errorf("%s:%d: %w: %w", f.name, f.line, ErrTorn, err)
		// Two processes may have appended right after a line was torn. The second line is
		// complete.
		var inner int
		if e, input, inner = rescue(line); inner == 0 {
			return yield(Entry{}, problem)
		}
	}
	if problem != nil && !yield(Entry{}, problem) {
		return false
	}
	if !t.filter.Wants(&e) {
		return true
	}
	if e.InputAt != "" {
		e.Input = new(grapnel.Event)
		err = readAside(t.dir, e.InputAt, e.Input)
	} else if input != nil {
		e.Input = new(grapnel.Event)
		err = json.Unmarshal(input, e.Input)
	}
	if err != nil {
		e.Input = nil
		if !yield(Entry{}, fmt.Errorf("%s:%d: cannot read the event of record %s: %w", f.name, f.line, e.ID, err)) {
			return false
		}
	}
	return yield(e, nil)
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

// lineBegin is the beginning of every line.
var lineBegin = []byte(`{"id":"`)

// rescue searches for a complete line after a torn one, and returns its offset; 0 = not found.
func rescue(line []byte) (Entry, json.RawMessage, int) {
	for at := 1; at < len(line); at++ {
		next := bytes.Index(line[at:], lineBegin)
		if next < 0 {
			break
		}
		at += next
		if e, input, err := decode(line[at:]); err == nil {
			return e, input, at
		}
	}
	return Entry{}, nil, 0
}
