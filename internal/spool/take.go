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
	"github.com/grapnel-dev/grapnel/internal/atomicfile"
	"github.com/grapnel-dev/grapnel/internal/digest"
)

// Torn is the kind of an Entry that stands for a line which could not be read. Its Error
// says why, and what stood there.
const Torn = grapnel.NativePrefix + "grapnel.torn"

const (
	takeLock = "intake.lock"

	maxPiece = 1<<20 - maxLine // bytes of a line that are looked at together; what is longer was never a Record
	maxTaken = 512 << 10       // bytes of an event that leave a side file with their Record
	maxShown = 4 << 10         // bytes of a torn line that are kept
)

// A Log is the files of a log as they are, for those who take its lines elsewhere. It
// reads beside those who write, and keeps nobody from writing.
type Log struct {
	tail  tail
	files []*LogFile
}

// OpenLog finds the files of a log, and keeps them open until Close: what is put aside or
// removed meanwhile can be read all the same. A directory that is not there has none.
func OpenLog(dir string) (*Log, error) {
	l := &Log{tail: tail{dir: dir}}
	if err := l.Refresh(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Refresh finds the files there are now. One that is gone stays for two more times: a line
// may be on its way into it.
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

// Files are the files there are, in the order in which they were written.
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

// Name is what the file is called now, inside of its directory.
func (f *LogFile) Name() string { return f.tracked.name }

// Current reports whether it is the file into which Records are written now.
func (f *LogFile) Current() bool { return f.tracked.name == recordsFile }

// Begun is the time of its first Record, or zero.
func (f *LogFile) Begun() time.Time { return firstTime(f.tracked.file) }

// Size is how many bytes it has now.
func (f *LogFile) Size() (int64, error) {
	info, err := f.tracked.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", f.Name(), err)
	}
	return info.Size(), nil
}

// Key names the file by what it begins with, up to the end of its first Record, whose ID
// no other has: it stays the same when the file is renamed, and a file that comes in its
// place has another. It is empty while there is no such line; final says that none will
// come any more, and that what there is has to do.
func (f *LogFile) Key(final bool) (string, error) {
	if f.key != "" {
		return f.key, nil
	}
	for size := int64(8 << 10); ; size *= 4 { // a Record is seldom longer
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
			f.key = digest.Of(head[:end])
		}
		if end > 0 || whole || size == maxPiece {
			return f.key, nil
		}
	}
}

// firstRecord is where the first line ends that holds a Record, or 0. Its newline is not
// counted: a last line may have none.
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
	Text  []byte // as it stands there, without its end
	Begin int64
	End   int64 // where the next begins
	Entry Entry // what it says, without its event; where it is torn, an Entry that says so
	Torn  error // why it cannot be read; nil = it can

	input json.RawMessage
}

// Lines yields the lines from a place in the file on that have an end. Where final says
// that nobody writes to it any more, the last one needs none. Empty lines are left out,
// but the last Line may be one without a Text, so that its End is that of what was read.
//
// A line that is torn is yielded as what it is. If a whole one begins inside of it, because
// two processes wrote at the same time, that is yielded next. An error ends it.
func (f *LogFile) Lines(from int64, final bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		p := pieces{file: f.tracked.file, at: from, final: final}
		if _, err := f.Key(final); err != nil { // torn lines are named by it
			yield(Line{}, err)
			return
		}
		told := from
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
				told, last = line.End, line.Entry.Time
				if !yield(line, nil) {
					return
				}
			}
		}
		if p.at > told {
			yield(Line{Begin: told, End: p.at}, nil)
		}
	}
}

