package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/files"
)

// Torn is the kind of an Entry for a line that could not be read. Its Error has the cause and the
// beginning of the line.
const Torn = grapnel.NativePrefix + "grapnel.torn"

const (
	takeLock = "intake.lock"

	maxPiece = 1<<20 - maxLine // bytes of a line that are read at once; longer lines were never Records
	maxTaken = 512 << 10       // maximum bytes of an event that is copied from a side file into its Record
	maxShown = 4 << 10         // bytes of a torn line that are stored
)

// A Log is the set of files of a log, for readers that copy its lines to another place. It does
// not block writers.
type Log struct {
	tail  tail
	files []*LogFile
}

// OpenLog finds the files of a log, and keeps them open until Close, so that files that are
// renamed or removed meanwhile can still be read. A file that has only Records from before a time
// is left out; the zero time means all files. A missing directory has no files.
func OpenLog(dir string, since time.Time) (*Log, error) {
	l := &Log{tail: tail{dir: dir, filter: Filter{Since: since}}}
	if err := l.Refresh(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Refresh finds the files that exist now. A file that has disappeared stays for two more calls,
// because a writer may still append a line.
func (l *Log) Refresh() error {
	if err := l.tail.refresh(); err != nil {
		return err
	}
	files := make([]*LogFile, len(l.tail.files))
	for i, f := range l.tail.files {
		files[i] = &LogFile{log: l, tracked: f}
		for _, before := range l.files {
			if before.tracked == f {
				files[i] = before
			}
		}
	}
	l.files = files
	return nil
}

// Files returns the current files, in the order in which they were written.
func (l *Log) Files() []*LogFile { return l.files }

// Close closes the files.
func (l *Log) Close() error {
	l.tail.close()
	l.tail.files, l.files = nil, nil
	return nil
}

// A LogFile is one file of a Log.
type LogFile struct {
	log     *Log
	tracked *tracked
	key     string
}

// Name returns the current name of the file in its directory.
func (f *LogFile) Name() string { return f.tracked.name }

// Current reports whether writers append to this file now.
func (f *LogFile) Current() bool { return f.tracked.name == recordsFile }

// Begun returns the time of the first Record in the file, or zero.
func (f *LogFile) Begun() time.Time { return firstTime(f.tracked.file) }

// Size returns the current size of the file in bytes.
func (f *LogFile) Size() (int64, error) {
	info, err := f.tracked.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", f.Name(), err)
	}
	return info.Size(), nil
}

// Key returns a name for the file from its beginning, up to the end of its first Record, whose ID
// is unique: the key stays the same when the file is renamed, and a replacement has another key.
// The key is empty while the file has no such line. final means that no line will follow, so that
// Key uses the existing bytes.
func (f *LogFile) Key(final bool) (string, error) {
	if f.key != "" {
		return f.key, nil
	}
	for size := int64(8 << 10); ; size *= 4 { // Records are seldom longer
		size = min(size, maxPiece)
		head, err := io.ReadAll(io.NewSectionReader(f.tracked.file, 0, size))
		if err != nil {
			return "", fmt.Errorf("cannot read %s: %w", f.Name(), err)
		}
		end := firstRecord(head)
		whole := int64(len(head)) < size
		if end == 0 && (len(head) == maxPiece || whole && final) {
			end = len(head)
		}
		if end > 0 {
			f.key = files.Digest(head[:end])
		}
		if end > 0 || whole || size == maxPiece {
			return f.key, nil
		}
	}
}

// firstRecord returns the end of the first line that holds a Record, or 0. The newline is not
// included, because the last line may have none.
func firstRecord(head []byte) int {
	for at := 0; ; at++ {
		n := bytes.IndexByte(head[at:], '\n')
		if n < 0 {
			return 0
		}
		line := head[at : at+n]
		at += n
		if _, _, err := decode(line); err == nil {
			return at
		}
		if _, _, inner := rescue(line); inner > 0 {
			return at
		}
	}
}

// A Line is one line of a log.
type Line struct {
	Text  []byte // the original bytes, without the newline
	Begin int64
	End   int64 // where the next line begins
	Entry Entry // decoded line without its event; for a torn line, an Entry of kind Torn
	Torn  error // why the line cannot be read; nil = it can be read

	input json.RawMessage
}

// Lines yields the lines from an offset on that end in a newline. final means that no process
// writes to the file any more; then the last line needs no newline. Empty lines are left out, but
// the last Line may have no Text, so that its End is the position that was read.
//
// A torn line is yielded with Torn set. If a complete line begins inside it, because two
// processes wrote at the same time, that line is yielded next. An error ends the iteration.
func (f *LogFile) Lines(from int64, final bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		p := pieces{file: f.tracked.file, at: from, final: final}
		if _, err := f.Key(final); err != nil { // Refuse and torn use the key
			yield(Line{}, err)
			return
		}
		yielded := from
		var last time.Time
		for {
			begin := p.at
			piece, cut, err := p.next()
			if err != nil {
				yield(Line{}, fmt.Errorf("cannot read %s: %w", f.Name(), err))
				return
			}
			if piece == nil {
				break
			}
			for _, line := range readLines(piece, cut) {
				line.Begin += begin
				line.End += begin
				if line.Torn != nil {
					line.Entry = f.torn(&line, last)
				}
				yielded, last = line.End, line.Entry.Time
				if !yield(line, nil) {
					return
				}
			}
		}
		if p.at > yielded {
			yield(Line{Begin: yielded, End: p.at}, nil)
		}
	}
}

