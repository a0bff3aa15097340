package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/internal/files"
)

// A Log is the log of a directory, for one reader. Its segments stay open, so that segments that are removed
// meanwhile can still be read. It does not block writers. It is not safe for concurrent use.
type Log struct {
	dir      string
	since    time.Time
	segments []*Segment
}

// Open finds the segments of a log. Segments with only lines from before a time are left out; the zero time
// means all. A missing directory has none.
func Open(dir string, since time.Time) (*Log, error) {
	l := &Log{dir: dir, since: since}
	if err := l.Refresh(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close closes the segments.
func (l *Log) Close() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.file.Close())
	}
	l.segments = nil
	return errors.Join(errs...)
}

// Segments returns the segments, the oldest first.
func (l *Log) Segments() []*Segment { return l.segments }

// Numbers returns the numbers of the segments in the directory, also of those that were left out because they
// have only older lines.
func (l *Log) Numbers() ([]int, error) { return Numbers(l.dir) }

// Refresh finds the segments that exist now. A segment that was removed stays until the next call, so that
// its last lines can be read.
func (l *Log) Refresh() error {
	numbers, err := Numbers(l.dir)
	if err != nil {
		return err
	}
	have := map[int]*Segment{}
	var list []*Segment
	for _, s := range l.segments {
		at, err := os.Lstat(segment(l.dir, s.Number))
		same := err == nil && os.SameFile(at, s.info)
		switch {
		case same && s.removed: // another program has put it back
			s.removed, s.closed = false, false
			have[s.Number] = s
		case same:
			have[s.Number] = s
		case s.removed:
			_ = s.file.Close()
			continue
		default:
			s.removed, s.closed = true, true
		}
		list = append(list, s)
	}
	defer func() { // also after an error, so that Close closes all
		slices.SortStableFunc(list, func(a, b *Segment) int { return a.Number - b.Number })
		l.segments = list
	}()
	for i, number := range numbers {
		closed := i < len(numbers)-1
		s := have[number]
		if s == nil {
			s, err = l.open(number, closed)
			if err != nil {
				return fmt.Errorf("cannot read the journal: %w", err)
			}
			if s == nil {
				continue
			}
			list = append(list, s)
		}
		s.closed = s.closed || closed
	}
	return nil
}

// Numbers returns the numbers of the segments in a directory, the oldest first. A missing directory has none.
func Numbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		if n := numberOf(e.Name()); n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// open opens a segment, unless it is gone, has only lines from before the time of the Log, or is the newest and
// its header is missing: then it has no lines, and its key is not known.
func (l *Log) open(number int, closed bool) (*Segment, error) {
	f, err := files.OpenRegular(segment(l.dir, number), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && closed && info.ModTime().Before(l.since) {
		return nil, f.Close()
	}
	s := &Segment{Number: number, file: f, info: info, closed: closed}
	if err == nil {
		s.head, err = headerOf(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	if !closed && s.head.missing {
		return nil, f.Close()
	}
	return s, nil
}

// headerOf reads the first line of a segment. If it is damaged, the result has a key that is computed from
// it, and no time. missing means that it was not written yet.
func headerOf(f *os.File) (h header, err error) {
	var head [512]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return h, err
	}
	first, _, ended := bytes.Cut(head[:n], []byte{'\n'})
	h, ok := parseHeader(first)
	if !ok {
		return header{missing: !ended && n < len(head), key: fmt.Sprintf("damaged-%s-%s", filepath.Base(f.Name()), files.Digest(first))}, nil
	}
	if h.version != version {
		return h, fmt.Errorf("it has version %d of the journal, and this program knows %d", h.version, version)
	}
	return h, nil
}

// A Segment is one file of a Log.
type Segment struct {
	Number int

	file    *os.File
	info    fs.FileInfo
	head    header
	closed  bool // no line will follow
	removed bool // from the directory
}

// Name returns the name of the file in its directory.
func (s *Segment) Name() string { return s.info.Name() }

// Key returns the random name of the segment, which no other segment has.
func (s *Segment) Key() string { return s.head.key }

// Begun returns when the segment was made.
func (s *Segment) Begun() time.Time { return s.head.time }

// Ended returns the time of the last write.
func (s *Segment) Ended() (time.Time, error) {
	info, err := s.file.Stat()
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read %s: %w", s.Name(), err)
	}
	return info.ModTime(), nil
}

// Removed reports whether the file was removed or replaced, as of the last Refresh.
func (s *Segment) Removed() bool { return s.removed }

// Closed reports whether the content is final, as of the last Refresh.
func (s *Segment) Closed() bool { return s.closed }

// HeaderLength returns the length of the header: a segment of this size has no lines.
func (s *Segment) HeaderLength() int64 { return int64(s.head.length) }

// Size returns the current size in bytes.
func (s *Segment) Size() (int64, error) {
	info, err := s.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", s.Name(), err)
	}
	return info.Size(), nil
}