// readLines are the lines in a piece of a file: none, one, or a torn one with a whole one
// behind it. cut says that the piece has no end.
func readLines(piece []byte, cut bool) []Line {
	text := bytes.TrimSpace(piece)
	if len(text) == 0 {
		return nil
	}
	line := Line{Text: text, End: int64(len(piece))}
	var err error
	switch line.Entry, line.input, err = decode(text); {
	case cut:
		err = fmt.Errorf("it has no end within %d bytes", len(piece))
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

// pieces reads a file line by line, and what has no end in parts.
type pieces struct {
	file  io.ReaderAt
	at    int64 // where the next begins
	final bool
	lines *bufio.Reader // from at on; nil = not yet
}

// next returns a line with its end, or nil where there is none yet. cut says that it is a
// part of something too long to be a line; it ends before what looks like a Record.
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

// Refuse makes a line a torn one, because it is of no use to whoever takes it.
func (f *LogFile) Refuse(line *Line, why error) {
	line.Torn = fmt.Errorf("%w: %w", ErrTorn, why)
	line.Entry = f.torn(line, line.Entry.Time)
}

// torn is the Entry that stands for a line. Its ID is always the same, so that whoever
// finds it in two places knows it again.
func (f *LogFile) torn(line *Line, last time.Time) Entry {
	if last.IsZero() {
		if info, err := f.tracked.file.Stat(); err == nil {
			last = info.ModTime().UTC()
		}
	}
	shown := cutText(string(bytes.ToValidUTF8(line.Text, []byte("\uFFFD"))), maxShown, 0)
	return Entry{Record: grapnel.Record{
		ID:   "torn-" + digest.Of(fmt.Appendf(nil, "%s %d", f.key, line.Begin))[:28],
		Time: last, Agent: "grapnel", Event: Torn, Hooks: []grapnel.HookRun{},
		Error: fmt.Sprintf("%s, byte %d: %v: %s", f.Name(), line.Begin, line.Torn, shown),
	}}
}

// Event puts the event into the Entry of a line, if there is one.
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

// Take is what is to be kept of a line elsewhere, where the files here are not: its
// event is in it, though it lay in a side file, but at most 512 KiB of that. One whose side
// file is gone stays without; [Entry.InputAt] still says what it was. A torn line is the
// [Entry] that stands for it. No line is longer than 1 MiB. An error says that the same can
// be tried later.
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
		return append(bytes.Clone(line.Text), '\n'), nil //nolint:nilerr // what is gone does not come back
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

// Flush waits until what was written into the file is on the disk. Who takes lines from it
// does so first: after a power cut, the file must not end before what was taken.
func (f *LogFile) Flush() error {
	if err := atomicfile.Flush(f.tracked.file); err != nil && !errors.Is(err, os.ErrPermission) { // Windows wants it open for writing
		return fmt.Errorf("cannot flush %s: %w", f.Name(), err)
	}
	return nil
}

// ErrBusy says that somebody else has a lock, or a file open. It is a constant, so that
// programs which take nothing do not make it when they start.
const ErrBusy = busy("busy")

type busy string

func (e busy) Error() string { return string(e) }

// LockIntake makes whoever calls it the only one who takes lines out of the log in a
// directory, until it closes what is returned. It makes the directory, if there is none.
// ErrBusy says that another does.
func LockIntake(dir string) (io.Closer, error) {
	err := ready(dir)
	var lock *os.File
	if err == nil {
		lock, err = take(filepath.Join(dir, takeLock))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take the log in: %w", err)
	}
	return lock, nil
}

// take locks a file, or returns ErrBusy.
func take(name string) (*os.File, error) {
	lock, err := tryLock(name, exclusive)
	if errors.Is(err, errLocked) {
		err = fmt.Errorf("%w: %s is locked by another process", ErrBusy, name)
	}
	return lock, err
}

func (l *Log) path(name string) string { return filepath.Join(l.tail.dir, name) }

// PutAside renames the current file, so that the next Record begins a new one. Those who
// have it open may still write into it. ErrBusy says that another is just doing that, or on
// Windows that the file is open somewhere. There it cannot be read any more after this.
func (f *LogFile) PutAside() error {
	lock, err := take(f.log.path(recordsLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	if ours, err := f.is(recordsFile); err != nil || !ours {
		return err // another has put it aside
	}
	name := recordsPrefix + time.Now().UTC().Format(asideFormat) + recordsSuffix
	if _, err := os.Lstat(f.log.path(name)); err == nil {
		return fmt.Errorf("%w: there is a %s", ErrBusy, name)
	}
	f.letGo()
	if err := os.Rename(f.log.path(recordsFile), f.log.path(name)); err != nil {
		if inUse(err) {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
		return fmt.Errorf("cannot put %s aside: %w", recordsFile, err)
	}
	f.tracked.name = name
	return nil
}

// letGo closes the file where the system neither renames nor removes one that is open.
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

// Remove removes a file that was put aside, if it still has just so many bytes and nobody
// is known to have it open for writing. ErrBusy says that it has more, or that somebody
// has: it is to be tried again. Where that cannot be known, the caller waits long enough
// between PutAside, or the last time that the size changed, and Remove.
//
// Side files that only files could name which are gone are removed, too.
func (f *LogFile) Remove(size int64) error {
	if f.Current() {
		return fmt.Errorf("cannot remove %s: it is the current one", f.Name())
	}
	lock, err := take(f.log.path(recordsLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	ours, err := f.is(f.Name())
	if err != nil || !ours {
		return err // it is gone
	}
	if writing(f.tracked.file) {
		return fmt.Errorf("%w: somebody may still write into %s", ErrBusy, f.Name())
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
		return fmt.Errorf("cannot remove what was taken in: %w", err)
	}
	s := Spool{dir: f.log.tail.dir}
	return s.sweep()
}