// readLines returns the lines in a piece of a file: none, one, or a torn line followed by a
// complete one. cut means that the piece has no newline.
func readLines(piece []byte, cut bool) []Line {
	text := bytes.TrimSpace(piece)
	if len(text) == 0 {
		return nil
	}
	line := Line{Text: text, End: int64(len(piece))}
	var err error
	switch line.Entry, line.input, err = decode(text); {
	case cut:
		err = fmt.Errorf("the line has no end within %d bytes", len(piece))
	case err == nil:
		return []Line{line}
	}
	line.Torn = fmt.Errorf("%w: %w", ErrTorn, err)
	if cut {
		return []Line{line}
	}
	e, input, inner := rescue(text)
	if inner == 0 {
		return []Line{line}
	}
	behind := Line{Text: text[inner:], End: line.End, Entry: e, input: input}
	behind.Begin = int64(bytes.Index(piece, text) + inner)
	line.Text, line.End = text[:inner], behind.Begin
	return []Line{line, behind}
}

// pieces reads a file line by line, and lines that are too long in parts.
type pieces struct {
	file  io.ReaderAt
	at    int64 // offset of the next piece
	final bool
	lines *bufio.Reader // reader that begins at offset at; nil = not yet
}

// next returns a line with its newline, or nil if the file does not contain a complete line yet.
// cut means that the piece is a part of a line that is too long; it ends before the beginning of a
// possible Record.
func (p *pieces) next() (piece []byte, cut bool, err error) {
	if p.lines == nil {
		p.lines = bufio.NewReaderSize(io.NewSectionReader(p.file, p.at, 1<<62), maxLine)
	}
	for {
		part, err := p.lines.ReadSlice('\n')
		piece = append(piece, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && p.final && len(piece) > 0:
			p.at += int64(len(piece))
			return piece, false, nil
		case errors.Is(err, io.EOF):
			p.lines = nil
			return nil, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		case len(piece) < maxPiece:
			continue
		}
		if begin := bytes.LastIndex(piece, lineBegin); begin > 0 && begin > len(piece)-2*maxLine {
			piece = piece[:begin]
		}
		p.at += int64(len(piece))
		p.lines = nil
		return piece, true, nil
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
		if info, err := f.tracked.file.Stat(); err == nil {
			last = info.ModTime().UTC()
		}
	}
	shown := cutText(string(bytes.ToValidUTF8(line.Text, []byte("\uFFFD"))), maxShown, 0)
	return Entry{Record: grapnel.Record{
		ID:   "torn-" + files.Digest(fmt.Appendf(nil, "%s %d", f.key, line.Begin))[:28],
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
		err = readAside(f.log.tail.dir, e.InputAt, e.Input)
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
	err := readAside(f.log.tail.dir, line.Entry.InputAt, &content)
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

// Flush waits until the content of the file is on disk. Readers must call it before they take
// lines: after a power cut, the file must not end before a line that was taken.
func (f *LogFile) Flush() error {
	if err := files.Flush(f.tracked.file); err != nil && !errors.Is(err, os.ErrPermission) { // Windows requires a file that is open for writing
		return fmt.Errorf("cannot flush %s: %w", f.Name(), err)
	}
	return nil
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

func (l *Log) path(name string) string { return filepath.Join(l.tail.dir, name) }

// PutAside renames the current file, so that the next Record begins a new one. Writers that have
// it open may still append to it. It returns ErrBusy if another process is renaming it, or on
// Windows if the file is open in another process. On Windows, the file cannot be read after this.
func (f *LogFile) PutAside() error {
	lock, err := take(f.log.path(recordsLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	if ours, err := f.is(recordsFile); err != nil || !ours {
		return err // another process has renamed it
	}
	name := recordsPrefix + time.Now().UTC().Format(asideFormat) + recordsSuffix
	if _, err := os.Lstat(f.log.path(name)); err == nil {
		return fmt.Errorf("%w: %s already exists", ErrBusy, name)
	}
	f.letGo()
	if err := os.Rename(f.log.path(recordsFile), f.log.path(name)); err != nil {
		if inUse(err) {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return fmt.Errorf("cannot rename %s: %w", recordsFile, err)
	}
	f.tracked.name = name
	return nil
}

// letGo closes the file on systems that cannot rename or remove an open file.
func (f *LogFile) letGo() {
	if runtime.GOOS == "windows" {
		_ = f.tracked.file.Close()
	}
}

// is reports whether this is the file of that name.
func (f *LogFile) is(name string) (bool, error) {
	info, err := os.Lstat(f.log.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, f.tracked.info), err
}

// Remove removes a renamed file, if its size is still size and no process is known to have it
// open for writing. ErrBusy means that the size has changed or that a process may write: try
// again later. If writers are unknown on this system, the caller must wait long enough after
// PutAside, or after the last change of the size.
//
// Remove also removes side files that only removed files referred to.
func (f *LogFile) Remove(size int64) error {
	if f.Current() {
		return fmt.Errorf("cannot remove %s: it is the current file", f.Name())
	}
	lock, err := take(f.log.path(recordsLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	ours, err := f.is(f.Name())
	if err != nil || !ours {
		return err // it was removed already
	}
	if writing(f.tracked.file) {
		return fmt.Errorf("%w: another process may still write to %s", ErrBusy, f.Name())
	}
	now, err := f.Size()
	if err != nil {
		return err
	}
	if now != size {
		return fmt.Errorf("%w: %s has %d bytes, not %d", ErrBusy, f.Name(), now, size)
	}
	f.letGo()
	if err := os.Remove(f.log.path(f.Name())); err != nil {
		if inUse(err) {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return fmt.Errorf("cannot remove a file whose records are in the store: %w", err)
	}
	s := Spool{dir: f.log.tail.dir}
	return s.sweep()
}