// Flush waits until the content is on disk.
func (s *Segment) Flush() error {
	if err := files.Flush(s.file); err != nil && !errors.Is(err, os.ErrPermission) { // Windows requires a file that is open for writing
		return fmt.Errorf("cannot flush %s: %w", s.Name(), err)
	}
	return nil
}

// A Line is one line of a segment.
type Line struct {
	Text  []byte // the object as it was appended; of a torn line, the bytes; nil = only a position
	Begin int64
	End   int64 // where the next line begins
	Torn  error // why the line cannot be read; nil = it can
}

// Lines yields the lines from an offset on: 0 or the End of a line. Of an open segment, it leaves out an
// incomplete last line, because the rest may follow. A line that cannot be read is yielded with Torn set. The
// last Line may have no Text, so that its End is the position that was read. An error ends the iteration.
func (s *Segment) Lines(from int64) iter.Seq2[Line, error] {
	return lines(s.Name(), io.NewSectionReader(s.file, from, 1<<62), from, s.closed)
}

// lines yields the lines of a segment. It reads from an offset to the end.
func lines(name string, r io.Reader, from int64, closed bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var text []byte
		at, yielded := from, from
		for last := false; !last; {
			var err error
			if text, err = piece(in, text[:0]); err != nil && !errors.Is(err, io.EOF) {
				yield(Line{}, fmt.Errorf("cannot read %s: %w", name, err))
				return
			}
			last = err != nil
			line, ok := read(text, at == 0)
			if ok && line.Torn != nil && last && !closed {
				break
			}
			line.Begin, line.End = at, at+int64(len(text))
			at = line.End
			if ok {
				yielded = at
				if !yield(line, nil) {
					return
				}
			}
		}
		if at > yielded {
			yield(Line{Begin: yielded, End: at}, nil)
		}
	}
}

// piece reads a line with its newline, or MaxLine bytes of one that is too long.
func piece(in *bufio.Reader, text []byte) ([]byte, error) {
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(text) < MaxLine {
				continue
			}
			err = nil
		}
		return text, err
	}
}

// read reads a line, which may end in a newline. ok is false for lines without content, and the header.
func read(text []byte, first bool) (line Line, ok bool) {
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return Line{}, false
	}
	object, err := opened(text)
	switch {
	case err != nil:
		return Line{Text: bytes.Clone(text), Torn: err}, true
	case first:
		return Line{}, false
	}
	return Line{Text: object}, true
}

// After returns how many bytes of a log come after a position.
func (l *Log) After(position int64) (bytes int64, err error) {
	number, offset := At(position)
	for _, s := range l.segments {
		size, err := s.Size()
		switch {
		case err != nil:
			return 0, err
		case s.Number == number:
			bytes += max(0, size-offset)
		case s.Number > number:
			bytes += size
		}
	}
	return bytes, nil
}
